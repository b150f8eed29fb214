"""Saving and loading: every estimator as arrays and plain values under a digest, no pickle anywhere.

`file` writes and reads one verified file, `contents` reads a state back value by value, `models` saves and loads the
registered classes. An estimator inherits from `Savable` and has two methods that write and read its state.
"""

from kampong.checkpoint.contents import Contents
from kampong.checkpoint.errors import CheckpointError
from kampong.checkpoint.file import read, write
from kampong.checkpoint.lock import LockedError, held
from kampong.checkpoint.models import Savable, from_bytes, load, pack, savable, save, to_bytes, unpack

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
