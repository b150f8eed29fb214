"""What follows a stream too wide for a ladder of half-lives: logistic regressions that take a step with every row.

A ladder keeps a scatter a rung, so it ends at 128 columns. A logistic regression costs columns × classes numbers. Two
of them step through the standardised rows, one by short and one by long steps of constant length, so old rows fade by
themselves. Each says how probable the class of a row is before the row is learnt, and so does the predictor of all
rows; their losses, forgotten after some rows, weigh them as they do in a ladder. Row by row: batches do not matter.

Sparse rows are scaled and not centred, so that a row costs its entries × classes. The first rows decide the form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from kampong._core.compute import blocks, compiled
from kampong.files.fields import array, read, written
from kampong.statistics.ladder_steps import ALWAYS, FADE, LEAD, LEAST

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
    from kampong.files.contents import Contents

RATES = (0.5, 2.0)
"""How far a step goes, of the way that would change the scores of the row by its gradient, a regression each."""

MOST = 2**21
"""The most columns times classes: past that nothing steps."""

FLAT = 1e-24
"""A column whose variance is no more than this part of its squared mean never changed."""

FIELDS = (
    array("counts", "classes", low=0.0),
    array("column_mean", "features"),
    array("column_squares", "features", low=0.0),
    array("weights", "rates", "features", "classes"),
    array("offsets", "rates", "classes"),
    array("losses", "1+rates", low=0.0),
    array("clock", "4", low=0.0),
)
"""Those of `Steps`, in their order."""

ROWS, WEIGHT, SECONDS, FORM = range(4)
UNKNOWN, DENSE, SPARSE = 0.0, 1.0, 2.0


class Steps(NamedTuple):
    """All that a stepper remembers; the steps change it in place.

    Attributes
    ----------
    counts : array of shape (K,)
        The weight of each class.
    column_mean, column_squares : arrays of shape (d,)
        Mean and squared distances of all rows; 0 and squares for sparse ones.
    weights, offsets : arrays of shape (rates, d, K) and (rates, K)
        The scores of each regression, of standardised columns.
    losses : array of shape (rates + 1,)
        The recent loss of each, and of the predictor of all rows that is given.
    clock : array of shape (4,)
        Rows, their weight and squared weights, and the form of the rows.
    """

    counts: Float
    column_mean: Float
    column_squares: Float
    weights: Float
    offsets: Float
    losses: Float
    clock: Float


class Stepper:
    """Logistic regressions of several step lengths, and their recent losses; it stands where a ladder would.

    Parameters
    ----------
    n_features : int
        The width of the rows.

    Attributes
    ----------
    given : array of shape (rows, classes), optional
        For the next rows: the probabilities that a predictor of all rows gives. They take part in the contest.
    said : array of int
        Of the last rows: the number of the class predicted before each was learnt, −1 where nothing could be said.
    chances : array of float
        How probable each of these was found, NaN where nothing could be said.
    """

    half_life = np.inf
    turn = ALWAYS
    most = MOST

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features
        self.given: Float | None = None
        self.told: Integer | None = None
        self.said: Integer = np.empty(0, dtype=np.int64)
        self.chances: Float = np.empty(0)
        self._steps = Steps(*(field.zeros(_sizes(n_features, 0)) for field in FIELDS))

    @property
    def losses(self) -> Float:
        """The recent loss of each regression, and of the predictor that was given, least is best."""
        return self._steps.losses.copy()

    def sleeps_through(self, rows: int) -> bool:
        """Tell whether rows may be learnt without a look at them: never."""
        return False

    def update(self, X: Rows, codes: Integer, weights: Float, n_classes: int) -> None:
        """Predict and then learn row after row.

        Parameters
        ----------
        X : array or sparse matrix of shape (rows, n_features)
            The rows.
        codes : array of int of shape (rows,)
            The numbers of their classes.
        weights : array of shape (rows,)
            Their weights, all positive; a step is as long as the weight over that of a typical row says, at most so
            long that the scores of the row are right.
        n_classes : int
            How many classes there are.
        """
        self.grow(n_classes)
        given: Float = np.empty((0, n_classes))
        if self.given is not None:
            given = np.zeros((len(codes), n_classes))
            given[:, : self.given.shape[1]] = self.given
        self.given = None
        self.said, self.chances = np.full(len(codes), -1, dtype=np.int64), np.full(len(codes), np.nan)
        clock = self._steps.clock
        if clock[FORM] == UNKNOWN:
            clock[FORM] = DENSE if isinstance(X, np.ndarray) else SPARSE
        if clock[FORM] == SPARSE:
            rows = sparse.csr_array(X)
            entries = (rows.indptr, rows.indices, rows.data.astype(np.float64, copy=False))
            self._take(np.empty((0, 0)), entries, slice(None), codes, weights, given)
            return
        nothing = (np.zeros(1, dtype=np.int32), np.zeros(0, dtype=np.int32), np.zeros(0))
        for part in blocks(len(codes), 8 * self.n_features):
            some: Any = X[part]
            dense = some if isinstance(some, np.ndarray) else some.toarray()
            self._take(np.ascontiguousarray(dense, dtype=np.float64), nothing, part, codes, weights, given)

    def _take(
        self,
        X: Float,
        entries: tuple[Integer, Integer, Float],
        part: slice,
        codes: Integer,
        weights: Float,
        given: Float,
    ) -> None:
        """Take some rows, dense or as entries."""
        said, chances, rates = self.said[part], self.chances[part], np.array(RATES)
        step_rows(self._steps, X, *entries, codes[part], weights[part], given[part], rates, said, chances)

    def best(self) -> int | None:
        """Return which regression predicts clearly better of late than the predictor of all rows; None for none."""
        losses = self._steps.losses
        place = int(np.argmin(losses[:-1]))
        return place if losses[place] < losses[-1] - LEAD else None

    def linear(self, place: int) -> tuple[Float, Float]:
        """Return weights, (K, d), and offsets, (K,), of the scores of a row as it came; −∞ for a class not seen."""
        steps = self._steps
        units = _units(steps.column_mean, steps.column_squares, steps.clock[WEIGHT])
        weights = np.ascontiguousarray((steps.weights[place] * units[:, None]).T)
        offsets = steps.offsets[place] - weights @ steps.column_mean
        return weights, np.where(steps.counts > 0, offsets, -np.inf)

    def merge(self, other: Self, codes: Integer, n_classes: int) -> Self:
        """Return the stepper of both streams; neither operand changes.

        Parameters
        ----------
        other : Stepper
            The other one.
        codes : array of int
            The number that each class of the other has here.
        n_classes : int
            How many classes there are together.

        Returns
        -------
        Stepper
            Columns as if both streams were one; weights are the mean of both by their rows, losses the mean of both.
        """
        result = type(self)(self.n_features)
        result._steps = Steps(*(array.copy() for array in self._steps))
        result.grow(n_classes)
        steps, more, n = result._steps, other._steps, len(codes)
        mine, theirs = steps.clock[WEIGHT], more.clock[WEIGHT]
        share = theirs / max(mine + theirs, 1e-300)
        step = more.column_mean - steps.column_mean
        steps.column_squares[:] += more.column_squares + np.square(step) * mine * share
        steps.column_mean[:] += step * share
        steps.counts[codes] += more.counts[:n]
        for scores, added in ((steps.weights, more.weights), (steps.offsets, more.offsets)):
            scores *= 1.0 - share
            scores[..., codes] += share * added[..., :n]
        steps.losses[:] = (steps.losses + more.losses) / 2
        steps.clock[:FORM] += more.clock[:FORM]
        steps.clock[FORM] = steps.clock[FORM] or more.clock[FORM]
        return result

    def to_state(self) -> dict[str, Any]:
        """Return everything as named arrays."""
        return written(FIELDS, self._steps)

    @classmethod
    def from_state(cls, contents: Contents, n_features: int, n_classes: int) -> Self:
        """Return the stepper that `to_state` wrote, each value checked.

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
        Stepper
            It goes on with the same bits.
        """
        if n_features * n_classes > MOST:
            contents.refuse(f"there is none for {n_features} features and {n_classes} classes")
        found = read(FIELDS, contents, _sizes(n_features, n_classes))
        arrays = {name: values.copy() for name, values in found.items()}
        rows, weight, seconds, form = arrays["clock"]
        alike = (seconds > 0) == (weight > 0)
        contents.require(alike, f"clock has the squared weights {seconds} of the weight {weight}")
        contents.require(float(rows).is_integer(), f"clock has {rows} rows")
        contents.require(form in (UNKNOWN, DENSE, SPARSE), f"clock has rows of the form {form}")
        contents.finish()
        stepper = cls(n_features)
        stepper._steps = Steps(**arrays)
        return stepper

    def moved(self, places: Integer, n_features: int) -> Self:
        """Return the stepper with the first columns at other places of a new width, as if rows had come so.

        Parameters
        ----------
        places : array of int
            Where each of the first columns goes; further ones were always zero.
        n_features : int
            The new width.

        Returns
        -------
        Stepper
            Another one.
        """
        result, n = type(self)(n_features), len(places)
        result.grow(len(self._steps.counts))
        old, new = self._steps, result._steps
        for name in ("counts", "offsets", "losses", "clock"):
            getattr(new, name)[:] = getattr(old, name)
        for name in ("column_mean", "column_squares"):
            getattr(new, name)[places] = getattr(old, name)[:n]
        new.weights[:, places] = old.weights[:, :n]
        return result

    def grow(self, n_classes: int) -> None:
        """Make room for classes."""
        known = len(self._steps.counts)
        if n_classes <= known:
            return
        sizes, old = _sizes(self.n_features, n_classes), self._steps._asdict()
        larger = {one.name: one.grown(old[one.name], sizes) for one in FIELDS if "classes" in (one.axes or ())}
        self._steps = self._steps._replace(**larger)


def _sizes(n_features: int, n_classes: int) -> dict[str, int]:
    return {"rates": len(RATES), "features": n_features, "classes": n_classes}


@compiled
def _units(mean: Float, squares: Float, weight: float) -> Float:
    """Return what standardises each column: 1 over its standard deviation, 0 for one that never changed."""
    result = np.zeros(len(mean))
    for j in range(len(mean)):
        variance = squares[j] / weight if weight > 0 else 0.0
        if variance > FLAT * mean[j] * mean[j]:
            result[j] = 1.0 / np.sqrt(variance)
    return result


@compiled
def _probable(scores: Float, counts: Float) -> None:
    """Turn scores into probabilities of the classes that have come."""
    most = -np.inf
    for k in range(len(scores)):
        if counts[k] > 0:
            most = max(most, scores[k])
    total = 0.0
    for k in range(len(scores)):
        scores[k] = np.exp(scores[k] - most) if counts[k] > 0 else 0.0
        total += scores[k]
    for k in range(len(scores)):
        scores[k] /= total


@compiled
def _judge(losses: Float, probable: Float, code: int, experts: int) -> tuple[int, float]:
    """Weigh the experts by their recent losses, then take their losses; return the class, and how probable it is."""
    least = losses[:experts].min()
    blend = np.zeros(probable.shape[1])
    total = 0.0
    for expert in range(experts):
        share = np.exp(least - losses[expert])
        total += share
        blend += share * probable[expert]
    for expert in range(experts):
        losses[expert] = FADE * losses[expert] - np.log(max(probable[expert, code], LEAST))
    best = int(np.argmax(blend))
    return best, blend[best] / total


@compiled
def _read_dense(steps: Steps, x: Float, share: float, weight: float, row: Float, places: Integer) -> int:
    """Learn mean and variance of the columns; write the standardised row, and return how many entries it has."""
    mean, squares, total, count = steps.column_mean, steps.column_squares, steps.clock[WEIGHT], 0
    for j in range(len(x)):
        step = x[j] - mean[j]
        mean[j] += share * step
        squares[j] += max(weight * step * (x[j] - mean[j]), 0.0)  # rounding may carry the mean past x
        variance = squares[j] / total
        if variance > FLAT * mean[j] * mean[j]:
            row[count], places[count] = (x[j] - mean[j]) / np.sqrt(variance), j
            count += 1
    return count


@compiled
def _read_sparse(steps: Steps, indices: Integer, data: Float, weight: float, row: Float, places: Integer) -> int:
    """Learn the squares of the columns; write the scaled row, and return how many entries it has."""
    squares, total, count = steps.column_squares, steps.clock[WEIGHT], 0
    for p in range(len(indices)):
        j = indices[p]
        squares[j] += weight * data[p] * data[p]
        if squares[j] > 0:
            row[count], places[count] = data[p] / np.sqrt(squares[j] / total), j
            count += 1
    return count


@compiled
def _score(steps: Steps, row: Float, places: Integer, scores: Float) -> float:
    """Write the scores of a row by each regression; return 1 and its squared length."""
    length = 1.0
    for p in range(len(row)):
        length += row[p] * row[p]
    for rate in range(len(steps.offsets)):
        scores[rate] = steps.offsets[rate]
        for p in range(len(row)):
            for k in range(scores.shape[1]):
                scores[rate, k] += row[p] * steps.weights[rate, places[p], k]
    return length


@compiled
def _step(steps: Steps, rate: int, row: Float, places: Integer, gradient: Float) -> None:
    """Let a regression take a step against a gradient of its scores."""
    steps.offsets[rate] -= gradient
    for p in range(len(row)):
        for k in range(len(gradient)):
            steps.weights[rate, places[p], k] -= row[p] * gradient[k]


@compiled
def step_rows(
    steps: Steps,
    X: Float,
    indptr: Integer,
    indices: Integer,
    data: Float,
    codes: Integer,
    weights: Float,
    given: Float,
    rates: Float,
    said: Integer,
    chances: Float,
) -> None:
    """Predict, judge and learn row after row: dense ones, or the entries of sparse ones.

    `given` is what a predictor of all rows says, or empty.
    """
    K, d, clock, counts = len(steps.counts), len(steps.column_mean), steps.clock, steps.counts
    probable, row, places = np.zeros((len(rates) + 1, K)), np.empty(d), np.empty(d, dtype=np.int64)
    for i in range(len(codes)):
        code, weight = codes[i], weights[i]
        clock[ROWS] += 1.0
        clock[WEIGHT] += weight
        clock[SECONDS] += weight * weight
        if len(X):
            m = _read_dense(steps, X[i], weight / clock[WEIGHT], weight, row, places)
        else:
            part = slice(indptr[i], indptr[i + 1])
            m = _read_sparse(steps, indices[part], data[part], weight, row, places)
        length = _score(steps, row[:m], places[:m], probable)
        if (counts > 0).sum() >= 2:
            shown, experts = probable.copy(), len(rates)
            for rate in range(experts):
                _probable(shown[rate], counts)
            if len(given):
                shown[experts] = given[i]
                experts += 1
            said[i], chances[i] = _judge(steps.losses, shown, code, experts)
            if experts == len(rates):
                steps.losses[-1] = steps.losses[:-1].min()
        counts[code] += weight
        for rate in range(len(rates)):
            _probable(probable[rate], counts)
            probable[rate, code] -= 1.0
            pace = min(rates[rate] * (weight * clock[WEIGHT] / clock[SECONDS]), max(rates[rate], length)) / length
            _step(steps, rate, row[:m], places[:m], pace * probable[rate])
