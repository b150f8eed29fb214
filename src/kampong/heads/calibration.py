"""Few numbers fitted smoothly: weights of scores, a calibration, the least point of a curve.

Everything here is a smooth function of its input: convex problems solved by Newton's method to the last digits, and
curves whose minimum is found between their nodes. No quantity jumps when a row changes in its last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special
from scipy.interpolate import CubicSpline

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
"""The most that the tail may weigh beside the temperature, so that the most probable class stays the most probable."""

TINY = np.finfo(float).tiny

COARSE = 256
"""Rows on which weights are sought first, where there are many more."""

BLOCK, MANY = 2**17, 8
"""Numbers in a block of rows, and how many blocks are worth more than one thread."""


class Judged(NamedTuple):
    """Rows that judge: their classes, and what each of them weighs."""

    codes: Integer
    weights: Float

    def first(self, count: int) -> Judged:
        """Return the first so many rows."""
        return Judged(self.codes[:count], self.weights[:count])


def least_point(nodes: Float, values: Float) -> float:
    """Return where the cubic spline through some points is least: between nodes, or at an end."""
    spline = CubicSpline(nodes, values)
    roots = spline.derivative().roots(extrapolate=False)
    inside = roots[np.isfinite(roots) & (roots > nodes[0]) & (roots < nodes[-1])]
    places = np.concatenate([inside, [nodes[0], nodes[-1]]])
    return float(places[np.argmin(spline(places))])


def fit_weights(
    scores: Float, judged: Judged, start: Float, *, signed: int | None = None, gain: float = 1e-8
) -> tuple[Float, float]:
    """Fit probabilities softmax(Σ_a b_a scores_a) with b ≥ 0, by the least log-loss; convex, so there is one answer.

    A weight below zero must not be: scores of rows left out are lower for their own class, and it would read the label
    from them.

    Parameters
    ----------
    scores : array of shape (A, n, K)
        The scores to weigh.
    judged : Judged
        The rows.
    start : array of shape (A,)
        Weights to stay near to where the rows say nothing.
    signed : int, optional
        A score whose weight may be negative: the prior of the classes.
    gain : float
        Newton's method ends with a step that gains less.

    Returns
    -------
    weights : array of shape (A,)
        The weights b.
    loss : float
        The mean log-loss.
    """
    problem, free = _Weighing(scores, judged), np.ones(len(scores), dtype=bool)
    none: tuple[Float, float] = np.zeros(len(scores)), float(np.log(scores.shape[2]))
    (weights, loss), near = none, None
    for _ in range(2 * len(scores)):
        weights, loss = problem.solve(np.flatnonzero(free), start, signed, gain, near)
        low = weights < 0
        if signed is not None:
            low[signed] = False
        near = np.where(low, 0.0, weights)
        if low.any():
            free[int(np.argmin(np.where(low, weights, 0.0)))] = False
            if not free.any():
                return none
            continue
        out = np.flatnonzero(~free)
        if _ < len(scores) and len(out):
            slopes = problem.slopes(weights)[out]
            if slopes.min() < -1e-6:
                free[out[int(np.argmin(slopes))]] = True
                continue
        return weights, loss
    return np.where(low, 0.0, weights), loss


class _Weighing:
    """The mean log-loss of weighed scores, its slope and its bend.

    Rows lie in blocks that fit the cache, classes before rows, so that sums over classes run along rows.
    """

    def __init__(self, scores: Float, judged: Judged) -> None:
        A, n, K = scores.shape
        self.total = float(judged.weights.sum())
        self.weights = judged.weights / self.total
        self.own = np.take_along_axis(scores, judged.codes[None, :, None], axis=2)[:, :, 0]
        self.parts = split(n, max(1, round(A * n * K / BLOCK)))
        self.blocks: list[Float] = [np.ascontiguousarray(scores[:, a:b].transpose(0, 2, 1)) for a, b in self.parts]
        spread = np.concatenate([block.var(axis=1) for block in self.blocks], axis=1)
        self.sizes: Float = np.sqrt(spread @ self.weights) + 1e-9
        few, self.coarse = slice(None, None, max(1, n // COARSE)), None
        if n >= 4 * COARSE and judged.weights[few].sum() > 0:
            self.coarse = _Weighing(scores[:, few], Judged(judged.codes[few], judged.weights[few]))

    def solve(
        self,
        kept: Integer,
        start: Float,
        signed: int | None,
        gain: float,
        near: Float | None,
        spread: float = SPREAD,
    ) -> tuple[Float, float]:
        """Fit the weights of some scores without bounds; return all weights, and the log-loss."""
        size, place = self.sizes[kept], start[kept]
        # From flat scores Newton's method always finds its way; from saturated ones it may not.
        centre = place * min(1.0, 2.0 / (float(np.abs(place) @ size) + 1e-9))
        precision = (size / spread) ** 2 / self.total
        precision[kept == signed] = 10.0 / self.total  # near-equal classes would let the weight of a prior run away
        b = centre if near is None else near[kept]
        if self.coarse is not None and near is None:
            # few of the rows show the way; where it ends is a matter of all of them
            b, _ = self.coarse._descend(b, kept, centre, precision, 1e-5)
        b, loss = self._descend(b, kept, centre, precision, gain)
        weights = np.zeros(len(self.sizes))
        weights[kept] = b
        return weights, loss

    def slopes(self, weights: Float) -> Float:
        """Return the slope of the log-loss along each score, in units of their sizes."""
        _, slope, _ = self._at(weights, np.arange(len(weights)))
        return slope / self.sizes

    def _descend(self, b: Float, kept: Integer, centre: Float, precision: Float, gain: float) -> tuple[Float, float]:
        """Go down by Newton's method with halved steps; return weights and the log-loss."""

        def at(b: Float) -> tuple[float, float, Float, Float]:
            loss, slope, bend = self._at(b, kept)
            away = precision * (b - centre)
            bend.flat[:: len(b) + 1] += precision + 1e-14 * np.trace(bend)
            return loss, loss + 0.5 * float(away @ (b - centre)), slope + away, bend

        loss, goal, gradient, hessian = at(b)
        for _ in range(40):
            step = -np.linalg.solve(hessian, gradient)
            slope = float(gradient @ step)
            if -slope < gain:  # the last step is exact to the square of this
                b, away = b + step, b + step - centre
                return b, goal + slope / 2 - 0.5 * float(precision @ away**2)
            length, new = 1.0, at(b + step)
            while new[1] > goal + 1e-4 * length * slope + 1e-15 and length > 1e-6:
                length /= 2
                new = at(b + length * step)
            b = b + length * step
            loss, goal, gradient, hessian = new
        return b, loss

    def _at(self, b: Float, kept: Integer) -> tuple[float, Float, Float]:
        """Return the log-loss of the weights of some scores, its slope and its bend."""
        A, found = len(b), [np.empty(0)] * len(self.parts)

        def work(number: int, start: int, stop: int) -> None:
            block = self.blocks[number]
            block = block if len(block) == A else block[kept]
            w, flat = self.weights[start:stop], block.reshape(A, -1)
            chances = (b @ flat).reshape(block.shape[1:])
            top = chances.max(axis=0)
            chances -= top
            np.exp(chances, out=chances)
            mass = chances.sum(axis=0)
            own = self.own[kept, start:stop]
            loss = w @ (np.log(mass) + top - b @ own)
            chances /= mass
            weighed = block * chances
            mean = weighed.sum(axis=1)
            weighed *= w
            bend = weighed.reshape(A, -1) @ flat.T - (mean * w) @ mean.T
            found[number] = np.concatenate([[loss], (mean - own) @ w, ((bend + bend.T) / 2).ravel()])

        tasks = [(number, *part) for number, part in enumerate(self.parts)]
        if len(tasks) >= MANY:
            run(work, tasks)
        else:
            for task in tasks:
                work(*task)
        sums = np.sum(found, axis=0)
        return float(sums[0]), sums[1 : A + 1], sums[A + 1 :].reshape(A, A)


