"""Saving and loading: every estimator as arrays and plain values under a digest, no pickle anywhere.

`container` writes and reads one verified file, `contents` reads a state back value by value, `fields` declares the
values of a state once, `saved_models` saves and loads the registered classes. An estimator inherits from `Savable` and
has two methods that write and read its state.
"""

from kampong.files.container import read, write
from kampong.files.contents import Contents
from kampong.files.model_errors import CheckpointError
from kampong.files.replace import LockedError, held
from kampong.files.saved_models import Savable, from_bytes, load, pack, savable, save, to_bytes, unpack

__all__ = [
    "CheckpointError",
    "Contents",
    "LockedError",
    "Savable",
    "from_bytes",
    "held",
    "load",
    "pack",
    "read",
    "savable",
    "save",
    "to_bytes",
    "unpack",
    "write",
]
