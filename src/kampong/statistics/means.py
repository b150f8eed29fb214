"""ClassMeans: weighted count, mean and squared distances of every class; all other statistics build on it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from kampong._core.compute import floats, weighted_sum
from kampong.data.labels import (
    LabelIndex,
    Members,
    check_labels,
    index_from,
    index_state,
    is_indicator,
)
from kampong.data.validation import LARGEST, LEAST_WEIGHT, check_finite, check_rows, check_weights, raise_not_finite
from kampong.files.contents import LARGEST_WIDTH, as_arrays, from_arrays
from kampong.files.fields import array, read, written
from kampong.statistics.answers import Answers
from kampong.statistics.batch import (
    MOST,
    Checked,
    Reading,
    Summary,
    check_factor,
    few_dense,
    join,
    learn_rows,
    read_indicator,
    read_labels,
    rows_fit,
    summarise,
    summary_fits,
    with_labels,
)
from kampong.statistics.removal import HINT, NOTHING, NotLearntError, part, part_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kampong._core.compute import Float, Integer, Rows
    from kampong.data.labels import Label
    from kampong.files.contents import Contents

FURTHEST = 1.001 * LARGEST
"""The largest magnitude of a class mean: rows whose squares overflow are never learnt."""

FIELDS = (
    array("_counts", "classes", low=0.0, high=MOST),
    array("_means", "classes", "features", low=-FURTHEST, high=FURTHEST),
    array("_squares", "classes", low=0.0, high=MOST),
    array("_seconds", "classes", low=0.0),
    array("_numbers", "classes", dtype=np.int64, low=0, high=lambda sizes: sizes["rows"]),
    array("_peaks", "classes", low=0.0),
)
"""What is kept of each class."""

FEW = 8
"""A batch of at most this many rows is learnt row by row, which costs less than a summary."""


class ClassMeans(Answers):
    """Weighted count, mean and within-class sum of squared distances of every class: O(K·d) memory.

    Enough for the criterion S_b (ε = 0), at O(non-zeros) a row.

    Parameters
    ----------
    n_features : int
        The width of the rows.

    Attributes
    ----------
    n_samples : int
        Rows of positive weight seen. Each counts as one, whatever its weight and age.
    faded : bool
        Whether rows have lost weight as others came: then nobody knows what is left of a row.
    multilabel : bool or None
        Whether the targets are indicator matrices; None before the first batch.

    See Also
    --------
    ClassScatter : Holds the d × d within-class scatter too.

    Examples
    --------
    >>> import numpy as np
    >>> means = ClassMeans(2).update(np.array([[0.0, 1.0], [2.0, 1.0], [5.0, 5.0]]), ["a", "a", "b"])
    >>> means.counts.tolist(), means.means[0].tolist()
    ([2.0, 1.0], [1.0, 1.0])
    """

    _joins: ClassVar[bool] = False  # whether second moments are kept, to which a batch adds more than its own

    def __init__(self, n_features: int) -> None:
        self.n_features = int(n_features)
        self.n_samples = 0
        self.faded = False
        self.multilabel: bool | None = None
        self._index = LabelIndex()
        self._counts, self._squares, self._seconds, self._peaks = (np.zeros(0) for _ in range(4))
        self._means, self._numbers = np.zeros((0, self.n_features)), np.zeros(0, dtype=np.int64)
        self._row_weight = 0.0
        self._row_mean: Float = np.zeros(0)

    # What a stream and a fit do.

    def in_rows(self) -> Self:
        """Return these statistics, for reading only, with weights in units of `weight_unit`: a number of rows."""
        unit = self.weight_unit
        return self if unit == 1.0 else self._scaled(1.0 / unit)

    def drop_sample(self) -> None:
        """Forget the rows that are kept only to choose and train heads; this class keeps none."""

    def take_budget(self, other: ClassMeans) -> None:
        """Take over the memory limit of the sample of others; this class keeps none."""

    @classmethod
    def laid_out(cls, n_features: int, *, budget: int, random_state: int) -> Self:
        """Return empty statistics; those with a sample keep it within a budget of bytes, drawn with a seed."""
        return cls(n_features)

    def after_fit(self, *, learns_more: bool) -> ClassMeans:
        """Return what an estimator keeps after a fit; rows at hand are let go, whether or not means can learn more."""
        return self

    def update(self, X: Any, y: Any, sample_weight: Any = None, *, decay: float = 1.0, classes: Any = None) -> Self:
        """Learn a batch of rows; on an error the state is as before.

        Parameters
        ----------
        X : array or sparse matrix of shape (rows, n_features)
            Dense, or sparse (CSR is read as it is; it is never made dense as a whole).
        y : array of shape (rows,) or indicator matrix of shape (rows, labels)
            One label per row, or a matrix of 0 and 1: then a row counts for each of its labels.
        sample_weight : array of shape (rows,), optional
            A weight of 2 is the row twice in every mean and scatter, a weight of 0 the row absent.
        decay : float
            First multiply the weights of everything learnt before by this factor in [0, 1].
        classes : array of shape (classes,), optional
            Classes that may come, added with weight 0.

        Returns
        -------
        ClassMeans
            This object.
        """
        X = check_rows(X, self.n_features, compact=True)
        reading = self._read(y, check_weights(sample_weight, X.shape[0]), decay, classes)
        self._learn(self._check(X, reading))
        return self

    def declare(self, classes: Any) -> Self:
        """Add classes that may come, with weight 0."""
        self._know(self._with_classes(classes))
        return self

    def merge(self, other: ClassMeans) -> Self:
        """Return the statistics of both streams together; neither operand changes."""
        self._check_mergeable(other)
        result, theirs = self._copy(), other._index
        new = [label for label in theirs.labels if label not in result._index._codes]
        result._know(with_labels(result._index, new, theirs.dtype))
        result._take_in(other, np.array([result._index._codes[label] for label in theirs.labels], dtype=np.int64))
        return result

    def decay(self, factor: float) -> Self:
        """Multiply every weight by `factor` in [0, 1]; the means stay where they are."""
        check_factor(factor)
        self.faded = self.faded or factor < 1
        self._counts *= factor
        self._squares *= factor
        self._seconds *= factor
        self._seconds *= factor  # in two steps: the square of a small factor is zero
        gone = self._counts < LEAST_WEIGHT  # its share would vanish in the sum of all
        self._counts[gone] = self._squares[gone] = self._seconds[gone] = 0.0
        self._row_weight *= factor
        return self

    def unlearn(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Take rows out again, as if they had never come; on an error the state is as before.

        A class of which nothing is left is gone from `classes`. Rows that cannot have been learnt are refused, as far
        as the statistics can tell: a weight below zero, negative squares, an indefinite scatter.

        Parameters
        ----------
        X : array or sparse matrix of shape (rows, n_features)
            Rows that were learnt.
        y : array of shape (rows,) or indicator matrix of shape (rows, labels)
            Their labels.
        sample_weight : array of shape (rows,), optional
            Their weights, as they count now: decayed where the statistics are.

        Returns
        -------
        ClassMeans
            This object.
        """
        X = check_rows(X, self._width, compact=True)
        reading = self._read(y, check_weights(sample_weight, X.shape[0]), 1.0)
        new = reading.known.labels[len(self._index) :]
        if new:
            raise NotLearntError(f"class {new[0]!r} was never learnt, so no row of it can be taken out. {HINT}")
        taken = self._empty()
        taken.owner = self.owner
        taken.update(X, y, reading.weights)
        left = self._copy()
        _, gone = left._take_out(taken)
        left._take_rows_out(X, reading)
        left._drop(gone)
        self.__dict__.update(vars(left))
        return self

    def unlearn_class(self, label: Label) -> Self:
        """Take all rows of a class out again; on an error the state is as before.

        Parameters
        ----------
        label : bool, int or str
            The class.

        Returns
        -------
        ClassMeans
            This object.
        """
        code = self._code_of(label)
        self.n_samples -= int(self._numbers[code])
        self._drop(np.array([code]))
        return self

    def move_columns(self, places: Integer, n_features: int) -> Self:
        """Move columns to other places, as if all rows so far had come with them there.

        Parameters
        ----------
        places : array of int of shape (m,)
            Where each of the first m columns goes, all different. Further columns must be zero in all rows so far: they
            are left out.
        n_features : int
            The new width.

        Returns
        -------
        ClassMeans
            This object.
        """
        if len(np.unique(places)) < len(places) or (len(places) and not 0 <= places.min() <= places.max() < n_features):
            raise ValueError(f"move_columns: the places must be different, and below the new width {n_features}.")
        if self._means[:, len(places) :].any():
            raise ValueError(f"move_columns: column {len(places)} or one after it is not zero; give it a place too.")
        self._move(places, int(n_features))
        self.n_features = int(n_features)
        return self

    # To and from a checkpoint.

    def to_state(self) -> dict[str, Any]:
        """Return the whole state: arrays, plain values, and dictionaries of both; nothing to unpickle."""
        return {
            "labels": index_state(self._index),
            "form": np.array(
                [self.n_features, self.n_samples, {None: -1, False: 0, True: 1}[self.multilabel], self.faded]
            ),
            **written(FIELDS, self, {"classes": len(self._index)}),
            "row_weight": np.array(self._row_weight),
            "row_mean": self._row_mean.copy(),
        }

    @classmethod
    def from_state(cls, contents: Contents, n_features: int) -> Self:
        """Return the statistics that `to_state` wrote, each value checked against the others.

        Compiled loops do not check their arrays, so everything that could lead one out of bounds is checked here.

        Parameters
        ----------
        contents : Contents
            The state, which is used up.
        n_features : int
            The width that the statistics must have.

        Returns
        -------
        ClassMeans
            The statistics.
        """
        if n_features > LARGEST_WIDTH:
            contents.refuse(f"{n_features} features are past the limit of {LARGEST_WIDTH}")
        result = cls(n_features)
        result._restore(contents)
        contents.finish()
        return result

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the whole state as arrays: no objects, nothing to unpickle."""
        return as_arrays(self.to_state())

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the statistics that `to_arrays` wrote, checked as a file would be."""
        contents = from_arrays(arrays, cls.__name__)
        return cls.from_state(contents, int(arrays["form"].flat[0]) if "form" in arrays else 0)

    # How.

    def _read(self, y: Any, weights: Float, decay: float, classes: Any = None) -> Reading:
        """Check and number the labels of a batch, once; the state is unchanged."""
        check_factor(decay)
        multilabel = is_indicator(y)
        if self.multilabel is not None and multilabel != self.multilabel:
            raise ValueError(
                "the form of y changed during the stream: "
                + (
                    "one label per row before, an indicator matrix now."
                    if multilabel
                    else "an indicator matrix before."
                )
                + " Use one form throughout."
            )
        index = self._index if classes is None else self._with_classes(classes)
        read = read_indicator if multilabel else read_labels
        members, new, dtype = read(index, y, weights)
        return Reading(members, weights, with_labels(index, new, dtype), multilabel, decay)

    def _with_classes(self, classes: Any) -> LabelIndex:
        """Return the classes known, with others that may come."""
        labels = np.asarray(classes)
        if labels.ndim != 1:
            raise ValueError(f"classes has shape {labels.shape}; give a one-dimensional list of labels.")
        labels, _, new = check_labels(self._index, labels, len(labels))
        return with_labels(self._index, new, labels.dtype)

    def _check(self, X: Rows, reading: Reading) -> Checked:
        """Check all that could be wrong with rows whose labels have been read; the state is unchanged."""
        name, members, row_mean = self.owner or type(self).__name__, reading.members, None
        if X.shape[0] <= FEW and not reading.multilabel:
            few = floats(X) if isinstance(X, np.ndarray) else few_dense(X)
            parts = (members.rows, members.codes, members.weights, self._counts, self._means, self._squares)
            if not rows_fit(few, *parts, reading.decay):
                raise_not_finite(X, name, reading.weights)
            return Checked(X, reading, few)
        if reading.multilabel:  # rows without a label count for the mean of the rows, and must be finite too
            check_finite(X, name)
            total = float(reading.weights.sum())
            with np.errstate(invalid="ignore", over="ignore"):
                row_mean = weighted_sum(X, reading.weights) / max(total, np.finfo(float).tiny)
            if self.n_features and not np.abs(row_mean).max() < LARGEST:
                raise_not_finite(X, name, reading.weights)
        sums = summarise(X, members, name)
        if not self._fits(sums, reading.decay):
            raise_not_finite(X, name, reading.weights)
        return Checked(X, reading, None, sums, row_mean)

    def _fits(self, batch: Summary, decay: float = 1.0) -> bool:
        """Tell whether all sums stay finite where a summary joins them."""
        return bool(summary_fits(*batch, self._counts, self._means, self._squares, decay))

    def _learn(self, checked: Checked) -> None:
        """Learn a batch in which nothing is wrong."""
        X, reading, few, sums, row_mean = checked
        members, before = reading.members, self.n_samples
        self._accept(reading)
        if few is not None:
            parts = (members.rows, members.codes, members.weights, self._counts, self._means, self._squares)
            learn_rows(few, *parts, self._triangle())
        if sums is not None:
            self._spread(X, members, sums, self._absorb(sums, joins=self._joins))
        if row_mean is not None:
            self._absorb_row_mean(float(reading.weights.sum()), row_mean)
        seconds = np.bincount(members.codes, weights=np.square(members.weights))  # summed as the counts are
        self._seconds[: len(seconds)] += seconds
        np.add.at(self._numbers, members.codes, 1)
        self.n_samples += int(np.count_nonzero(reading.weights))
        self._keep(X, reading, before)

    def _check_sums(self, other: Any, codes: Integer, decay: float = 1.0) -> Summary:
        """Return the sums of other statistics, whose classes are numbered `codes` here; refuse those that overflow."""
        seen = np.flatnonzero(other._counts[: len(codes)])
        sums = Summary(codes[seen], other._counts[seen], other._means[seen], other._squares[seen])
        if not self._fits(sums, decay):
            raise ValueError(
                "the weighted squares of both together pass 1e300 and would overflow. Scale the features, or multiply "
                "the weights by a constant."
            )
        return sums

    def _take_in(self, other: Any, codes: Integer) -> None:
        """Join other statistics, whose classes are numbered `codes` here; on an error the state is as before."""
        n = len(codes)
        self._join(other, self._absorb(self._check_sums(other, codes)))
        if other.multilabel:
            self._absorb_row_mean(other._row_weight, other._row_mean)
        self.multilabel = self.multilabel if self.multilabel is not None else other.multilabel
        self.faded = self.faded or other.faded
        self._seconds[codes] += other._seconds[:n]
        self._numbers[codes] += other._numbers[:n]
        self._peaks[codes] += other._peaks[:n]
        self.n_samples += other.n_samples

    def _keep(self, X: Rows, reading: Reading, before: int) -> None:
        """Keep rows of a batch that has been learnt, after `before` earlier ones; this class keeps none."""

    def _restore(self, contents: Contents) -> None:
        """Take back what `to_state` wrote."""
        self._index = index_from(contents.part("labels"))
        n_features = self.n_features
        form = contents.array("form", np.int64, (4,), low=-1)
        if form[0] != n_features or form[1] < 0 or form[2] > 1 or form[3] not in (0, 1):
            contents.refuse(f"form is {form.tolist()} for {n_features} features")
        self.faded = bool(form[3])
        self.n_samples, self.multilabel = int(form[1]), {-1: None, 0: False, 1: True}[int(form[2])]
        sizes = {"classes": len(self._index), "features": n_features, "rows": self.n_samples}
        vars(self).update(read(FIELDS, contents, sizes))
        contents.require(not self._seconds[self._counts == 0].any(), "seconds are left of a class without weight")
        seen = int(np.count_nonzero(self._counts))
        contents.require(bool(self.multilabel) or seen <= self.n_samples, f"{seen} classes of {self.n_samples} rows")
        contents.require(seen == 0 or self.multilabel is not None, "there are rows without a form of their labels")
        if not self.multilabel and self._numbers.sum() != self.n_samples:
            contents.refuse(f"its classes have {self._numbers.sum()} rows, and it has seen {self.n_samples}")
        self._row_weight = float(contents.array("row_weight", np.float64, (), low=0.0))
        self._row_mean = contents.array("row_mean", np.float64, (None,))
        weighs = self.multilabel and self._row_weight > 0
        if len(self._row_mean) not in ((n_features,) if weighs else (0, n_features)):
            contents.refuse(f"row_mean has {len(self._row_mean)} entries for {n_features} features")

    def _scaled(self, factor: float) -> Self:
        """Return these statistics, for reading only, with all weights multiplied by a factor."""
        view = copy.copy(self)
        view._counts, view._squares = self._counts * factor, self._squares * factor
        view._seconds, view._row_weight = self._seconds * factor * factor, self._row_weight * factor
        return view

    def _copy(self) -> Self:
        return copy.deepcopy(self)

    def _check_mergeable(self, other: ClassMeans) -> None:
        if type(other) is not type(self):
            raise TypeError(
                f"cannot merge {type(self).__name__} with {type(other).__name__}: both streams must keep "
                "the same statistics."
            )
        if other.n_features != self.n_features:
            raise ValueError(
                f"cannot merge statistics of {self.n_features} features with statistics of {other.n_features} features."
            )
        if None not in (self.multilabel, other.multilabel) and self.multilabel != other.multilabel:
            raise ValueError("cannot merge statistics of single labels with statistics of indicator matrices.")
        if self._index.labels and other._index.labels:
            labels = np.array(other._index.labels, dtype=other._index.dtype)
            check_labels(self._index, labels, len(labels))

    def _know(self, index: LabelIndex) -> None:
        """Take classes over, and make room for those that are new."""
        self._index = index
        needed, capacity = len(index.labels), len(self._counts)
        if needed > capacity:
            for field in FIELDS:
                held = getattr(self, field.attribute)
                room = np.zeros((max(needed, 2 * capacity), *held.shape[1:]), dtype=held.dtype)
                room[:capacity] = held
                setattr(self, field.attribute, room)

    def _accept(self, reading: Reading) -> None:
        self._know(reading.known)
        self.multilabel = reading.multilabel
        if reading.decay != 1.0:
            self.decay(reading.decay)

    def _triangle(self) -> Float:
        return np.zeros((0, 0))

    def _move(self, places: Integer, n_features: int) -> None:
        """Move everything that has columns; `n_features` is still the width before."""
        self._means = _moved(self._means, len(self._index), places, n_features)
        if len(self._row_mean):
            self._row_mean = _moved(self._row_mean[None, :], 1, places, n_features)[0]

    def _absorb(self, batch: Summary, *, joins: bool = True) -> Float:
        """Join a summary to the state; return the rows whose squares it adds to the scatter, if they are wanted."""
        shift = np.empty_like(batch.means) if joins else np.empty((0, 0))
        join(*batch, self._counts, self._means, self._squares, shift)
        return shift

    def _spread(self, X: Rows, members: Members, batch: Summary, joined: Float) -> None:
        """Add a batch to the second moments; this class keeps none."""

    def _join(self, other: Any, joined: Float) -> None:
        """Add the second moments of the other; this class keeps none."""

    @property
    def _width(self) -> int:
        """The number of features of a row that is learnt."""
        return self.n_features

    def _empty(self) -> ClassMeans:
        """Return empty statistics that sum up rows as these do, without a sample of them."""
        return ClassMeans(self.n_features)

    def _take_out(self, taken: Any) -> tuple[Float, Integer]:
        """Take the statistics of some rows out.

        Returns the rows whose squares leave the scatter with the means, and the classes of which nothing is left.
        """
        seen = np.flatnonzero(taken._counts[: len(taken._index)])
        labels = [taken._index.labels[k] for k in seen]
        codes = np.array([self._index._codes[label] for label in labels], dtype=np.int64)
        counts, means, squares = self._counts[codes], self._means[codes], self._squares[codes]
        self._peaks[codes] = np.maximum(self._peaks[codes], squares + counts * np.einsum("kd,kd->k", means, means))
        gone = taken._counts[seen], taken._means[seen], taken._squares[seen]
        left = part(labels, (counts, means, squares), gone, self._peaks[codes])
        self._counts[codes], self._means[codes], self._squares[codes] = left.counts, left.means, left.squares
        seconds = self._seconds[codes]
        rest = np.maximum(seconds - taken._seconds[seen], NOTHING * seconds)  # of a part of a row more is left
        self._seconds[codes] = np.where(left.gone, 0.0, rest)
        # A weight of 2 is the row twice, so the numbers of rows may differ; none are left where no weight is.
        self._numbers[codes] = np.where(left.gone, 0, np.maximum(self._numbers[codes] - taken._numbers[seen], 1))
        if self.multilabel:
            row = part_mean(self._row_weight, self._row_mean, taken._row_weight, taken._row_mean)
            self._row_weight, self._row_mean = row
            least = max(1, int(self._numbers.max(initial=0)))  # a weight of 2 may leave in two rows
            self.n_samples = max(self.n_samples - taken.n_samples, least) if row[0] > 0 else 0
            return left.joined, np.zeros(0, dtype=np.int64)  # the columns of an indicator matrix stay
        self.n_samples = int(self._numbers[: len(self._index)].sum())
        return left.joined, codes[left.gone]

    def _take_rows_out(self, X: Rows, reading: Reading) -> None:
        """Take rows out of the sample; this class keeps none."""

    def _code_of(self, label: Label) -> int:
        """Return the number of a class to be taken out as a whole."""
        if self.multilabel:
            raise ValueError(
                "with several labels per row, a label cannot be taken out by itself: its rows count for others too. "
                "Take the rows out with unlearn, and learn them again without the label."
            )
        if label not in self._index._codes:
            known = ", ".join(map(repr, self._index.labels[:5]))
            raise NotLearntError(f"class {label!r} was never learnt; known are {known}. Check its type and spelling.")
        return self._index._codes[label]

    def _drop(self, gone: Integer) -> Integer:
        """Drop classes; return the new number of each class before, −1 for those dropped."""
        kept = np.setdiff1d(np.arange(len(self._index)), gone)
        for field in FIELDS:
            setattr(self, field.attribute, getattr(self, field.attribute)[kept])
        return self._index.remove(gone)

    def _absorb_row_mean(self, weight: float, mean: Float) -> None:
        if self._row_weight == 0:
            self._row_mean = np.zeros(self.n_features)
        if weight > 0:
            self._row_weight += weight
            self._row_mean = self._row_mean + (mean - self._row_mean) * (weight / self._row_weight)


def _moved(rows: Float, known: int, places: Integer, n_features: int) -> Float:
    """Return rows, all zero after the first `known`, with their first columns at other places, zeros elsewhere."""
    result: Float = np.zeros((len(rows), n_features))  # takes no memory before it is written to
    if stay(places):
        result[:known, : len(places)] = rows[:known, : len(places)]
    else:
        result[:known, places] = rows[:known, : len(places)]
    return result


def stay(places: Integer) -> bool:
    """Tell whether columns only get others after them."""
    return bool(np.array_equal(places, np.arange(len(places))))
