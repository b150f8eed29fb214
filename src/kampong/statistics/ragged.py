"""Rows of any length, dense or sparse, in flat arrays with their keys and labels: the storage of a reservoir."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kampong._core.compute import blocks
from kampong.data.validation import LARGEST_ENTRY, REALS
from kampong.files.fields import array, read

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
    from kampong.files.contents import Contents

PREFIX = "sample_"
"""What the names of a sample begin with in a file."""

FEW, LONG = 4, 64
"""Up to this many rows, or from this many entries a row on, each is copied by itself: streams come row by row."""


@dataclass(frozen=True)
class Drawn:
    """Rows with their keys, weights on arrival, frames on arrival, and labels `codes[first : first + count]`."""

    keys: Float
    weights: Float
    frames: Float
    label_first: Integer
    label_count: Integer
    codes: Integer

    def part(self, rows: Any) -> Self:
        """Return some of the rows; the arrays that they point into do not change."""
        flat = ("codes", "indices", "data")
        return type(self)(*(value if name in flat else value[rows] for name, value in vars(self).items()))


@dataclass(frozen=True)
class Ragged(Drawn):
    """Rows of any length, `data[first : first + count]` each; without `indices` they are dense."""

    first: Integer
    count: Integer
    indices: Integer
    data: Float

    @property
    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return sum(array.nbytes for array in vars(self).values())

    def append_to(self, room: Ragged, used: tuple[int, int, int]) -> None:
        """Append all rows to the rows, entries and labels already there."""
        n, entries, labels = used
        here = slice(n, n + len(self.keys))
        room.keys[here], room.weights[here], room.frames[here] = self.keys, self.weights, self.frames
        room.count[here], room.label_count[here] = self.count, self.label_count
        room.first[here] = entries + np.cumsum(self.count) - self.count
        room.label_first[here] = labels + np.cumsum(self.label_count) - self.label_count
        _move(self.data, self.first, room.data, room.first[here], self.count)
        if len(room.indices):
            _move(self.indices, self.first, room.indices, room.first[here], self.count)
        _move(self.codes, self.label_first, room.codes, room.label_first[here], self.label_count)


def flat_rows(X: Rows, found: Integer, drawn: Drawn) -> Ragged:
    """Return rows of X as ragged ones, without a copy."""
    if isinstance(X, np.ndarray):
        first, count = found * X.shape[1], np.full(len(found), X.shape[1], dtype=np.int64)
        return Ragged(**vars(drawn), first=first, count=count, indices=np.empty(0, dtype=np.int32), data=X.reshape(-1))
    first = X.indptr[found].astype(np.int64)
    return Ragged(**vars(drawn), first=first, count=X.indptr[found + 1] - first, indices=X.indices, data=X.data)


def copy_rows(rows: Ragged, chosen: Integer, where: Integer, room: Ragged) -> None:
    """Copy chosen rows to the places made for them."""
    for name in ("keys", "weights", "frames"):
        getattr(room, name)[where] = getattr(rows, name)[chosen]
    _move(rows.data, rows.first[chosen], room.data, room.first[where], room.count[where])
    if len(room.indices):
        _move(rows.indices, rows.first[chosen], room.indices, room.first[where], room.count[where])
    _move(rows.codes, rows.label_first[chosen], room.codes, room.label_first[where], room.label_count[where])


FIELDS = (
    array("keys", "rows"),
    array("weights", "rows", low=math.ulp(0.0)),
    array("frames", "rows"),
    array("codes", "labels", dtype=np.int64, low=0, high=lambda sizes: sizes["classes"] - 1),
    array("data", "entries", dtype=REALS, low=-LARGEST_ENTRY, high=LARGEST_ENTRY),
    array("indices", "indices", dtype=(np.int32, np.int64), low=0, high=lambda sizes: sizes["features"] - 1),
    array("label_first", "rows", dtype=np.int64, low=0, high=lambda sizes: sizes["labels"]),
    array("label_count", "rows", dtype=np.int64, low=0, high=lambda sizes: sizes["labels"]),
    array("first", "rows", dtype=np.int64, low=0, high=lambda sizes: sizes["entries"]),
    array("count", "rows", dtype=np.int64, low=0, high=lambda sizes: sizes["entries"]),
)


def sample_from(contents: Contents, n_classes: int, n_features: int, form: int, index_dtype: np.dtype[Any]) -> Ragged:
    """Return the rows of a sample, sparse where the form is 1, dense where it is 0; −1 is for no rows."""
    sizes = {"classes": n_classes, "features": n_features}
    sample = Ragged(**read(FIELDS, contents, sizes, PREFIX))
    n, entries = sizes["rows"], sizes["entries"]
    cuts = (
        ("", sample.first, sample.count, entries),
        ("label_", sample.label_first, sample.label_count, sizes["labels"]),
    )
    for name, starts, counts, total in cuts:
        ends = np.cumsum(counts)
        if not np.array_equal(starts, ends - counts) or (ends[-1] if n else 0) != total:
            contents.refuse(f"sample_{name}first and sample_{name}count do not cut {total} entries into {n} rows")
    fits = sizes["indices"] == (entries if form == 1 else 0) and sample.indices.dtype == index_dtype
    if not fits or (form == -1 and n) or (form == 0 and (sample.count != n_features).any()):
        contents.refuse(f"the sample of {n} rows has the form {form}, which does not fit its entries")
    contents.require(not (np.diff(sample.keys) < 0).any(), "the clocks of the sample are out of order")
    return sample


def _move(source: np.ndarray, first: Integer, target: np.ndarray, to: Integer, count: Integer) -> None:
    """Copy `count` entries from each `first` place of the source to each place of the target."""
    size = int(count.sum())
    if len(first) <= FEW or size > LONG * len(first):
        for i, j, length in zip(first, to, count, strict=True):
            target[j : j + length] = source[i : i + length]
        return
    for part in blocks(len(first), 8 * size // len(first), target=2**14):  # the places take more memory than entries
        lengths = count[part]
        within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        target[np.repeat(to[part], lengths) + within] = source[np.repeat(first[part], lengths) + within]