def log_softplus(values: Float) -> Float:
    """Return log(log(1 + exp(x))): a regression on the classes as scores, though it may be below zero."""
    low = values < -30.0
    return np.where(low, values, np.log(np.logaddexp(0.0, np.where(low, -30.0, values))))


def fit_calibration(scores: Float, judged: Judged) -> tuple[float, float]:
    """Return (b, c) for which `calibrated` log-probabilities have the least log-loss.

    Parameters
    ----------
    scores : array of shape (n, K)
        The scores of a head on rows it has not seen.
    judged : Judged
        Their classes and weights.

    Returns
    -------
    sharpness, tail : float
        A temperature, and the weight of the tail.
    """
    if np.ptp(scores) == 0.0:
        return 1.0, 0.0
    logs = np.maximum(special.log_softmax(scores, axis=1), -700.0)
    roots = np.sqrt(-logs)
    problem = _Weighing(np.stack([logs, roots]), judged)
    (b, c), _ = problem.solve(np.arange(2), np.array([1.0, 0.0]), None, 1e-8, None, CALIBRATED)
    if b < 0.0 and c < 0.0:
        (one,), _ = fit_weights(-roots[None], judged, np.array([1.0]))
        b, c = 0.0, -one
    elif c > STEEPEST * b:
        (one,), _ = fit_weights((logs + STEEPEST * roots)[None], judged, np.array([1.0]))
        b, c = one, STEEPEST * one
    return float(b), float(c)


def calibrated(scores: Float, sharpness: float, tail: float) -> Float:
    """Return log-probabilities b L + c √(−L), L = log softmax(scores), made to sum to one again."""
    logs: Float = special.log_softmax(scores, axis=1)
    if (sharpness, tail) == (1.0, 0.0):
        return logs
    bent = sharpness * logs + tail * np.sqrt(np.maximum(-logs, 0.0), where=np.isfinite(logs), out=np.zeros_like(logs))
    bent[np.isneginf(logs)] = -np.inf
    result: Float = special.log_softmax(bent, axis=1)
    return result


def badness(
    scores: Float, judged: Judged, sharpness: float = 1.0, tail: float = 0.0, rows_in_all: float | None = None
) -> float:
    """Return what heads and ridges are compared by: a smooth count of errors, and some of the log-loss.

    Where candidates are judged by different rows, `rows_in_all` makes the share of the log-loss the same.
    """
    weight = float(judged.weights.sum()) if rows_in_all is None else rows_in_all
    logs = np.maximum(calibrated(scores, sharpness, tail), -700.0)
    rows = np.arange(len(judged.codes))
    sharp = special.log_softmax(SHARP * logs, axis=1)[rows, judged.codes]
    error = 1.0 - np.average(np.exp(sharp), weights=judged.weights)
    loss = -np.average(logs[rows, judged.codes], weights=judged.weights)
    return float(error + (LOSS_SHARE + LOSS_ROWS / (2.0 * LOSS_ROWS + weight)) * loss)
