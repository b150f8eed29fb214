"""Few numbers fitted smoothly: weights of scores, a calibration, the least point of a curve.

Everything here is a smooth function of its input: convex problems solved by Newton's method to the last digits, and
curves whose minimum is found between their nodes. No quantity jumps when a row changes in its last bit.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kampong._core.compute import run, split

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer

SHARP = 10.0
"""Errors are counted smoothly as 1 − softmax(SHARP · log p) at the true class: it cares for the nearest rivals."""

LOSS_SHARE, LOSS_ROWS = 0.02, 25.0
"""What the log-loss adds to the smooth error where heads or ridges are compared by many rows, and how few count as few:
errors are rare among them, and the log-loss hears each row."""

SPREAD, CALIBRATED = 10.0, 3.0
"""The prior on a weight, in units that make scores of ordinary size, and that on a calibration: few rows that make no
error must not make it sure of everything. Each counts as one row."""

STEEPEST = 1.6
"""The most that the tail may weigh compared with the temperature: the most probable class stays so."""

TINY = np.finfo(float).tiny

GAIN = 1e-7
"""Newton's method ends with a step that gains less of the log-loss; what is left then is about the square of this."""

COARSE = 256
"""Rows on which weights are sought first, where there are many more."""

BLOCK, MANY = 2**17, 8
"""Numbers in a block of rows, and how many blocks are worth more than one thread."""


class ValidationRows(NamedTuple):
    """Validation rows: their classes and weights."""

    codes: Integer
    weights: Float

    def first(self, count: int) -> ValidationRows:
        """Return the first `count` rows."""
        return ValidationRows(self.codes[:count], self.weights[:count])


