"""What statistics answer to solvers, criteria and selection: sums in the order of the labels, and what is kept."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeGuard

import numpy as np

from kampong.data.labels import LabelIndex, check_labels
from kampong.statistics.units import CONSTANT

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer
    from kampong.statistics.all_rows import ClassRows
    from kampong.statistics.held_out import Kept
    from kampong.statistics.kernel_scatter import Basis
    from kampong.statistics.reservoir import ClassReservoir, SampledScatter


class Answers:
    """What can be read of statistics, and what they say of themselves, so that nobody asks for their class.

    Attributes
    ----------
    n_features : int
        The width of the rows.
    n_samples : int
        Rows of positive weight seen.
    faded : bool
        Whether rows have lost weight as others came.
    multilabel : bool or None
        Whether the targets are indicator matrices; None before the first batch.
    """

    holds_within: ClassVar[bool] = False
    """Whether `within_times` can answer."""

    owner: str = ""
    """The estimator that messages about rows name; "" for the statistics by themselves."""

    holds_scatter: ClassVar[bool] = False
    """Whether S_w is kept as a matrix: `within_scatter` can answer."""

    rows_at_hand: ClassVar[bool] = False
    """Whether all rows are at hand, for one fit."""

    rows_are_here: ClassVar[bool] = False
    """Whether these rows lie in the memory of this process, so that some of them can be read without a copy."""

    leaves_rows_out: ClassVar[bool] = False
    """Whether a sample and a scatter are kept, so that rows can be left out one by one in closed form."""

    refusal: ClassVar[str | None] = None
    """Why nothing more can be learnt or taken out; None where it can."""

    basis: Basis | None = None
    """The landmarks or Fourier features whose values are summed; None where rows are summed as they are."""

    n_features: int
    n_samples: int
    faded: bool
    multilabel: bool | None
    _index: LabelIndex
    _row_weight: float
    _row_mean: Float
    _counts: Float
    _means: Float
    _squares: Float
    _seconds: Float  # the sum of w² of each class
    _numbers: Integer  # rows of each class, whatever their weight
    _peaks: Float  # the largest squares about the origin of each class that rows have left
    _shares: Float | None = None  # of the classes in S_b, where they are not those observed

    # What a solver reads, all of it in the sorted order of the labels.

    @property
    def classes(self) -> np.ndarray:
        """Return the labels, sorted."""
        return self._index.sorted

    @property
    def appeared(self) -> Integer:
        """For each of `classes`, the number it got when it first came."""
        return self._index.order

    def numbers_of(self, y: Any) -> Integer:
        """Return the number that the label of each row, which was learnt, got when it first came."""
        return check_labels(self._index, y, len(y))[1]

    @property
    def n_classes(self) -> int:
        """Return the number of classes, declared ones included."""
        return len(self._index.labels)

    @property
    def classes_seen(self) -> int:
        """Return the number of classes of positive weight."""
        return int(np.count_nonzero(self._counts))

    @property
    def counts(self) -> Float:
        """Return the weight of each class; 0 for a class declared but not seen."""
        return self._counts[self._index.order]

    @property
    def means(self) -> Float:
        """Return the mean of each class, (K, d)."""
        return self._means[self._index.order]

    @property
    def squares(self) -> Float:
        """Return the weighted sum of squared distances from the class mean, for each class."""
        return self._squares[self._index.order]

    @property
    def total(self) -> float:
        """Return the weight of all memberships."""
        return float(self._counts[: len(self._index.labels)].sum())  # unused entries would change the order of the sum

    @property
    def mean(self) -> Float:
        """Return the mean of the rows (of the memberships, where a row has several labels)."""
        n = len(self._index.labels)
        weights = self._counts[:n]
        mean: Float = weights @ self._means[:n] / weights.sum()
        return mean

    @property
    def within_trace(self) -> float:
        """Return tr S_w."""
        return float(self._squares[: len(self._index.labels)].sum()) / self.total

    @property
    def row_weight(self) -> float:
        """Return the weight of the rows: less than `total` where rows have several labels."""
        return self._row_weight if self.multilabel else self.total

    @property
    def row_mean(self) -> Float:
        """Return the mean of the rows, each counted once."""
        return self._row_mean if self.multilabel else self.mean

    @property
    def fades(self) -> bool:
        """Tell whether rows have lost weight here, so that none can be taken out at the weight it came with."""
        return self.faded

    @property
    def weight_unit(self) -> float:
        """Return what a typical row weighs, Σw² / Σw: 1 where rows have no weights."""
        n = len(self._index.labels)
        total, seconds, rows = self._counts[:n].sum(), self._seconds[:n].sum(), self._numbers[:n].sum()
        if total > 0 and seconds > 0:
            return float(seconds / total)
        return float(total / rows) if total > 0 and rows > 0 else 1.0  # the squares underflowed: rows count the same

    @property
    def effective_rows(self) -> float:
        """Return how many rows of equal weight tell as much: (Σw)² / Σw² (Kish), whatever the scale of the weights.

        With decay that is about three half-lives. Where a row has several labels, each counts.
        """
        return self.total / self.weight_unit

    @property
    def kept_sample(self) -> ClassReservoir | None:
        """Return the sample of rows that is kept; None where there is none."""
        return None

    @property
    def keeps_rows(self) -> bool:
        """Tell whether rows are kept to choose and train heads."""
        return self.kept_sample is not None

    @property
    def rows_kept(self) -> int:
        """Return how many rows are kept to choose and train heads: in a sample, or all that are at hand."""
        kept = self.kept_sample
        return 0 if kept is None else kept.n_kept

    @property
    def within_sample(self) -> ClassReservoir | None:
        """Return the sample that S_w is estimated from, once rows have been left out of it; None where S_w is exact."""
        return None

    def between_factor(self) -> Float:
        """Return Φ, (K, d), with S_b = ΦᵀΦ: the centred class means times the roots of the priors."""
        counts, means = self.counts, self.means
        shares = counts / counts.sum() if self._shares is None else self._shares
        means -= self.mean if self._shares is None else shares @ means
        means *= np.sqrt(shares)[:, None]
        return means

    def weighed(self, shares: Float) -> Self:
        """Return these statistics, for reading only, with other shares of the classes in S_b."""
        view = copy.copy(self)
        view._shares = np.where(self.counts > 0, shares, 0.0)
        view._shares /= view._shares.sum()
        return view

    def within_times(self, block: Float) -> Float:
        """Return S_w @ block, where it is known."""
        raise TypeError(f"{type(self).__name__} holds class means only; S_w needs ClassScatter or rows.")

    def within_variances(self) -> Float:
        """Return the diagonal of S_w, where it is known."""
        raise TypeError(f"{type(self).__name__} holds class means only; S_w needs ClassScatter or rows.")

    def within_scatter(self) -> Float:
        """Return S_w, (d, d), symmetric, where it is kept as a matrix."""
        raise TypeError(f"{type(self).__name__} keeps no d × d matrix: use within_times, or collect ClassScatter.")

    def units(self) -> Float:
        """Return the standard deviation of each column over all rows; a column that hardly varies is not blown up."""
        between = np.square(self.between_factor()).sum(axis=0)
        squares = self.within_variances() + between + CONSTANT * np.square(self.mean)
        units: Float = np.sqrt(np.where(squares > 0, squares, 1.0))
        return units

    def in_units(self, units: Float) -> Self:
        """Return these statistics, for reading only, as they would be of rows divided by `units`."""
        view = copy.copy(self)
        view._means, view._row_mean = self._means / units, self._row_mean / units if self.multilabel else self._row_mean
        if self.holds_within:
            view._squares = self._counts * float((self.within_variances() / np.square(units)).sum())
        return view


# What tells a type checker too.


def keeps_rows(statistics: Answers) -> TypeGuard[Kept]:
    """Tell whether rows are kept, of which some can be held out."""
    return statistics.keeps_rows


def rows_are_here(statistics: Answers) -> TypeGuard[ClassRows]:
    """Tell whether all rows lie in the memory of this process."""
    return statistics.rows_are_here


def leaves_rows_out(statistics: Answers) -> TypeGuard[SampledScatter]:
    """Tell whether rows can be left out one by one in closed form."""
    return statistics.leaves_rows_out
