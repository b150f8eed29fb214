"""The heads of the library; other tests register heads of their own, which no file or pipeline can hold."""

from kampong.heads import HEADS

OURS = [name for name, kind in HEADS.items() if kind.__module__.startswith("kampong.")]
