"""What a command will write, checked before it begins: no target is an input or another target, all can be written."""

from __future__ import annotations

import itertools
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from kampong.streaming.errors import OutputError, UsageError
from kampong.streaming.sources import kind_of, scheme_of
from kampong.streaming.sources.address import check_address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kampong.files.signing import Key

STDIN, STDOUT = 0, 1
BY_MESSAGE = ("--out", "--dead-letters")


def check_targets(inputs: Mapping[str, Sequence[str]], targets: Mapping[str, str], endings: Sequence[str] = ()) -> None:
    """Refuse targets that would destroy an input or each other, and targets that cannot be written.

    Parameters
    ----------
    inputs : mapping of str to sequence of str
        What is only read, by the name to show for it; "-" is stdin.
    targets : mapping of str to str
        What is written, by its option; "-" is stdout, "" is nothing.
    endings : sequence of str
        How the files of a folder that is an input end, with the dot.
    """
    read = [(name, path) for name, paths in inputs.items() for path in paths if path]
    written = [(option, path) for option, path in targets.items() if path]
    for option, path in written:
        for name, other in read:
            if _same(path, STDOUT, other, STDIN) or _is_part(path, other, endings):
                raise UsageError(f"{option} {path}: this is {name}, and writing would destroy it. Choose another file.")
    for (option, path), (second, other) in itertools.combinations(written, 2):
        if _same(path, STDOUT, other, STDOUT):
            raise UsageError(f"{option} {path} and {second} {other} are one file. Give each a file of its own.")
    for option, path in written:
        if scheme_of(path):
            _check_address(option, path)
        elif path != "-":
            _check_writable(option, Path(path))


def key_file(key: Key) -> dict[str, list[str]]:
    """Return the file of a key as an input, where the key is in a file."""
    return {"the key": [os.fspath(key)]} if isinstance(key, str | os.PathLike) else {}


def _same(path: str, at: int, other: str, other_at: int) -> bool:
    """Tell whether two paths are one file, also through links; "-" is what the shell has put there."""
    mine, theirs = _marks(path, at), _marks(other, other_at)
    if mine is not None and theirs is not None:
        return mine == theirs
    if "-" in (path, other):
        return path == other and at == other_at
    free = not Path(path).exists() and not Path(other).exists()
    return free and os.path.realpath(path) == os.path.realpath(other)


def _marks(path: str, descriptor: int) -> tuple[int, int] | None:
    """Return what tells a file from all others; None for one that does not exist, and for a device or a pipe."""
    try:
        found = os.fstat(descriptor) if path == "-" else Path(path).stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def _is_part(path: str, folder: str, endings: Sequence[str]) -> bool:
    """Tell whether a file would be read as part of a folder."""
    if "-" in (path, folder) or not Path(folder).is_dir():
        return False
    inside = Path(os.path.realpath(folder)) in Path(os.path.realpath(path)).parents
    return inside and Path(path).name.lower().endswith(tuple(endings))


def _check_address(option: str, path: str) -> None:
    """Refuse an address with a secret, and one of something that cannot be written to."""
    check_address(path)
    if option not in BY_MESSAGE:
        raise UsageError(f"{option} {path}: this is an address. Give a file.")
    kind_of(path).check_to_write(path)


def _check_writable(option: str, path: Path) -> None:
    problem = ""
    if path.is_dir():
        problem = "this is a folder"
    elif path.exists():
        problem = "" if os.access(path, os.W_OK) else "permission denied"
    elif not path.parent.is_dir():
        problem = f"there is no folder {path.parent}"
    elif not os.access(path.parent, os.W_OK | os.X_OK):
        problem = f"permission denied in the folder {path.parent}"
    if problem:
        raise OutputError(f"{option} {path}: {problem}. Choose another place for it.")
