"""The sources that a model has learnt, remembered by the digests of their bytes, so that none is learnt twice."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from kampong.files.contents import to_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong.files import Contents

MOST = 10_000
"""Sources that are remembered; of more, the latest."""

LONGEST_NAME = 1000
WITNESS = 4096  # first bytes that tell most sources apart, so that few are read twice
DIGITS = 32
CHUNK = 2**20


@dataclass(frozen=True)
class Fingerprint:
    """What a sequence of bytes is recognised by.

    Attributes
    ----------
    size : int
        How many bytes there are; 0 for bytes that cannot be recognised.
    digest : str
        Their SHA-256 digest, its first 32 hexadecimal digits.
    head : str
        The digest of the first of them, at most 4096.
    head_size : int
        How many those are.
    """

    size: int = 0
    digest: str = ""
    head: str = ""
    head_size: int = 0


@dataclass(frozen=True)
class LearntSource:
    """A source that was read to its end: its path as it was given, its bytes, the rows learnt and the dead letters."""

    name: str
    bytes: Fingerprint
    rows: int = 0
    dead: int = 0


@dataclass
class Learnt:
    """The sources that a model has learnt, the latest 10,000 of them.

    Parameters
    ----------
    sources : list of LearntSource
        Those that are remembered, oldest first.
    count, rows, dead : int
        How many there were, the rows and dead letters of all of them; more than those remembered add up to, where the
        oldest are not remembered.
    """

    sources: list[LearntSource] = field(default_factory=list)
    count: int = 0
    rows: int = 0
    dead: int = 0

    def add(self, name: str, found: Fingerprint, rows: int, dead: int) -> None:
        """Add a source; `rows` and `dead` count those of all sources up to its end."""
        one = LearntSource(name[-LONGEST_NAME:], found, rows - self.rows, dead - self.dead)
        self.sources = [*self.sources, one][-MOST:]
        self.count, self.rows, self.dead = self.count + 1, rows, dead

    def to_state(self) -> dict[str, Any]:
        """Return everything by name."""
        digests = "".join(one.bytes.digest.zfill(DIGITS) + one.bytes.head.zfill(DIGITS) for one in self.sources)
        numbers = [(one.bytes.size, one.bytes.head_size, one.rows, one.dead) for one in self.sources]
        return {
            "names": to_lines([one.name for one in self.sources]),
            "digests": np.frombuffer(bytes.fromhex(digests), dtype=np.uint8).reshape(-1, DIGITS),
            "numbers": np.array(numbers, dtype=np.int64).reshape(-1, 4),
            "count": self.count,
            "rows": self.rows,
            "dead": self.dead,
        }

    @classmethod
    def from_state(cls, contents: Contents) -> Learnt:
        """Return what `to_state` wrote."""
        names = contents.words("names")
        digests = contents.array("digests", np.uint8, (None, DIGITS))
        numbers = contents.array("numbers", np.int64, (len(digests), 4), low=0)
        contents.require(len(names) == len(digests), f"names holds {len(names)} sources, and digests {len(digests)}")
        contents.require(len(names) <= MOST, f"names holds {len(names)} sources, more than {MOST}")
        contents.require(all(len(name) <= LONGEST_NAME for name in names), "names holds one that is too long")
        heads = (numbers[:, 1] <= np.minimum(numbers[:, 0], WITNESS)).all()
        contents.require(bool(heads), "numbers says of a source that its first bytes are more than there are")
        all_there = len(names) < MOST
        count = contents.whole("count", low=len(names), high=len(names) if all_there else 2**62)
        sums = numbers[:, 2:].sum(axis=0).tolist()
        rows, dead = (
            contents.whole(name, low=least, high=least if count == len(names) else 2**62)
            for name, least in zip(("rows", "dead"), sums, strict=True)
        )
        contents.finish()
        half = DIGITS // 2
        found = [
            LearntSource(name, Fingerprint(size, one[:half].tobytes().hex(), one[half:].tobytes().hex(), head), *rest)
            for name, one, (size, head, *rest) in zip(names, digests, numbers.tolist(), strict=True)
        ]
        return cls(found, count, rows, dead)


def digest(data: bytes) -> str:
    """Return the first digits of the SHA-256 digest of bytes."""
    return hashlib.sha256(data).hexdigest()[:DIGITS]


def chain(before: str, one: str) -> str:
    """Return a digest of all files so far from that of those before the last, and that of the last."""
    return digest(f"{before} {one}".encode())


def fingerprint(file: IO[bytes]) -> Fingerprint:
    """Read a file to its end and return what it is recognised by."""
    head = read_up_to(file, WITNESS)
    running, size = hashlib.sha256(head), len(head)
    while part := file.read(CHUNK):
        running.update(part)
        size += len(part)
    return Fingerprint(size, running.hexdigest()[:DIGITS], digest(head), len(head))


def alike(known: Sequence[LearntSource], first: bytes) -> list[Fingerprint]:
    """Return the known sources that begin with the same first bytes, the shortest first."""
    heads = {size: digest(first[:size]) for size in {one.bytes.head_size for one in known} if 0 < size <= len(first)}
    found = {one.bytes for one in known if heads.get(one.bytes.head_size) == one.bytes.head}
    return sorted(found, key=lambda one: one.size)


def read_up_to(file: IO[bytes], size: int) -> bytes:
    """Return this many bytes, or all until the end."""
    parts = b""
    while len(parts) < size and (part := file.read(size - len(parts))):
        parts += part
    return parts
