"""Rows of any length, dense or sparse, in flat arrays with their keys and labels: the storage of a reservoir."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kampong._core.compute import compiled
from kampong.data.validation import LARGEST_ENTRY, REALS
from kampong.files.contents import LARGEST

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
    from kampong.files.contents import Contents


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
        arguments = (*vars(self).values(), *vars(room).values(), *used)
        _append(*arguments)


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


def sample_from(contents: Contents, n_classes: int, n_features: int) -> dict[str, np.ndarray]:
    """Return the arrays of a sample of rows."""
    keys = contents.array("sample_keys", np.float64, (None,))
    n = len(keys)
    codes = contents.array("sample_codes", np.int64, (None,), low=0, high=n_classes - 1)
    data = contents.array("sample_data", REALS, (None,), low=-LARGEST_ENTRY, high=LARGEST_ENTRY)
    index_dtype = np.int32 if n_features < 2**31 else np.int64
    arrays = {
        "sample_keys": keys,
        "sample_codes": codes,
        "sample_data": data,
        "sample_weights": contents.array("sample_weights", np.float64, (n,), low=math.ulp(0.0)),
        "sample_frames": contents.array("sample_frames", np.float64, (n,)),
        "sample_indices": contents.array("sample_indices", index_dtype, (None,), low=0, high=n_features - 1),
        "sample_form": contents.array("sample_form", np.int64, (2,), low=-1, high=LARGEST),
        "sample_seed": contents.array("sample_seed", np.uint64, ()),
        "sample_drawn": contents.array("sample_drawn", np.int64, (), low=0, high=LARGEST),
        "sample_clock": contents.array("sample_clock", np.float64, (2,), finite=False, low=-1e300),
    }
    for first, count, total in (("first", "count", len(data)), ("label_first", "label_count", len(codes))):
        starts = contents.array(f"sample_{first}", np.int64, (n,), low=0, high=total)
        counts = contents.array(f"sample_{count}", np.int64, (n,), low=0, high=total)
        ends = np.cumsum(counts)
        if not np.array_equal(starts, ends - counts) or (ends[-1] if n else 0) != total:
            contents.refuse(f"sample_{first} and sample_{count} do not cut {total} entries into {n} rows")
        arrays |= {f"sample_{first}": starts, f"sample_{count}": counts}
    budget, form = arrays["sample_form"].tolist()
    is_sparse, counts = form == 1, arrays["sample_count"]
    fits = len(arrays["sample_indices"]) == (len(data) if is_sparse else 0) and budget >= 1 and form <= 1
    if not fits or (form == -1 and n) or (form == 0 and (counts != n_features).any()):
        contents.refuse(f"the sample of {n} rows has the form {form}, which does not fit its entries")
    if not np.isfinite(arrays["sample_clock"][0]) or (np.diff(keys) < 0).any():
        contents.refuse("the clocks of the sample are out of order")
    return arrays


@compiled
def _move(source: np.ndarray, first: Integer, target: np.ndarray, to: Integer, count: Integer) -> None:
    for i in range(len(first)):
        for j in range(count[i]):
            target[to[i] + j] = source[first[i] + j]


@compiled
def _append(
    keys: Float,
    weights: Float,
    frames: Float,
    label_first: Integer,
    label_count: Integer,
    codes: Integer,
    first: Integer,
    count: Integer,
    indices: Integer,
    data: Float,
    room_keys: Float,
    room_weights: Float,
    room_frames: Float,
    room_label_first: Integer,
    room_label_count: Integer,
    room_codes: Integer,
    room_first: Integer,
    room_count: Integer,
    room_indices: Integer,
    room_data: Float,
    n: int,
    entries: int,
    labels: int,
) -> None:
    """Append rows to the n rows of a store in one call, for streams that come row by row."""
    for i in range(len(keys)):
        room_keys[n + i], room_weights[n + i], room_frames[n + i] = keys[i], weights[i], frames[i]
        room_first[n + i], room_count[n + i] = entries, count[i]
        room_label_first[n + i], room_label_count[n + i] = labels, label_count[i]
        for j in range(count[i]):
            room_data[entries + j] = data[first[i] + j]
        if len(room_indices):
            for j in range(count[i]):
                room_indices[entries + j] = indices[first[i] + j]
        for j in range(label_count[i]):
            room_codes[labels + j] = codes[label_first[i] + j]
        entries += count[i]
        labels += label_count[i]
