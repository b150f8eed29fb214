"""A ladder of half-lives: the same class statistics, forgotten at several rates side by side, and which predicts best.

Every rung keeps counts, means and within-class scatter of the classes. Before a row is learnt each rung says how
probable its class is (linear Gaussian classes, the covariance pulled towards the variances of the columns by a few
rows, so units do not matter). The losses, themselves forgotten after some rows, weigh the rungs: the weights change
smoothly, so no last bit decides. While the ladder is awake everything goes row by row: batches do not matter.

Where forgetting does not help, the ladder sleeps, twice as long each time, so that a stream without drift pays little.
It wakes before its time where the predictor of all rows becomes clearly worse. Asleep it learns nothing by itself: the
rung of all rows is a copy of the statistics of all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kampong.files.fields import array, read, written
from kampong.statistics.ladder_steps import (
    AHEAD,
    AWAKE,
    BEST,
    CHOSEN,
    CLOCK,
    CYCLE,
    HALF_LIVES,
    IS_AWAKE,
    LONGEST,
    MISSED,
    MOST,
    NEXT,
    ROWS,
    SECONDS,
    SLEPT,
    START,
    WEIGHT,
    WIDEST,
    Rungs,
    blend_all,
    column_variances,
    decays,
    intervals,
    learn_ahead,
    look,
    solve_all,
    waking,
    watch,
    weight_unit,
)

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer
    from kampong.files.contents import Contents

FIELDS = (
    array("counts", "rungs", "classes", low=0.0),
    array("means", "rungs", "classes", "features"),
    array("within", "rungs", "features", "features"),
    array("column_mean", "features"),
    array("column_squares", "features", low=0.0),
    array("weights", "rungs", "classes", "features"),
    array("offsets", "rungs", "classes"),
    array("centres", "rungs", "features"),
    array("losses", "1+rungs", low=0.0),
    array("clock", str(CLOCK)),
)
"""Those of `Rungs`, in their order."""

ABSENT = -1e300
"""What stands for −∞ in a file."""


class Ladder:
    """Class statistics at several half-lives, and their recent losses.

    Parameters
    ----------
    n_features : int
        The width of the rows, at most 128.

    Attributes
    ----------
    given : array of shape (rows, classes), optional
        For the next rows: the probabilities that a predictor of all rows gives. They take part in the contest.
    told : array of int of shape (rows,), optional
        For the next rows, where the ladder sleeps through all of them: only the classes that such a predictor names.
    said : array of int
        Of the last rows: the number of the class predicted before each was learnt, −1 where nothing could be said.
    chances : array of float
        How probable each of these was found, NaN where nothing could be said.
    """

    most = MOST

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features
        self.given: Float | None = None
        self.told: Integer | None = None
        self.said: Integer = np.empty(0, dtype=np.int64)
        self.chances: Float = np.empty(0)
        self._rungs = Rungs(*(field.zeros(_sizes(n_features, 0)) for field in FIELDS))
        self._rungs.clock[[IS_AWAKE, CHOSEN]] = 1.0, len(HALF_LIVES) - 1
        self._rungs.clock[[NEXT, SLEPT, BEST]] = CYCLE, CYCLE / 2, -1.0

    @property
    def half_life(self) -> float:
        """The half-life that predicts best of late; infinite where forgetting does not help."""
        return HALF_LIVES[int(self._rungs.clock[CHOSEN])]

    @property
    def losses(self) -> Float:
        """The recent loss of each rung, and of the predictor that was given, least is best."""
        return self._rungs.losses.copy()

    @property
    def weight_unit(self) -> float:
        """What a typical row weighs: a weight over it is a number of rows."""
        return float(weight_unit(self._rungs.clock))

    @property
    def awake(self) -> bool:
        """Whether the short rungs learn at present."""
        return bool(self._rungs.clock[IS_AWAKE])

    def sleeps_through(self, rows: int) -> bool:
        """Tell whether the ladder sleeps while so many rows are learnt, CYCLE at the most."""
        clock = self._rungs.clock
        return not self.awake and rows <= min(clock[NEXT] - clock[ROWS], CYCLE)

    @property
    def turn(self) -> int:
        """After how many rows the ladder may fall asleep, or begins a cycle: pieces of rows should end there."""
        clock = self._rungs.clock
        rows, begun = int(clock[ROWS]), int(clock[START])
        if rows == clock[NEXT]:
            return AWAKE
        tries = self.awake and begun >= CYCLE and rows < begun + AWAKE
        return (begun + AWAKE if tries else int(clock[NEXT])) - rows

    def rests(self, rows: int) -> bool:
        """Tell whether the ladder sleeps through the next so many rows, and was told what to say of them."""
        return self.told is not None and self.sleeps_through(rows)

    def rest(self, X: Float, codes: Integer, weights: Float, counts: Float, means: Float, scatter: Float) -> None:
        """Sleep through rows: the rung of all rows takes the statistics of all rows, which have learnt them already.

        Parameters
        ----------
        X : array of shape (rows, n_features)
            The rows, for the rungs that must learn before the ladder wakes.
        codes : array of int of shape (rows,)
            The numbers of their classes.
        weights : array of shape (rows,)
            Their weights.
        counts, means, scatter : arrays of shape (K,), (K, d) and (d, d)
            The statistics of all rows, these included; of the scatter the lower triangle counts.
        """
        assert self.told is not None
        self.grow(len(counts))
        rungs, clock = self._rungs, self._rungs.clock
        self.said, self.chances = self.told, np.full(len(codes), np.nan)
        wrong = (self.told >= 0) & (self.told != codes)
        self.told = None
        start, planned = int(clock[ROWS]), clock[NEXT]
        stop = start + len(codes)
        for cut in (*range(-(-start // CYCLE) * CYCLE, stop, CYCLE), stop):
            clock[MISSED] += np.count_nonzero(wrong[int(clock[ROWS]) - start : cut - start])
            clock[ROWS] = cut
            if 0 < cut < stop:
                look(rungs)
        if clock[NEXT] < planned:  # it is to wake before its time, and rungs must learn before
            clock[NEXT] = max(clock[NEXT], stop + AHEAD)
        learn_ahead(rungs, np.ascontiguousarray(X, dtype=np.float64), codes, weights, decays(), waking())
        clock[WEIGHT] += weights.sum()
        clock[SECONDS] += np.square(weights).sum()
        rungs.counts[-1], rungs.means[-1], rungs.within[-1] = counts, means, np.tril(scatter)
        rungs.column_mean[:] = counts / counts.sum() @ means
        rungs.column_squares[:] = np.diagonal(scatter) + counts @ np.square(means - rungs.column_mean)

    def update(self, X: Float, codes: Integer, weights: Float, n_classes: int) -> None:
        """Predict and then learn row after row.

        Parameters
        ----------
        X : array of shape (rows, n_features)
            The rows.
        codes : array of int of shape (rows,)
            The numbers of their classes.
        weights : array of shape (rows,)
            Their weights, all positive.
        n_classes : int
            How many classes there are.
        """
        self.grow(n_classes)
        given: Float = np.empty((0, n_classes))
        if self.given is not None:
            given = np.zeros((len(codes), n_classes))
            given[:, : self.given.shape[1]] = self.given
        told = self.told if self.told is not None else np.empty(0, dtype=np.int64)
        self.given = self.told = None
        self.said, self.chances = np.full(len(codes), -1, dtype=np.int64), np.full(len(codes), np.nan)
        rows = np.ascontiguousarray(X, dtype=np.float64)
        paces = intervals(self.n_features)
        watch(self._rungs, rows, codes, weights, given, told, decays(), paces, waking(), self.said, self.chances)

    def rung(self, place: int | None = None) -> tuple[Float, Float, Float, Float]:
        """Return counts, means and scatter of a rung, and the variances of the columns.

        Parameters
        ----------
        place : int, optional
            Which rung; by default the one that predicts best of late.

        Returns
        -------
        counts, means, scatter, variances : array
            Copies; of the scatter the lower triangle is current.
        """
        rungs = self._rungs
        place = int(rungs.clock[CHOSEN]) if place is None else place
        variances = column_variances(rungs.column_mean, rungs.column_squares, rungs.clock[WEIGHT])
        return rungs.counts[place].copy(), rungs.means[place].copy(), rungs.within[place].copy(), variances

    def probabilities(self, X: Float) -> Float:
        """Return how probable each class of rows is to the rungs, weighed by their recent losses.

        Parameters
        ----------
        X : array of shape (rows, n_features)
            The rows.

        Returns
        -------
        array of shape (rows, K)
            In the order of the numbers of the classes; 0 for one that is not known.
        """
        blend = np.zeros((len(X), self._rungs.counts.shape[1]))
        blend_all(self._rungs, np.ascontiguousarray(X, dtype=np.float64), blend)
        return blend

    def merge(self, other: Self, codes: Integer, n_classes: int) -> Self:
        """Return the ladder of both streams, rung by rung; neither operand changes.

        Parameters
        ----------
        other : Ladder
            The other one.
        codes : array of int
            The number that each class of the other has here.
        n_classes : int
            How many classes there are together.

        Returns
        -------
        Ladder
            Each rung has learnt both; losses are the mean of both.
        """
        result = type(self)(self.n_features)
        result._rungs = Rungs(*(array.copy() for array in self._rungs))
        result.grow(n_classes)
        rungs, more, n = result._rungs, other._rungs, len(codes)
        mine, theirs = rungs.clock[WEIGHT], more.clock[WEIGHT]
        share = theirs / max(mine + theirs, 1e-300)
        step = more.column_mean - rungs.column_mean
        rungs.column_squares[:] += more.column_squares + np.square(step) * mine * share
        rungs.column_mean[:] += step * share
        for place in range(len(HALF_LIVES)):
            before, added = rungs.counts[place, codes], more.counts[place, :n]
            both = before + added
            shift = more.means[place, :n] - rungs.means[place, codes]
            part = np.where(both > 0, added / np.where(both > 0, both, 1.0), 0.0)
            root = np.sqrt(before * part)[:, None] * shift
            rungs.within[place] += more.within[place] + root.T @ root
            rungs.means[place, codes] += part[:, None] * shift
            rungs.counts[place, codes] = both
        rungs.losses[:] = (rungs.losses + more.losses) / 2
        awake, slept = np.maximum(rungs.clock, more.clock)[[IS_AWAKE, SLEPT]]
        rungs.clock[:] += more.clock
        rungs.clock[[IS_AWAKE, SLEPT, CHOSEN]] = awake, slept, np.argmin(rungs.losses[:-1])
        rungs.clock[[START, NEXT]] = rungs.clock[ROWS]  # a new cycle
        rungs.clock[[MISSED, BEST]] = 0.0, -1.0
        solve_all(rungs)
        return result

    def to_state(self) -> dict[str, Any]:
        """Return everything as named arrays."""
        state = written(FIELDS, self._rungs)
        state["offsets"] = np.maximum(state["offsets"], ABSENT)
        return state

    @classmethod
    def from_state(cls, contents: Contents, n_features: int, n_classes: int) -> Self:
        """Return the ladder that `to_state` wrote, each value checked.

        Parameters
        ----------
        contents : Contents
            The state, which is used up.
        n_features : int
            The width of the rows.
        n_classes : int
            How many classes there are.

        Returns
        -------
        Ladder
            It goes on with the same bits.
        """
        if n_features > WIDEST or n_features * n_classes > MOST:
            contents.refuse(f"there is none for {n_features} features and {n_classes} classes")
        found = read(FIELDS, contents, _sizes(n_features, n_classes))
        arrays = {name: values.copy() for name, values in found.items()}
        clock = arrays["clock"]
        contents.require(clock[CHOSEN] in range(len(HALF_LIVES)), f"clock names rung {clock[CHOSEN]}")
        contents.require(clock[IS_AWAKE] in (0.0, 1.0), f"clock is awake {clock[IS_AWAKE]}")
        contents.require(clock[ROWS] >= 0 and float(clock[ROWS]).is_integer(), f"clock has {clock[ROWS]} rows")
        contents.require(clock[WEIGHT] >= 0, f"clock has the weight {clock[WEIGHT]}")
        alike = clock[SECONDS] >= 0 and (clock[SECONDS] > 0) == (clock[WEIGHT] > 0)
        contents.require(alike, f"clock has the squared weights {clock[SECONDS]} of the weight {clock[WEIGHT]}")
        times = clock[[START, NEXT, MISSED, BEST]]
        contents.require(bool((times == np.round(times)).all()), f"clock has parts of rows: {times.tolist()}")
        rows = clock[ROWS]
        contents.require(0 <= clock[START] <= rows, f"clock began a cycle at {clock[START]} of {rows} rows")
        longest = rows + LONGEST * CYCLE
        contents.require(rows <= clock[NEXT] <= longest, f"clock begins the next cycle at {clock[NEXT]}, after {rows}")
        contents.require(0 < clock[SLEPT] <= LONGEST * CYCLE, f"clock had a cycle of {clock[SLEPT]} rows")
        contents.require(0 <= clock[MISSED] <= CYCLE, f"clock has missed {clock[MISSED]} rows")
        contents.require(-1 <= clock[BEST] <= CYCLE, f"clock has missed {clock[BEST]} rows at best")
        contents.finish()
        arrays["offsets"][arrays["offsets"] <= ABSENT] = -np.inf
        ladder = cls(n_features)
        ladder._rungs = Rungs(**arrays)
        return ladder

    def moved(self, places: Integer, n_features: int) -> Self:
        """Return the ladder with the first columns at other places of a new width, as if rows had come so.

        Parameters
        ----------
        places : array of int
            Where each of the first columns goes; further ones were always zero.
        n_features : int
            The new width.

        Returns
        -------
        Ladder
            Another one, solved anew.
        """
        result, n = type(self)(n_features), len(places)
        result.grow(self._rungs.counts.shape[1])
        old, new = self._rungs, result._rungs
        for name in ("counts", "losses", "clock"):
            getattr(new, name)[:] = getattr(old, name)
        for name in ("means", "column_mean", "column_squares"):
            getattr(new, name)[..., places] = getattr(old, name)[..., :n]
        square = np.tril(old.within[:, :n, :n])
        new.within[np.ix_(np.arange(len(square)), places, places)] = square + np.tril(square, -1).transpose(0, 2, 1)
        solve_all(new)
        return result

    def grow(self, n_classes: int) -> None:
        """Make room for classes."""
        known = self._rungs.counts.shape[1]
        if n_classes <= known:
            return
        sizes, old = _sizes(self.n_features, n_classes), self._rungs._asdict()
        larger = {one.name: one.grown(old[one.name], sizes) for one in FIELDS if "classes" in (one.axes or ())}
        larger["offsets"][:, known:] = -np.inf
        self._rungs = self._rungs._replace(**larger)


def _sizes(n_features: int, n_classes: int) -> dict[str, int]:
    return {"rungs": len(HALF_LIVES), "features": n_features, "classes": n_classes}