def least_point(nodes: Float, values: Float) -> float:
    """Return where the cubic spline through some points is least: between nodes, or at an end."""
    c = _cubics(tuple(nodes.tolist())) @ values  # of each piece: c₀ t³ + c₁ t² + c₂ t + c₃, t from its first node
    a, b = 3.0 * c[0], c[1]
    # the root where the slope rises, in the form that loses no digits
    root = np.sqrt(np.maximum(b * b - a * c[2], 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(b > 0, -c[2] / (b + root), (root - b) / a)
    piece, width = [*range(len(nodes) - 1), 0, len(nodes) - 2], np.diff(nodes)
    t = np.concatenate([np.where((t > 0) & (t < width) & (b * b > a * c[2]), t, 0.0), [0.0, width[-1]]])
    c = c[:, piece]
    return float((nodes[piece] + t)[np.argmin(((c[0] * t + c[1]) * t + c[2]) * t + c[3])])


@lru_cache(maxsize=64)
def _cubics(nodes: tuple[float, ...]) -> Float:
    """Return what takes values at nodes to the coefficients of their cubic spline, (4, pieces, nodes)."""
    # One cubic, and one more that begins at each inner node but the first and the last ("not a knot").
    m, x = len(nodes), np.array(nodes) - nodes[0]
    knots = [0.0] * min(m, 4) + x[2:-2].tolist()
    values, pieces = np.empty((m, m)), np.zeros((4, m - 1, m))
    for place, knot in enumerate(knots):
        power, since = min(place, 3), x - knot
        values[:, place] = np.where(since >= 0, since**power, 0.0)
        for order in range(power + 1):  # the terms of each piece about its first node
            pieces[3 - order, :, place] = np.where(since >= 0, comb(power, order) * since ** (power - order), 0.0)[:-1]
    coefficients: Float = pieces @ np.linalg.inv(values)
    return coefficients


def fit_weights(
    scores: Float,
    validation: ValidationRows,
    start: Float,
    *,
    signed: int | None = None,
    begin: Float | None = None,
    gain: float = GAIN,
) -> tuple[Float, float]:
    """Fit probabilities softmax(Σ_a b_a scores_a) with b ≥ 0, by the least log-loss; convex, so there is one answer.

    A weight below zero must not be: scores of rows left out are lower for their own class, and it would read the label
    from them.

    Parameters
    ----------
    scores : array of shape (A, n, K)
        The scores to weigh.
    validation : ValidationRows
        The rows.
    start : array of shape (A,)
        Weights to stay near to where the rows say nothing.
    signed : int, optional
        A score whose weight may be negative: the prior of the classes.
    begin : array of shape (A,), optional
        Weights that are near the answer: they save steps and do not change it.
    gain : float
        Newton's method ends with a step that gains less.

    Returns
    -------
    weights : array of shape (A,)
        The weights b.
    loss : float
        The mean log-loss.
    """
    weights, losses = fit_each(scores[None], validation, start, signed=signed, begin=begin, gain=gain)
    return weights[0], float(losses[0])


def fit_each(
    scores: Float,
    validation: ValidationRows,
    start: Float,
    *,
    signed: int | None = None,
    begin: Float | None = None,
    gain: float = GAIN,
) -> tuple[Float, Float]:
    """Fit the weights of several problems on the same rows, all at once: where rows are few, each step is a few calls.

    Parameters
    ----------
    scores : array of shape (B, A, n, K)
        The scores to weigh, problem by problem.
    validation : ValidationRows
        The rows.
    start : array of shape (A,)
        Weights to stay near to where the rows say nothing.
    signed : int, optional
        A score whose weight may be negative: the prior of the classes.
    begin : array of shape (A,), optional
        Weights that are near the answers: they save steps and do not change them.
    gain : float
        Newton's method ends with a step that gains less.

    Returns
    -------
    weights : array of shape (B, A)
        The weights b of each problem.
    losses : array of shape (B,)
        The mean log-losses.
    """
    bounded = np.arange(scores.shape[1]) != (-1 if signed is None else signed)
    problem = _Weighing(scores, validation)
    precision = (problem.sizes / SPREAD) ** 2 / problem.total
    precision[:, ~bounded] = 10.0 / problem.total  # near-equal classes would let the weight of a prior run away
    return problem.solve(start, precision, bounded, gain, begin)


class _Weighing:
    """The mean log-losses of weighed scores, their slopes and Hessians, problem by problem.

    Rows lie in blocks that fit the cache, classes before rows, so that sums over classes run along rows.
    """

    def __init__(self, scores: Float, validation: ValidationRows) -> None:
        B, A, n, K = scores.shape
        self.total = float(validation.weights.sum())
        self.weights = validation.weights / self.total
        self.own = np.take_along_axis(scores, validation.codes[None, None, :, None], axis=3)[..., 0]
        cuts = round(B * A * n * K / BLOCK)
        self.parts = split(n, cuts) if cuts > 1 else [(0, n)]
        self.blocks: list[Float] = [np.ascontiguousarray(scores[:, :, a:b].swapaxes(2, 3)) for a, b in self.parts]
        spread = np.concatenate([block.var(axis=2) for block in self.blocks], axis=2)
        self.sizes: Float = np.sqrt(spread @ self.weights) + 1e-9
        # of many classes a few rows are many numbers: there every eighth row, otherwise few enough that steps are cheap
        step, self.coarse = max(n // COARSE, 8 if len(self.parts) >= MANY else 1), None
        few = slice(None, None, step)
        if step >= 4 and validation.weights[few].sum() > 0:
            self.coarse = _Weighing(scores[:, :, few], ValidationRows(validation.codes[few], validation.weights[few]))

    def solve(
        self, start: Float, precision: Float, bounded: np.ndarray, gain: float, begin: Float | None = None
    ) -> tuple[Float, Float]:
        """Fit the weights, those that are bounded from zero up; return them and the log-losses."""
        # From flat scores Newton's method always finds its way; from saturated ones it may not.
        centre = start * np.minimum(1.0, 2.0 / (self.sizes @ np.abs(start) + 1e-9))[:, None]
        b = centre if begin is None else np.tile(begin, (len(centre), 1))
        if self.coarse is not None and begin is None:
            # few of the rows show the way; where it ends is a matter of all of them
            b, _ = self.coarse._descend(b, centre, precision, bounded, 1e-5)
        return self._descend(b, centre, precision, bounded, gain)

    def _descend(
        self, b: Float, centre: Float, precision: Float, bounded: np.ndarray, gain: float
    ) -> tuple[Float, Float]:
        """Go down by Newton's method with bounds and halved steps; return weights and the log-losses."""
        found, losses = b.copy(), np.zeros(len(b))
        live, free = np.arange(len(b)), np.ones(b.shape, dtype=bool)
        # a score of huge size must not slow the steps of the others: each is lifted by its own rounding
        lift = (precision + 1e-14 * self.sizes**2)[:, :, None] * np.eye(b.shape[1])

        def at(b: Float, live: Integer) -> tuple[Float, Float, Float, Float]:
            loss, slope, hessian = self._at(b, live)
            away = precision[live] * (b - centre[live])
            hessian += lift[live]
            return loss, loss + 0.5 * (away * (b - centre[live])).sum(axis=1), slope + away, hessian

        loss, goal, gradient, hessian = at(b, live)
        for _ in range(40):
            step, free = bounded_step(b, gradient, hessian, bounded, free)
            slope = (gradient * step).sum(axis=1)
            done = -slope < gain  # the last step is exact to the square of this
            if done.any():
                mine, end = live[done], (b + step)[done]
                found[mine] = end
                losses[mine] = goal[done] + slope[done] / 2 - 0.5 * (precision[mine] * (end - centre[mine]) ** 2).sum(1)
                live, b, free, step, slope = (one[~done] for one in (live, b, free, step, slope))
                loss, goal, gradient, hessian = (one[~done] for one in (loss, goal, gradient, hessian))
            if not len(live):
                return found, losses
            length, new = np.ones(len(live)), at(b + step, live)
            while (far := (new[1] > goal + 1e-4 * length * slope + 1e-15) & (length > 1e-6)).any():
                length[far] /= 2
                again = at((b + length[:, None] * step)[far], live[far])
                for whole, part in zip(new, again, strict=True):
                    whole[far] = part
            b = b + length[:, None] * step
            loss, goal, gradient, hessian = new
        found[live], losses[live] = b, loss
        return found, losses

    def _at(self, b: Float, live: Integer) -> tuple[Float, Float, Float]:
        """Return the log-losses of weights of some problems, their slopes and Hessians."""
        B, A = b.shape
        every = len(self.own) == B
        own = self.own if every else self.own[live]
        found: list[tuple[Float, Float, Float]] = [(b, b, b)] * len(self.parts)

        def work(number: int, start: int, stop: int) -> None:
            block = self.blocks[number] if every else self.blocks[number][live]
            w, flat = self.weights[start:stop], block.reshape(B, A, -1)
            chances = np.matmul(b[:, None], flat).reshape(B, *block.shape[2:])
            top = chances.max(axis=1)
            chances -= top[:, None]
            np.exp(chances, out=chances)
            mass = chances.sum(axis=1)
            mine = own[:, :, start:stop]
            loss = (np.log(mass) + top - np.matmul(b[:, None], mine)[:, 0]) @ w
            chances *= (w / mass)[:, None]
            weighed = block * chances[:, None]
            mean = weighed.sum(axis=2)  # times the weights, as all from here on
            hessian = weighed.reshape(B, A, -1) @ flat.swapaxes(1, 2)
            hessian -= mean @ (mean / np.maximum(w, TINY)).swapaxes(1, 2)
            found[number] = loss, mean.sum(axis=2) - mine @ w, hessian

        tasks = [(number, *part) for number, part in enumerate(self.parts)]
        if len(tasks) >= MANY:
            run(work, tasks)
        else:
            for task in tasks:
                work(*task)
        loss, slope, hessian = found[0] if len(found) == 1 else (sum(one) for one in zip(*found, strict=True))
        return loss, slope, hessian


def bounded_step(
    b: Float, gradient: Float, hessian: Float, bounded: np.ndarray, free: np.ndarray
) -> tuple[Float, np.ndarray]:
    """Return the least point of each quadratic model with b + step ≥ 0 for what is bounded, by principal pivoting.

    Parameters
    ----------
    b, gradient : array of shape (B, A)
        Where each model stands, and its slope there.
    hessian : array of shape (B, A, A)
        The curvature of each, positive definite.
    bounded : array of bool of shape (A,)
        What must not be negative.
    free : array of bool of shape (B, A)
        A guess of what is not at its bound in the end.

    Returns
    -------
    step : array of shape (B, A)
        The steps.
    free : array of bool of shape (B, A)
        What is not at its bound in the end.
    """
    A, places = b.shape[1], np.arange(b.shape[1])
    if A == 1:
        alone = -gradient / hessian[:, :, 0]
        return np.where(bounded, np.maximum(alone, -b), alone), free
    size = 1e-12 * (1.0 + np.abs(b))
    free = free | ~bounded
    if free.all():
        step = np.linalg.solve(hessian, -gradient[:, :, None])[..., 0]
        if (b + step >= np.where(bounded, 0.0, -np.inf)).all():
            return step, free
    for count in range(2**A + A):
        matrix = np.where(free[:, :, None] & free[:, None, :], hessian, 0.0)
        matrix[:, places, places] = np.where(free, hessian[:, places, places], 1.0)
        fixed = np.where(free, 0.0, -b)
        right = np.where(free, -gradient - np.matmul(hessian, fixed[:, :, None])[..., 0], -b)
        step = np.linalg.solve(matrix, right[:, :, None])[..., 0]
        slope = gradient + np.matmul(hessian, step[:, :, None])[..., 0]
        low = 1e-12 * np.abs(gradient).max(axis=1, keepdims=True)
        wrong = bounded & np.where(free, b + step < -size, slope < -low)
        if not wrong.any():
            break
        if count > A:  # one at a time never turns in a circle
            wrong &= places == (A - 1 - np.argmax(wrong[:, ::-1], axis=1))[:, None]
        free = free ^ wrong
    return np.where(bounded, np.maximum(step, -b), step), free


def log_softplus(values: Float) -> Float:
    """Return log(log(1 + exp(x))): a regression on the classes as scores, though it may be below zero."""
    result: Float = np.abs(values)
    np.negative(result, out=result)
    np.exp(result, out=result)
    np.log1p(result, out=result)  # numpy's logaddexp takes three times as long
    result += np.maximum(values, 0.0)
    low = values < -30.0
    np.log(result, out=result, where=~low)
    np.copyto(result, values, where=low)
    return result


def fit_calibration(scores: Float, validation: ValidationRows) -> tuple[float, float]:
    """Return (b, c) for which `calibrated` log-probabilities have the least log-loss.

    Parameters
    ----------
    scores : array of shape (n, K)
        The scores of a head on rows it has not seen.
    validation : ValidationRows
        Their classes and weights.

    Returns
    -------
    sharpness, tail : float
        A temperature, and the weight of the tail.
    """
    return calibrate_each(scores[None], validation)[0]


def calibrate_each(scores: Float, validation: ValidationRows) -> list[tuple[float, float]]:
    """Return what `fit_calibration` does for the scores of several heads on the same rows, (B, n, K)."""
    logs = np.maximum(log_softmax(scores), -700.0)
    roots = np.sqrt(-logs)
    # b ≥ 0 and c ≤ STEEPEST · b, so that a larger score means more: two weights from zero up
    problem = _Weighing(np.stack([logs + STEEPEST * roots, -roots], axis=1), validation)
    precision = (problem.sizes / CALIBRATED) ** 2 / problem.total
    found, _ = problem.solve(np.array([1.0, STEEPEST]), precision, np.ones(2, dtype=bool), GAIN)
    tails = STEEPEST * found[:, 0] - found[:, 1]
    return [
        (1.0, 0.0) if np.ptp(one) == 0.0 else (b, c)
        for one, b, c in zip(scores, found[:, 0].tolist(), tails.tolist(), strict=True)
    ]


def calibrated(scores: Float, sharpness: float | Float, tail: float | Float) -> Float:
    """Return log-probabilities b L + c √(−L), L = log softmax(scores), made to sum to one again."""
    logs = log_softmax(scores)
    if np.ndim(sharpness) == 0 and (sharpness, tail) == (1.0, 0.0):
        return logs
    bent = sharpness * logs + tail * np.sqrt(np.maximum(-logs, 0.0), where=np.isfinite(logs), out=np.zeros_like(logs))
    bent[np.isneginf(logs)] = -np.inf
    return log_softmax(bent)


def log_softmax(scores: Float) -> Float:
    """Return the logarithms of softmax over the last axis; scipy's takes longer for few rows."""
    logs: Float = scores - scores.max(axis=-1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=-1, keepdims=True))
    return logs


def selection_loss(
    scores: Float,
    validation: ValidationRows,
    sharpness: float = 1.0,
    tail: float = 0.0,
    rows_in_all: float | None = None,
) -> float:
    """Return what heads and ridges are compared by: a smooth count of errors, and some of the log-loss.

    Where candidates are validation by different rows, `rows_in_all` makes the share of the log-loss the same.
    """
    return float(_selection_loss(calibrated(scores, sharpness, tail), validation, rows_in_all))


def selection_loss_each(
    scores: Float,
    validation: ValidationRows,
    sharpness: float | Float = 1.0,
    tail: float | Float = 0.0,
    rows_in_all: float | None = None,
) -> Float:
    """Return the selection_loss of several candidates, (B, n, K), each with its own calibration, (B,), where given."""
    if np.ndim(sharpness):
        sharpness, tail = (np.reshape(one, (-1, 1, 1)) for one in (sharpness, tail))
    return _selection_loss(calibrated(scores, sharpness, tail), validation, rows_in_all)


def _selection_loss(logs: Float, validation: ValidationRows, rows_in_all: float | None) -> Float:
    weight = float(validation.weights.sum()) if rows_in_all is None else rows_in_all
    logs = np.maximum(logs, -700.0)
    shares, mine = (
        validation.weights / validation.weights.sum(),
        logs[..., np.arange(len(validation.codes)), validation.codes],
    )
    error = 1.0 - (np.exp(SHARP * mine) / np.exp(SHARP * logs).sum(axis=-1)) @ shares
    return np.asarray(error - (LOSS_SHARE + LOSS_ROWS / (2.0 * LOSS_ROWS + weight)) * (mine @ shares))
