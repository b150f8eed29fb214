"""A bounded sample of the rows of a stream: S_w at any width, with the exact class means of everything seen.

Every row draws an exponential random number, its clock, and the rows with the smallest are kept. Which rows are kept
depends only on the rows, their weights and the seed, not on the batches or on reads in between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from scipy import sparse

from kampong._core.compute import blocks, float_type, floats
from kampong.data.labels import Members
from kampong.data.validation import LARGEST_ENTRY, REALS, check_whole
from kampong.files.contents import LARGEST
from kampong.files.fields import array, read, written
from kampong.statistics.all_rows import Sample, within_squares, within_times
from kampong.statistics.means import FEW, ClassMeans, stay
from kampong.statistics.removal import HINT, NotLearntError, label_marks, marks_of, part_sample
from kampong.statistics.sampling import draw, stands_for
from kampong.statistics.scatter import ClassScatter

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
    from kampong.data.labels import Label
    from kampong.files.contents import Contents
    from kampong.statistics.batch import Reading

PREFIX = "sample_"
"""What the names of a sample begin with in a file."""

LONG = 64
"""From this many entries per row on, and in batches that are learnt row by row, each row is copied by itself."""


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


ROW_FIELDS = (
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
    sample = Ragged(**read(ROW_FIELDS, contents, sizes, PREFIX))
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


BUDGET = 64 * 2**20
"""Bytes for rows by default: 66,000 documents of 76 words."""

ROW_BYTES = 96
"""Bytes of a row in addition to its entries and labels: seven numbers kept, and the space to sort them."""

PENDING_SHARE, PENDING_BESIDE = 1 / 16, 1 / 4
"""The share of the budget for rows that wait until the sample is next cut to size, alone and with a scatter.

