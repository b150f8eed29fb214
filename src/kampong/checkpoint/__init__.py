"""Saving and loading: every estimator as arrays and plain values under a digest, no pickle anywhere.

`file` writes and reads one verified file, `contents` gives a state back value by value, `parts` knows what models are
made of, `models` knows the classes. An estimator takes part by its base `Savable` and two methods that say its state.
"""

from kampong.checkpoint.contents import Contents
from kampong.checkpoint.file import CheckpointError, read, write
from kampong.checkpoint.models import Savable, load, pack, savable, save, unpack

__all__ = ["CheckpointError", "Contents", "Savable", "load", "pack", "read", "savable", "save", "unpack", "write"]
