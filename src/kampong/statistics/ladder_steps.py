"""The compiled steps of a ladder of half-lives: predict, judge, learn and solve, row after row, in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kampong._core.compute import compiled

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer

HALF_LIVES = (8.0, 32.0, 128.0, 1024.0, np.inf)
"""Rows after which a row counts half, a rung each."""

WIDEST, MOST = 128, 2**13
"""The most columns, and the most class means times columns: past them a row would cost too much."""

MEMORY = 50.0
"""Rows after which a loss counts half."""

LEAST = 0.01
"""A class is never less probable than this to a rung, when its loss is taken: one odd row must not decide."""

FADE = 0.5 ** (1.0 / MEMORY)

FADED = 1e-9
"""A class of less weight than this part of a rung is forgotten there."""

RIDGE_ROWS, RIDGE_COLUMNS = 4.0, 8.0
"""The variances of the columns count as RIDGE_ROWS rows, and one more for every RIDGE_COLUMNS columns, in the
covariance of a rung: few rows say little of many columns."""

LEAD = 2.0
"""By how much the loss of another rung must be less before `chosen` changes."""

CYCLE, AWAKE, WARM, WORTH = 8192, 1024, 128, 0.01
"""After the first CYCLE rows the ladder is awake for the first AWAKE rows of a cycle, and for CYCLE rows where it
lowers the mean log-loss of those after WARM by WORTH."""

LONGEST = 8
"""A cycle without a gain is twice as long as the one before, at most so many times CYCLE."""

ALARM = 5.0
"""A sleeping ladder wakes in the next CYCLE if the predictor of all rows errs more often in one than in the best one
before, by so many standard deviations."""

LONG, AHEAD = 1024.0, 4096
"""A rung of this half-life or more learns again so many rows before the ladder wakes; that of all rows never sleeps."""

ALWAYS = 2**62

ROWS, WEIGHT, IS_AWAKE, GAIN, CHOSEN, START, NEXT, SLEPT, MISSED, BEST, SECONDS = range(11)
CLOCK = 11

SELDOM = 32
"""How often the rung of all rows is solved while the rows double."""


class Rungs(NamedTuple):
    """All that a ladder remembers; the steps change it in place.

    Attributes
    ----------
    counts, means, within : arrays of shape (rungs, K), (rungs, K, d) and (rungs, d, d)
        The statistics of each rung; of the scatter only the lower triangle is current.
    column_mean, column_squares : arrays of shape (d,)
        Mean and squared distances of all rows.
    weights, offsets, centres : arrays of shape (rungs, K, d), (rungs, K) and (rungs, d)
        The scores of each rung: weights · (row − centre) + offset, −∞ for a class that it does not know.
    losses : array of shape (rungs + 1,)
        The recent loss of each rung, and of the predictor of all rows that is given.
    clock : array of shape (11,)
        Rows, their weight, whether awake, what the ladder has gained in this cycle, the chosen rung, the rows at which
        this cycle began and the next one begins, how long the cycle before was, how often the predictor of all rows has
        erred since the last multiple of CYCLE, and between the best two of them while the ladder slept (−1 for none);
        the sum of the squared weights of the rows.
    """

    counts: Float
    means: Float
    within: Float
    column_mean: Float
    column_squares: Float
    weights: Float
    offsets: Float
    centres: Float
    losses: Float
    clock: Float


def intervals(n_features: int) -> Integer:
    """Return after how many rows each rung is solved again: short ones often, all more seldom where a solve is dear."""
    dear = n_features / 8.0
    found = [dear if np.isinf(half) else max(half / 16.0, min(half / 4.0, dear)) for half in HALF_LIVES]
    return np.array([max(int(pace), 1) for pace in found], dtype=np.int64)


def decays() -> Float:
    """Return what a row leaves of the weight of earlier ones, a number a rung."""
    return np.array([1.0 if np.isinf(half) else 0.5 ** (1.0 / half) for half in HALF_LIVES])


def waking() -> Integer:
    """Return how many rows before the ladder wakes each rung begins to learn again: 0 for none."""
    return np.array([ALWAYS if np.isinf(half) else AHEAD if half >= LONG else 0 for half in HALF_LIVES])


@compiled
def ridge_rows(n_features: int) -> float:
    """Return how many rows the variances of the columns count as."""
    return RIDGE_ROWS + n_features / RIDGE_COLUMNS


@compiled
def weight_unit(clock: Float) -> float:
    """Return what a typical row weighs: a weight over it is a number of rows."""
    return clock[SECONDS] / clock[WEIGHT] if clock[WEIGHT] > 0 else 1.0


@compiled
def column_variances(mean: Float, squares: Float, weight: float) -> Float:
    """Return the variance of each column; one that never changed gets 1, which then decides nothing."""
    result = np.empty(len(mean))
    for j in range(len(mean)):
        result[j] = squares[j] / weight if weight > 0 else 0.0
        if result[j] <= 1e-24 * mean[j] * mean[j]:
            result[j] = 1.0 + 1e-24 * mean[j] * mean[j]
    return result


@compiled
def _factorise(scatter: Float, variances: Float, unit: float, factor: Float) -> None:
    """Write the upper Cholesky factor of the scatter and its ridge; the inner loop adds along rows, which is quick."""
    d, ridge = len(variances), unit * ridge_rows(len(variances))
    row = np.empty(d)
    for i in range(d):
        row[:i] = scatter[i, :i]
        value = scatter[i, i] + ridge * variances[i]
        for j in range(i):
            entry = row[j] / factor[j, j]
            factor[j, i] = entry
            value -= entry * entry
            for m in range(j + 1, i):
                row[m] -= entry * factor[j, m]
        factor[i, i] = np.sqrt(max(value, 1e-12 * unit * variances[i]))


@compiled
def _apart(factor: Float, mean: Float, centre: Float, weights: Float) -> float:
    """Write the inverse scatter times (mean − centre); return the squared length of that difference in its metric."""
    d, length = len(mean), 0.0
    for i in range(d):
        weights[i] = mean[i] - centre[i]
    for i in range(d):
        weights[i] /= factor[i, i]
        length += weights[i] * weights[i]
        for m in range(i + 1, d):
            weights[m] -= weights[i] * factor[i, m]
    for i in range(d - 1, -1, -1):
        value = 0.0
        for m in range(i + 1, d):
            value += factor[i, m] * weights[m]
        weights[i] = (weights[i] - value) / factor[i, i]
    return length


@compiled
def solve(rungs: Rungs, rung: int, variances: Float, factor: Float) -> None:
    """Compute the scores of a rung anew: Gaussian classes that share the covariance scatter / total."""
    counts, means = rungs.counts[rung], rungs.means[rung]
    weights, offsets, centre = rungs.weights[rung], rungs.offsets[rung], rungs.centres[rung]
    total = counts.sum()
    if total <= 0:
        offsets[:] = -np.inf
        return
    centre[:] = 0.0
    for k in range(len(counts)):
        for j in range(len(centre)):
            centre[j] += counts[k] / total * means[k, j]
    _factorise(rungs.within[rung], variances, weight_unit(rungs.clock), factor)
    for k in range(len(counts)):
        if counts[k] <= FADED * total:
            offsets[k] = -np.inf
            continue
        length = _apart(factor, means[k], centre, weights[k])
        weights[k] *= total
        offsets[k] = np.log(counts[k] / total) - 0.5 * total * length


@compiled
def solve_all(rungs: Rungs) -> None:
    """Compute the scores of all rungs anew."""
    variances = column_variances(rungs.column_mean, rungs.column_squares, rungs.clock[WEIGHT])
    factor = np.zeros((len(variances), len(variances)))
    for rung in range(len(rungs.counts)):
        solve(rungs, rung, variances, factor)


@compiled
def _solve_due(rungs: Rungs, paces: Integer, factor: Float) -> None:
    """Solve the rungs whose turn it is after so many rows."""
    rows, last, known = int(rungs.clock[ROWS]), len(paces) - 1, False
    variances = rungs.column_mean
    for rung in range(last + 1):
        pace = paces[rung]
        if rung == last:
            while 2 * SELDOM * pace <= rows:
                pace *= 2
        if rows % pace and rows > SELDOM:
            continue
        if not known:
            variances = column_variances(rungs.column_mean, rungs.column_squares, rungs.clock[WEIGHT])
            known = True
        solve(rungs, rung, variances, factor)


@compiled
def _learn(rungs: Rungs, rung: int, x: Float, code: int, weight: float, decay: float, offset: Float) -> None:
    """Let a rung forget a little and learn a row: the scatter grows by a rank of one."""
    counts, mean, within = rungs.counts[rung], rungs.means[rung, code], rungs.within[rung]
    if decay < 1.0:
        counts *= decay
    before = counts[code]
    counts[code] = before + weight
    share = weight / counts[code]
    for j in range(len(x)):
        offset[j] = x[j] - mean[j]
        mean[j] += share * offset[j]
    for i in range(len(x)):
        left = before * share * offset[i]
        for j in range(i + 1):
            within[i, j] = decay * within[i, j] + left * offset[j]


@compiled
def _learn_columns(rungs: Rungs, x: Float, weight: float) -> None:
    """Learn mean and variance of the columns."""
    rungs.clock[WEIGHT] += weight
    rungs.clock[SECONDS] += weight * weight
    for j in range(len(x)):
        step = x[j] - rungs.column_mean[j]
        rungs.column_mean[j] += step * weight / rungs.clock[WEIGHT]
        rungs.column_squares[j] += max(weight * step * (x[j] - rungs.column_mean[j]), 0.0)  # rounding may pass x


@compiled
def _say(rungs: Rungs, rung: int, x: Float, probable: Float) -> None:
    """Write how probable each class is to a rung; one that knows nothing yet takes all known classes for equal."""
    offsets, weights, centre = rungs.offsets[rung], rungs.weights[rung], rungs.centres[rung]
    most = -np.inf
    for k in range(len(probable)):
        probable[k] = offsets[k]
        if offsets[k] > -np.inf:
            for j in range(len(x)):
                probable[k] += weights[k, j] * (x[j] - centre[j])
        most = max(most, probable[k])
    for k in range(len(probable)):
        if most > -np.inf:
            probable[k] = np.exp(probable[k] - most)
        else:
            probable[k] = 1.0 if rungs.counts[-1, k] > 0 else 0.0
    probable /= probable.sum()


@compiled
def _choose(rungs: Rungs) -> None:
    """Change the chosen rung where another has a clearly smaller loss; all rows count by their better predictor."""
    losses, clock, last = rungs.losses, rungs.clock, len(rungs.counts) - 1
    best, lowest = last, min(losses[last], losses[last + 1])
    now = lowest if int(clock[CHOSEN]) == last else losses[int(clock[CHOSEN])]
    for rung in range(last):
        if losses[rung] < lowest:
            best, lowest = rung, losses[rung]
    if lowest < now - LEAD:
        clock[CHOSEN] = best


@compiled
def _forget(rungs: Rungs, rung: int) -> None:
    """Let a rung begin anew."""
    rungs.counts[rung] = 0.0
    rungs.within[rung] = 0.0
    rungs.offsets[rung] = -np.inf


@compiled
def _begin(rungs: Rungs, ahead: Integer) -> None:
    """Begin a cycle; rungs that slept begin anew."""
    clock = rungs.clock
    clock[SLEPT] = CYCLE / 2
    if clock[IS_AWAKE] == 0.0:
        clock[SLEPT] = clock[ROWS] - clock[START]
        rungs.losses[:] = 0.0
        for rung in range(len(ahead)):
            if ahead[rung] == 0:
                _forget(rungs, rung)
    clock[IS_AWAKE], clock[GAIN] = 1.0, 0.0
    clock[START], clock[NEXT] = clock[ROWS], clock[ROWS] + CYCLE


@compiled
def _sleep(rungs: Rungs) -> None:
    """Sleep until the next cycle."""
    clock = rungs.clock
    clock[IS_AWAKE], clock[CHOSEN], clock[BEST] = 0.0, len(rungs.counts) - 1, -1.0
    clock[NEXT] = clock[START] + min(2.0 * clock[SLEPT], LONGEST * CYCLE)


@compiled
def look(rungs: Rungs) -> None:
    """After each CYCLE rows, see whether the predictor of all rows has become worse while the ladder slept."""
    clock = rungs.clock
    missed, best = clock[MISSED], clock[BEST]
    clock[MISSED] = 0.0
    if clock[IS_AWAKE] == 1.0:
        return
    if best >= 0 and missed - best > ALARM * np.sqrt(missed + best):
        clock[NEXT] = min(clock[NEXT], clock[ROWS] + CYCLE)
    clock[BEST] = missed if best < 0 else min(missed, best)


@compiled
def _judge(rungs: Rungs, x: Float, code: int, given: Float, probable: Float) -> tuple[int, float]:
    """Predict a row with all experts, weighed by their recent losses, and take their losses.

    Return the class and how probable they find it.
    """
    losses, clock = rungs.losses, rungs.clock
    last = len(rungs.counts) - 1
    for rung in range(last + 1):
        _say(rungs, rung, x, probable[rung])
    base = last
    if len(given):
        base = last + 1
        probable[base] = given
    least = losses[: base + 1].min()
    blend = np.zeros(probable.shape[1])
    total = 0.0
    for expert in range(base + 1):
        share = np.exp(least - losses[expert])
        total += share
        blend += share * probable[expert]
    if clock[ROWS] - clock[START] >= WARM:
        clock[GAIN] += np.log(max(blend[code] / total, LEAST)) - np.log(max(probable[base, code], LEAST))
    for expert in range(base + 1):
        losses[expert] = FADE * losses[expert] - np.log(max(probable[expert, code], LEAST))
    if base == last:
        losses[last + 1] = losses[last]
    _choose(rungs)
    if clock[START] >= CYCLE and clock[ROWS] - clock[START] == AWAKE - 1 and clock[GAIN] < WORTH * (AWAKE - WARM):
        _sleep(rungs)
    best = int(np.argmax(blend))
    return best, blend[best] / total


@compiled
def blend_all(rungs: Rungs, X: Float, blend: Float) -> None:
    """Write how probable each class of some rows is, by all rungs weighed by their recent losses; nothing is learnt."""
    probable, losses = np.empty(blend.shape[1]), rungs.losses[:-1]
    least = losses.min()
    for i in range(len(X)):
        blend[i] = 0.0
        for rung in range(len(losses)):
            _say(rungs, rung, X[i], probable)
            blend[i] += np.exp(least - losses[rung]) * probable
        blend[i] /= blend[i].sum()


@compiled
def _guess(given: Float, told: int) -> tuple[int, float]:
    """Return the class that a predictor of all rows names, −1 for none, and how probable it is, NaN if not known."""
    if not len(given):
        return told, np.nan
    best = int(np.argmax(given))
    return best, given[best]


@compiled
def learn_ahead(rungs: Rungs, X: Float, codes: Integer, weights: Float, fading: Float, ahead: Integer) -> None:
    """Let rungs that must learn before the ladder wakes learn their part of the rows it has just slept through."""
    clock, offset = rungs.clock, np.empty(X.shape[1])
    for rung in range(len(fading) - 1):
        for i in range(len(X)):
            left = int(clock[NEXT]) - int(clock[ROWS]) + len(X) - i
            if left <= ahead[rung]:
                if left == ahead[rung]:
                    _forget(rungs, rung)
                _learn(rungs, rung, X[i], codes[i], weights[i], fading[rung], offset)


@compiled
def watch(
    rungs: Rungs,
    X: Float,
    codes: Integer,
    weights: Float,
    given: Float,
    told: Integer,
    fading: Float,
    paces: Integer,
    ahead: Integer,
    said: Integer,
    chances: Float,
) -> None:
    """Predict, judge and learn row after row.

    Write what was predicted, −1 where nothing could be said, and how probable it was. `given` is what a predictor of
    all rows gives each class, `told` the class that it predicts; either may be empty.
    """
    d, clock = X.shape[1], rungs.clock
    probable = np.empty((len(fading) + 1, rungs.counts.shape[1]))
    offset, factor = np.empty(d), np.zeros((d, d))
    for i in range(len(X)):
        rows = int(clock[ROWS])
        if rows > 0 and rows % CYCLE == 0:
            look(rungs)
        if rows == clock[NEXT]:
            _begin(rungs, ahead)
        awake, left = clock[IS_AWAKE] == 1.0, int(clock[NEXT]) - rows
        if (rungs.counts[-1] > 0).sum() >= 2:
            here = given[i] if len(given) else given[0:0].ravel()
            guess, chance = _guess(here, told[i] if len(told) else -1)
            if guess >= 0 and guess != codes[i]:
                clock[MISSED] += 1.0
            if awake:
                guess, chance = _judge(rungs, X[i], codes[i], here, probable)
            said[i], chances[i] = guess, chance
        _learn_columns(rungs, X[i], weights[i])
        for rung in range(len(fading)):
            if awake or left <= ahead[rung]:
                if left == ahead[rung] and not awake:
                    _forget(rungs, rung)
                _learn(rungs, rung, X[i], codes[i], weights[i], fading[rung], offset)
        clock[ROWS] = rows + 1
        if clock[IS_AWAKE] == 1.0:
            _solve_due(rungs, paces, factor)