The first keeps memory within twice the budget. With a scatter the sample is small, and is cut less often.
"""


class ClassReservoir(ClassMeans):
    """Exact class means of a stream, and a weighted random sample of its rows within a budget of bytes.

    Row i of weight w_i draws a clock E_i ~ Exp(1) and has the key E_i / w_i. The rows of smallest key are kept: in the
    order of their keys, as many as fit the budget. τ is the smallest key of all the others. Given τ, row i is kept with
    the probability 1 − exp(−w_i τ), so

        ω_i = w_i / (1 − exp(−w_i τ))

    makes every total Σ ω_i f(x_i) an unbiased estimate of that over the whole stream: bottom-k sampling (Cohen and
    Kaplan 2007) by the keys of Efraimidis and Spirakis (2006). Here rows count by their bytes and not by their number,
    and the same proof holds. For S_w we deviate: ω is scaled in each class to the exact weight of the class.

    The clocks come from a hash of `random_state` and the number of the row in the stream, so the result is the same,
    bit for bit, however the stream is cut into batches. Decay multiplies all weights seen so far, which changes all
    their keys by the same factor: their order stays, nothing is drawn again, and recent rows are favoured. Decay by 0
    forgets the sample.

    As long as all rows fit the budget, S_w is exact.

    Parameters
    ----------
    n_features : int
        The width of the rows.
    budget : int
        Bytes for the sample. About twice as much is in use while rows are added.
    random_state : int
        The seed of the clocks, at least 0. Streams to be merged need different seeds: rows of the same number and seed
        have the same clock.

    See Also
    --------
    ClassRows : All rows, kept in memory.
    ClassScatter : The d × d scatter, exact, where it fits.

    Notes
    -----
    The first rows decide the form, dense or sparse (CSR); later batches of the other form are converted. Rows are kept
    in float32 until the first batch in float64. A row of weight 0 is absent. A row with several labels is kept once; a
    row without labels is not kept. For S_w a class without rows in the sample is assumed to vary like the others.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> stream = ClassReservoir(2, budget=200_000)
    >>> for _ in range(100):
    ...     stream = stream.update(rng.normal(size=(100, 2)) * [1, 3], rng.integers(0, 2, 100))
    >>> stream.n_samples, stream.n_kept, stream.nbytes <= 200_000
    (10000, 1666, True)
    >>> np.diag(stream.within_times(np.eye(2))).round()
    array([1., 9.])
    """

    holds_within = True
    _pending_share = PENDING_SHARE

    def __init__(self, n_features: int, *, budget: int = BUDGET, random_state: int = 0) -> None:
        super().__init__(n_features)
        self.budget = check_whole(
            "ClassReservoir", "budget", budget, low=1, high=2**62, next_step="It is the number of bytes for the sample."
        )
        self.random_state = check_whole(
            "ClassReservoir",
            "random_state",
            random_state,
            low=0,
            high=2**64 - 1,
            next_step="It is the seed of the sample.",
        )
        self._drawn = 0  # how many rows have drawn a clock; rows taken out do not give theirs back
        self._frame = 0.0  # the sum of the logarithms of all decay factors
        self._threshold = math.inf  # the logarithm of τ, in the frame of the start of the stream like all keys
        self._sparse: bool | None = None
        self._kept = self._waiting = self._room((0, 0, 0), np.dtype(np.float32))
        self._used = (0, 0, 0)  # rows, entries and labels that wait

    @classmethod
    def laid_out(cls, n_features: int, *, budget: int, random_state: int) -> Self:
        """Return empty statistics whose sample is kept within a budget of bytes, drawn with a seed."""
        return cls(n_features, budget=budget, random_state=random_state)

    @property
    def kept_sample(self) -> ClassReservoir:
        """Return the sample of rows, which is this object."""
        return self

    def take_budget(self, other: ClassMeans) -> None:
        """Take over the memory limit of the sample of others, which are of this class too."""
        self.budget = cast("ClassReservoir", other).budget

    @property
    def within_sample(self) -> ClassReservoir | None:
        """Return this object once rows have been left out of it; None while S_w is exact."""
        return self if self.full else None

    @property
    def n_kept(self) -> int:
        """Return the number of rows in the sample."""
        return len(self._cut().keys)

    @property
    def full(self) -> bool:
        """Tell whether rows have been left out."""
        self._cut()
        return self._threshold < math.inf

    @property
    def nbytes(self) -> int:
        """Return the bytes that the sample takes."""
        return self._cut().nbytes

    def decay(self, factor: float) -> Self:
        """Multiply every weight by `factor` in [0, 1]; the means and the sample stay as they are."""
        super().decay(factor)
        if factor > 0:
            self._frame += math.log(factor)
        else:
            self._kept = self._waiting = self._room((0, 0, 0), self._kept.data.dtype)
            self._used, self._threshold = (0, 0, 0), math.inf
        return self

    def _scaled(self, factor: float) -> Self:
        kept, shift = self._cut(), math.log(factor)
        view = super()._scaled(factor)
        view._kept = replace(kept, keys=kept.keys - shift, weights=kept.weights * factor)
        view._threshold = self._threshold - shift
        return view

    def in_units(self, units: Float) -> Self:
        """Return these statistics and their sample, for reading only, as of rows divided by `units`."""
        kept = self._cut()
        view = super().in_units(units)
        if self._sparse:
            data = kept.data / units[kept.indices]
        else:
            data = (kept.data.reshape(len(kept.keys), -1) / units).ravel()
        view._kept = replace(kept, data=data)
        return view

    def held(self) -> tuple[Rows, Members]:
        """Return the rows that S_w is computed from, and their memberships, classes numbered as they appeared."""
        kept = self._cut()
        return self._rows(kept), self._weigh(kept)[0]

    def within_times(self, block: Float) -> Float:
        """Return S_w @ block: exact while all rows fit, estimated from the sample after that."""
        kept = self._cut()
        members, _ = self._weigh(kept)
        weight = float(members.weights.sum())
        if weight == 0:
            raise ValueError(
                f"ClassReservoir has seen {self.n_samples} rows, and the {len(kept.keys)} kept within its budget of "
                f"{self.budget} bytes have no weight: S_w needs one that has. Give it rows, or a larger budget."
            )
        result = within_times(self._rows(kept), members, self._means[: len(self._index.labels)], block)
        result /= weight
        return result

    def within_variances(self) -> Float:
        """Return the diagonal of S_w: exact while all rows fit, estimated from the sample after that."""
        kept = self._cut()
        members, _ = self._weigh(kept)
        squares = within_squares(self._rows(kept), members, self._means[: len(self._index.labels)])
        return squares / max(float(members.weights.sum()), np.finfo(float).tiny)

    def sample(self, most: int | None = None) -> Sample:
        """Return the rows kept, or the first `most` of them, which are a sample too, in the order of their keys."""
        kept = self._cut()
        members, weights = self._weigh(kept)
        own = kept.weights * np.exp(self._frame - kept.frames)
        sample = Sample(self._rows(kept), members.renamed(self._index.position), weights, own, np.arange(len(own)))
        if most is None or most >= len(own):
            return sample
        weights = stands_for(own, np.log(kept.weights) - kept.frames, float(kept.keys[most]))
        return sample._replace(weights=weights).first(most)

    def halves(self) -> tuple[Self, Self]:
        """Return two copies with the same means and every other row of the sample each: their difference is its error.

        They are for reading only: in a half that learns more rows, the earlier rows would count half.
        """
        first, second = self._copy(), self._copy()
        for start, half in enumerate((first, second)):
            kept = half._kept
            half._kept = half._gather([kept], np.arange(start, len(kept.keys), 2), kept.data.dtype)
        return first, second

    def rows_of(self, label: Label) -> tuple[Rows, np.ndarray, Float]:
        """Return the rows of a class in the sample, where each row has one label; their labels; what they weigh now."""
        kept = self._cut()
        mine = np.flatnonzero(kept.codes == self._code_of(label))
        own = kept.weights[mine] * np.exp(self._frame - kept.frames[mine])
        return self._rows(kept)[mine], np.full(len(mine), label), own

    def to_state(self) -> dict[str, Any]:
        """Return the whole state: arrays, plain values, and dictionaries of both; nothing to unpickle."""
        kept = self._cut()
        form = {None: -1, False: 0, True: 1}[self._sparse]
        return {
            **super().to_state(),
            **written(ROW_FIELDS, kept, prefix=PREFIX),
            "sample_form": np.array([self.budget, form]),
            "sample_seed": np.array(self.random_state, dtype=np.uint64),
            "sample_clock": np.array([self._frame, self._threshold]),
            "sample_drawn": np.array(self._drawn),
        }

    # How.

    def _restore(self, contents: Contents) -> None:
        super()._restore(contents)
        self.budget, form = contents.array("sample_form", np.int64, (2,), low=-1, high=LARGEST).tolist()
        contents.require(self.budget >= 1 and form <= 1, f"sample_form is {[self.budget, form]}")
        self._sparse = {-1: None, 0: False, 1: True}[form]
        self.random_state = int(contents.array("sample_seed", np.uint64, ()))
        self._drawn = int(contents.array("sample_drawn", np.int64, (), low=0, high=LARGEST))
        contents.require(self._drawn >= self.n_samples, f"{self._drawn} rows drew a clock of {self.n_samples} seen")
        clock = contents.array("sample_clock", np.float64, (2,), finite=False, low=-1e300)
        contents.require(math.isfinite(clock[0]), f"sample_clock is {clock.tolist()}")
        self._frame, self._threshold = clock.tolist()
        self._kept = sample_from(contents, len(self._index.labels), self.n_features, form, self._index_dtype)
        self._waiting = self._room((0, 0, 0), self._kept.data.dtype)

    def _keep(self, X: Rows, reading: Reading, before: int) -> None:
        if self.n_samples > before:
            self._settle(X)
        weights, members = reading.weights, reading.members
        found, keys = draw(weights, self._drawn, self.random_state, self._frame, self._threshold)
        self._drawn += self.n_samples - before
        if len(found):
            first = np.searchsorted(members.rows, found)
            labels = np.searchsorted(members.rows, found, side="right") - first
            frames = np.full(len(found), self._frame)
            self._take(X, found, Drawn(keys, weights[found], frames, first, labels, members.codes))

    def _take_rows_out(self, X: Rows, reading: Reading) -> None:
        """Take rows out of the sample, found by their entries and labels; a sample of all rows must hold each."""
        kept, members = self._cut(), reading.members
        if self._sparse:
            X = sparse.csr_array(X)
        elif not isinstance(X, np.ndarray):
            X = X.toarray()
        weighed, first, count = np.unique(members.rows, return_index=True, return_counts=True)
        labels = label_marks(members.codes, first, count)
        marks = marks_of(X[weighed].astype(kept.data.dtype, copy=False), labels)
        taken: dict[bytes, float] = {}
        for mark, weight in zip(marks, reading.weights[weighed], strict=True):
            taken[mark] = taken.get(mark, 0.0) + float(weight)
        own = kept.weights * np.exp(self._frame - kept.frames)
        labels = label_marks(kept.codes, kept.label_first, kept.label_count)
        moved, stay = part_sample(kept, own, marks_of(self._rows(kept), labels), taken)
        if taken and not self.full:
            row = int(weighed[next(place for place, mark in enumerate(marks) if mark in taken)])
            raise NotLearntError(f"row {row} of X, with its label, is not among the rows learnt. {HINT}")
        stay = stay[moved.keys[stay] < self._threshold]
        stay = stay[np.argsort(moved.keys[stay], kind="stable")]
        self._kept = self._gather([moved], stay, kept.data.dtype)

    def _drop(self, gone: Integer) -> Integer:
        kept = self._cut()
        if len(gone):
            kept = self._gather([kept], np.flatnonzero(~np.isin(kept.codes, gone)), kept.data.dtype)
        place = super()._drop(gone)
        self._kept = replace(kept, codes=place[kept.codes])
        if not self.n_samples:
            self._threshold = math.inf
        return place

    def _check_mergeable(self, other: ClassMeans) -> None:
        super()._check_mergeable(other)
        budget = cast("ClassReservoir", other).budget
        if budget != self.budget:
            raise ValueError(
                f"cannot merge a ClassReservoir of budget {self.budget} with one of budget {budget}: "
                "collect both with the same budget."
            )

    def _join(self, other: Any, joined: Float) -> None:
        """Unite the samples, with the weights of both streams as they are now."""
        super()._join(other, joined)
        kept = other._cut()
        self._drawn += other._drawn
        shift = self._frame - other._frame
        self._threshold = min(self._threshold, other._threshold + shift)
        numbered = np.array([self._index._codes[label] for label in other._index.labels], dtype=np.int64)
        codes = numbered[kept.codes]
        keys, frames = kept.keys + shift, kept.frames + shift
        if other._sparse is not None:
            X = other._rows(kept)
            self._settle(X)
            drawn = Drawn(keys, kept.weights, frames, kept.label_first, kept.label_count, codes)
            self._take(X, np.arange(len(keys)), drawn)
        self._cut(always=True)

    def _move(self, places: Integer, n_features: int) -> None:
        if self._sparse and stay(places) and n_features < 2**31:  # no index changes
            super()._move(places, n_features)
            return
        kept = self._cut()
        if self._sparse:
            rows = cast("sparse.csr_array", self._rows(kept))
            indices = places[rows.indices].astype(np.dtype(np.int32 if n_features < 2**31 else np.int64))
            moved = sparse.csr_array((rows.data, indices, rows.indptr), shape=(len(kept.keys), n_features))
            moved.sort_indices()
            self._kept = replace(kept, indices=moved.indices, data=moved.data)
        elif self._sparse is not None:
            dense = np.zeros((len(kept.keys), n_features), dtype=kept.data.dtype)
            dense[:, places] = cast("Float", self._rows(kept))[:, : len(places)]
            first = np.arange(len(dense), dtype=np.int64) * n_features
            count = np.full(len(dense), n_features, dtype=np.int64)
            self._kept = replace(kept, first=first, count=count, data=dense.ravel())
        super()._move(places, n_features)

    def _settle(self, X: Rows) -> None:
        """Let rows decide the form and dtype of the sample, even rows that are not kept: batches must not matter."""
        if self._sparse is None:
            self._sparse = not isinstance(X, np.ndarray)
            self._kept = self._waiting = self._room((0, 0, 0), float_type(X))
        if float_type(X) != self._kept.data.dtype:
            self._cut(dtype=np.result_type(float_type(X), self._kept.data.dtype), always=True)

    def _take(self, X: Rows, found: Integer, drawn: Drawn) -> None:
        """Take in rows of X, in the form of the sample; those without a label are left out."""
        if self.multilabel and not drawn.label_count.all():
            labelled = drawn.label_count > 0
            found, drawn = found[labelled], drawn.part(labelled)
        if not len(found):
            return
        is_sparse = not isinstance(X, np.ndarray)
        flat = is_sparse or (cast("Float", X).flags.c_contiguous and X.dtype == float_type(X))
        if is_sparse == self._sparse and flat:
            self._add(flat_rows(X, found, drawn))
            return
        for part in blocks(len(found), 8 * self.n_features):
            block = floats(X[found[part]])
            if self._sparse:
                block = sparse.csr_array(block)
            else:
                block = block.toarray() if is_sparse else np.ascontiguousarray(block)
            self._add(flat_rows(block, np.arange(block.shape[0]), drawn.part(part)))

    def _add(self, rows: Ragged) -> None:
        """Let rows wait until the sample is next cut to size; cut at once if there are too many."""
        dtype = self._kept.data.dtype
        n, entries, labels = self._used
        used = (n + len(rows.keys), entries + int(rows.count.sum()), labels + int(rows.label_count.sum()))
        if self._size(*used, dtype) > self._pending_share * self.budget:
            self._cut(rows)
            return
        room = self._waiting
        if used[0] > len(room.keys) or used[1] > len(room.data) or used[2] > len(room.codes):
            room = self._room((2 * used[0], 2 * used[1], 2 * used[2]), dtype)
            self._waiting.part(slice(n)).append_to(room, (0, 0, 0))
            self._waiting = room
        rows.append_to(room, self._used)
        self._used = used

    def _cut(self, *more: Ragged, dtype: np.dtype[Any] | None = None, always: bool = False) -> Ragged:
        """Add the rows that wait, and return the sample: the rows of smallest key that fit the budget."""
        if not (self._used[0] or more or always):
            return self._kept
        dtype = dtype or self._kept.data.dtype
        parts = [self._kept, self._waiting.part(slice(self._used[0])), *more]
        self._kept = self._gather(parts, self._choose(parts, dtype), dtype)
        self._waiting, self._used = self._room((0, 0, 0), dtype), (0, 0, 0)
        return self._kept

    def _choose(self, parts: list[Ragged], dtype: np.dtype[Any]) -> Integer:
        """Return the rows of all parts to keep, in the order of their keys; remember the first of the others."""
        keys = np.concatenate([part.keys for part in parts])
        order = np.argsort(keys, kind="stable")
        sizes = np.concatenate([self._size(1, part.count, part.label_count, dtype) for part in parts])
        fitting = int(np.searchsorted(np.cumsum(sizes[order]), self.budget, side="right"))
        if fitting < len(order):
            self._threshold = min(self._threshold, float(keys[order[fitting]]))
        # Equal keys stay or go together, so the order of arrival does not matter.
        return order[: np.count_nonzero(keys < self._threshold)]

    def _gather(self, parts: list[Ragged], chosen: Integer, dtype: np.dtype[Any]) -> Ragged:
        """Return the chosen rows of all parts, in the order given."""
        counts = np.concatenate([part.count for part in parts])[chosen]
        labels = np.concatenate([part.label_count for part in parts])[chosen]
        room = self._room((len(chosen), int(counts.sum()), int(labels.sum())), dtype)
        room.count[:], room.label_count[:] = counts, labels
        room.first[:], room.label_first[:] = np.cumsum(counts) - counts, np.cumsum(labels) - labels
        del counts, labels
        start = 0
        for part in parts:
            where = np.flatnonzero((chosen >= start) & (chosen < start + len(part.keys)))
            copy_rows(part, chosen[where] - start, where, room)
            start += len(part.keys)
        return room

    def _room(self, sizes: tuple[int, int, int], dtype: np.dtype[Any]) -> Ragged:
        """Return space for this many rows, entries and labels."""
        n, entries, labels = sizes
        keys, weights, frames = np.empty((3, n))
        first, count, label_first, label_count = np.empty((4, n), dtype=np.int64)
        codes = np.empty(labels, dtype=np.int64)
        indices = np.empty(entries if self._sparse else 0, dtype=self._index_dtype)
        data = np.empty(entries, dtype=dtype)
        return Ragged(keys, weights, frames, label_first, label_count, codes, first, count, indices, data)

    def _size(self, rows: int, entries: Any, labels: Any, dtype: np.dtype[Any]) -> Any:
        """Return the bytes that rows with this many entries and labels count for."""
        entry = dtype.itemsize + (self._index_dtype.itemsize if self._sparse else 0)
        return ROW_BYTES * rows + entry * entries + 8 * labels

    @property
    def _index_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int32 if self.n_features < 2**31 else np.int64)

    def _rows(self, kept: Ragged) -> Rows:
        """Return the sample as one matrix, without a copy of its entries."""
        shape = (len(kept.keys), self.n_features)
        if not self._sparse:
            return kept.data.reshape(shape)
        return sparse.csr_array((kept.data, kept.indices, np.append(kept.first, len(kept.data))), shape=shape)

    def _weigh(self, kept: Ragged) -> tuple[Members, Float]:
        """Return the memberships, scaled to the exact weight of each class, and ω of each row."""
        weights = kept.weights * np.exp(self._frame - kept.frames)
        weights = stands_for(weights, np.log(kept.weights) - kept.frames, self._threshold)
        rows = np.repeat(np.arange(len(weights)), kept.label_count)
        sums = np.bincount(kept.codes, weights=weights[rows], minlength=len(self._index.labels))
        counts = self._counts[: len(self._index.labels)]
        scale = np.divide(counts, sums, out=np.zeros(len(counts)), where=sums > 0)
        return Members(rows, kept.codes, weights[rows] * scale[kept.codes], len(weights)), weights


class SampledScatter(ClassReservoir, ClassScatter):
    """The exact d × d scatter, and a sample of rows to choose parameters with.

    Parameters
    ----------
    n_features : int
        The width d of the rows.
    budget : int
        Bytes for the sample.
    random_state : int
        The seed of its clocks.
    """

    leaves_rows_out = True
    _pending_share = PENDING_BESIDE

    @property
    def within_sample(self) -> None:
        """Return None: the scatter is exact."""
        return None

    def within_times(self, block: Float) -> Float:
        """Return S_w @ block, from the scatter."""
        return ClassScatter.within_times(self, block)

    def within_variances(self) -> Float:
        """Return the diagonal of S_w, from the scatter."""
        return ClassScatter.within_variances(self)

    def unlearn_class(self, label: Label) -> Self:
        """Take all rows of a class out again, where the sample still holds every row; on an error nothing changes."""
        self._code_of(label)
        if self.full:
            return ClassScatter.unlearn_class(self, label)
        return self.unlearn(*self.rows_of(label))
