"""DriftingScatter: the scatter of all rows with a sample, and what follows drift: a ladder of half-lives, or steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from kampong.statistics.ladder import Ladder
from kampong.statistics.ladder_steps import WIDEST, ridge_rows
from kampong.statistics.reservoir import BUDGET, SampledScatter
from kampong.statistics.scatter import ClassScatter
from kampong.statistics.stepper import Stepper

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
    from kampong.files.contents import Contents
    from kampong.statistics.means import ClassMeans, Reading


class RecentRows(NamedTuple):
    """What a rung of the ladder remembers, in units of the columns' standard deviations.

    Attributes
    ----------
    statistics : ClassScatter
        Counts, means and scatter.
    units : array of shape (n_features,)
        The standard deviations.
    ridge : float
        The ridge in these units.
    """

    statistics: ClassScatter
    units: Float
    ridge: float


class DriftingScatter(SampledScatter):
    """The scatter of all rows and a sample, and the same statistics at several half-lives.

    Parameters
    ----------
    n_features : int
        The width d of the rows. Past 128 columns, or many classes, a `Stepper` stands where the ladder would.
    budget : int
        Bytes for the sample.
    random_state : int
        The seed of its clocks.
    """

    def __init__(self, n_features: int, *, budget: int = BUDGET, random_state: int = 0) -> None:
        super().__init__(n_features, budget=budget, random_state=random_state)
        self.ladder: Ladder | Stepper | None = Ladder(n_features) if n_features <= WIDEST else Stepper(n_features)

    @property
    def drifting(self) -> Self:
        """Return this object: it follows drift."""
        return self

    @property
    def half_lives(self) -> Ladder | None:
        """Return the ladder of half-lives; None where steps follow drift, or nothing does any more."""
        return self.ladder if isinstance(self.ladder, Ladder) else None

    @property
    def half_life(self) -> float:
        """The half-life that predicts best of late; infinite where forgetting does not help."""
        return np.inf if self.ladder is None else self.ladder.half_life

    def give(self, classes: np.ndarray, probabilities: Float) -> None:
        """Tell the ladder what a predictor of all rows says of the next rows."""
        if self.ladder is None:
            return
        codes = [self._index._codes[label] for label in classes.tolist()]
        self.ladder.given = np.zeros((len(probabilities), len(self._index)))
        self.ladder.given[:, codes] = probabilities

    def tell(self, classes: np.ndarray, labels: np.ndarray) -> bool:
        """Tell a ladder that sleeps what a predictor of all rows says of the next rows; False where it is awake."""
        if not isinstance(self.ladder, Ladder) or not self.ladder.sleeps_through(len(labels)):
            return False
        codes = np.array([self._index._codes[label] for label in classes.tolist()])
        self.ladder.told = codes[np.searchsorted(classes, labels)]
        return True

    def hush(self) -> None:
        """Forget what a predictor of all rows said of rows that did not come."""
        if self.ladder is not None:
            self.ladder.given = self.ladder.told = None

    def said(self) -> np.ndarray | None:
        """Return what was predicted of each of the last rows before it was learnt; None where nothing could be said."""
        if self.ladder is None or not len(self.ladder.said) or self.ladder.said.min() < 0:
            return None
        order = np.array(self._index.position)
        found: np.ndarray = self.classes[order[self.ladder.said]]
        return found

    def recent(self) -> RecentRows | None:
        """Return what the half-life that predicts best remembers; None where that is all rows."""
        if not isinstance(self.ladder, Ladder) or np.isinf(self.half_life):
            return None
        counts, means, within, variances = self.ladder.rung()
        seen = np.flatnonzero(counts > 1e-9 * counts.sum())
        if len(seen) < 2:
            return None
        unit = self.ladder.weight_unit  # in rows, which are in the range of weights however large or small those are
        counts, within, units = counts / unit, within / unit, np.sqrt(variances)
        labels = np.array(self._index.labels, dtype=self._index.dtype)
        statistics = ClassScatter(self.n_features)
        statistics.declare(self.classes)
        statistics.update(means[seen] / units, labels[seen], counts[seen])
        statistics._scatter += np.tril(within) / np.outer(units, units)
        held = np.array([statistics._index._codes[label] for label in labels[seen].tolist()])
        total = counts[seen].sum()
        statistics._squares[held] += np.trace(statistics._scatter) * counts[seen] / total
        statistics._peak_diagonal = statistics._scatter.diagonal().copy()
        statistics._seconds[held] = counts[seen]
        statistics.n_samples = self.n_samples
        return RecentRows(statistics, units, ridge_rows(self.n_features) / float(total))

    def stepping(self) -> tuple[Float, Float] | None:
        """Return weights, (K, d), and offsets, (K,), in the order of the classes, of what steps with every row.

        None where the predictor of all rows does as well of late, and where nothing steps.
        """
        place = self.ladder.best() if isinstance(self.ladder, Stepper) else None
        if place is None or not isinstance(self.ladder, Stepper):
            return None
        weights, offsets = self.ladder.linear(place)
        order = self._index.order
        return weights[order], offsets[order]

    def merge(self, other: ClassMeans) -> Self:
        """Return the statistics of both streams together, rung by rung; neither operand changes."""
        result = super().merge(other)
        assert isinstance(other, DriftingScatter)
        result.ladder = None
        n_classes = len(result._index)
        codes = np.array([result._index._codes[label] for label in other._index.labels], dtype=np.int64)
        mine, theirs, size = self.ladder, other.ladder, n_classes * self.n_features
        if isinstance(mine, Ladder) and isinstance(theirs, Ladder) and size <= Ladder.most:
            result.ladder = mine.merge(theirs, codes, n_classes)
        if isinstance(mine, Stepper) and isinstance(theirs, Stepper) and size <= Stepper.most:
            result.ladder = mine.merge(theirs, codes, n_classes)
        return result

    def to_state(self) -> dict[str, Any]:
        """Return the whole state: arrays, plain values, and dictionaries of both; nothing to unpickle."""
        state = super().to_state()
        if self.ladder is not None:
            self.ladder.grow(len(self._index))
            state["ladder" if isinstance(self.ladder, Ladder) else "stepper"] = self.ladder.to_state()
        return state

    def _restore(self, contents: Contents) -> None:
        super()._restore(contents)
        self.ladder = None
        if "ladder" in contents:
            self.ladder = Ladder.from_state(contents.part("ladder"), self.n_features, len(self._index))
        elif "stepper" in contents:
            self.ladder = Stepper.from_state(contents.part("stepper"), self.n_features, len(self._index))

    def _take_out(self, taken: Any) -> tuple[Float, Integer]:
        self.ladder = None  # what steps with every row cannot step back
        return super()._take_out(taken)

    def _move(self, places: Integer, n_features: int) -> None:
        super()._move(places, n_features)
        size = n_features * len(self._index)
        if isinstance(self.ladder, Ladder) and (n_features > WIDEST or size > Ladder.most):
            self.ladder = Stepper(n_features)
        elif self.ladder is not None:
            self.ladder = self.ladder.moved(places, n_features) if size <= self.ladder.most else None

    def _keep(self, X: Rows, reading: Reading, before: int) -> None:
        super()._keep(X, reading, before)
        if self.ladder is None:
            return
        n_classes, members = len(self._index), reading.members
        if isinstance(self.ladder, Ladder) and n_classes * self.n_features > Ladder.most:
            self.ladder = Stepper(self.n_features)  # a row would cost too much
        if reading.multilabel or n_classes * self.n_features > Stepper.most:
            self.ladder = None  # a row has no one class, or would cost too much
            return
        rows = X if len(members.rows) == X.shape[0] else X[members.rows]
        if isinstance(self.ladder, Stepper):
            self.ladder.update(rows, members.codes, members.weights, n_classes)
            return
        rows = rows if isinstance(rows, np.ndarray) else rows.toarray()
        if self.ladder.rests(len(rows)):
            counts, means = self._counts[:n_classes], self._means[:n_classes]
            self.ladder.rest(rows, members.codes, members.weights, counts, means, self._scatter)
        else:
            self.ladder.update(rows, members.codes, members.weights, n_classes)
