"""Few numbers fitted smoothly: weights of scores, a calibration, the least point of a curve.

Everything here is a smooth function of its input: convex problems solved by Newton's method to the last digits, and
curves whose minimum is found between their nodes. No quantity jumps when a row changes in its last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special
from scipy.interpolate import CubicSpline

if TYPE_CHECKING:
    from kampong._runtime.compute import Float, Integer

SHARP = 10.0
"""Errors are counted smoothly as 1 − softmax(SHARP · log p) at the true class: it cares for the nearest rivals."""

LOSS_SHARE = 0.02
"""What the log-loss adds to the smooth error where heads or ridges are compared."""

SPREAD = 10.0
"""The prior on a weight, in units that make scores of ordinary size; it counts as one row."""

STEEPEST = 1.6
"""The most that the tail may weigh beside the temperature, so that the most probable class stays the most probable."""

TINY = np.finfo(float).tiny


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
    scores: Float, judged: Judged, start: Float, *, signed: int | None = None, gain: float = 1e-13
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
        Newton's method ends where a step gains less.

    Returns
    -------
    weights : array of shape (A,)
        The weights b.
    loss : float
        The mean log-loss.
    """
    free = np.ones(len(scores), dtype=bool)
    weights, loss = np.zeros(len(scores)), float(np.log(scores.shape[2]))
    for _ in range(2 * len(scores)):
        kept = np.flatnonzero(free)
        prior = int(np.flatnonzero(kept == signed)[0]) if signed is not None and free[signed] else None
        part, loss, slopes = _newton(scores[kept], judged, start[kept], prior, gain, scores[~free])
        weights = np.zeros(len(scores))
        weights[kept] = part
        low = weights < 0
        if signed is not None:
            low[signed] = False
        if low.any():
            free[int(np.argmin(np.where(low, weights, 0.0)))] = False
            if not free.any():
                return np.zeros(len(scores)), float(np.log(scores.shape[2]))
            continue
        if _ < len(scores) and len(slopes) and slopes.min() < -1e-6:
            free[np.flatnonzero(~free)[int(np.argmin(slopes))]] = True
            continue
        return weights, loss
    return np.where(low, 0.0, weights), loss


def _newton(
    scores: Float, judged: Judged, start: Float, prior: int | None, gain: float, others: Float
) -> tuple[Float, float, Float]:
    """Fit weights without bounds; return them, the log-loss, and the slopes of the scores that are left out."""
    n, K = scores.shape[1:]
    total = judged.weights.sum()
    w, rows = judged.weights / total, np.arange(n)
    own = scores[:, rows, judged.codes].T
    size = np.sqrt(np.array([w @ np.var(one, axis=1) for one in scores])) + 1e-9
    # From flat scores Newton's method always finds its way; from saturated ones it may not.
    start = start * min(1.0, 2.0 / (np.abs(start) @ size + 1e-9))
    precision = (size / SPREAD) ** 2 / total
    if prior is not None:
        precision[prior] = 10.0 / total  # near-equal classes would let the weight of their prior run away
    flat = scores.reshape(len(scores), -1)

    def value(b: Float) -> tuple[float, float, Float]:
        mixed = (b @ flat).reshape(n, K)
        top = mixed.max(axis=1)
        mixed -= top[:, None]
        np.exp(mixed, out=mixed)
        mass = mixed.sum(axis=1)
        loss = float(w @ (np.log(mass) + top - own @ b))
        mixed /= mass[:, None]
        return loss, loss + 0.5 * float(precision @ (b - start) ** 2), mixed

    b = start
    loss, goal, chances = value(b)
    for _ in range(40):
        mean = np.stack([np.einsum("nk,nk->n", chances, one) for one in scores], axis=1)
        gradient = w @ (mean - own) + precision * (b - start)
        scaled = flat * np.sqrt(chances * w[:, None]).ravel()
        hessian = scaled @ scaled.T - (mean * w[:, None]).T @ mean
        hessian.flat[:: len(b) + 1] += precision + 1e-14 * np.trace(hessian)
        step = -np.linalg.solve(hessian, gradient)
        slope = float(gradient @ step)
        if -slope < gain:
            break
        length = 1.0
        new = value(b + step)
        while new[1] > goal + 1e-4 * length * slope + 1e-15 and length > 1e-6:
            length /= 2
            new = value(b + length * step)
        b = b + length * step
        loss, goal, chances = new
    slopes = [w @ (np.einsum("nk,nk->n", chances, one) - one[rows, judged.codes]) for one in others]
    sizes = [np.sqrt(w @ np.var(one, axis=1)) + 1e-9 for one in others]
    return b, loss, np.array(slopes) / np.array(sizes) if len(others) else np.zeros(0)


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
    (b, c), _, _ = _newton(np.stack([logs, roots]), judged, np.array([1.0, 0.0]), None, 1e-13, np.empty((0, 0, 0)))
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


def badness(scores: Float, judged: Judged, sharpness: float = 1.0, tail: float = 0.0) -> float:
    """Return what heads and ridges are compared by: a smooth count of errors, and a little of the log-loss."""
    logs = np.maximum(calibrated(scores, sharpness, tail), -700.0)
    rows = np.arange(len(judged.codes))
    sharp = special.log_softmax(SHARP * logs, axis=1)[rows, judged.codes]
    error = 1.0 - np.average(np.exp(sharp), weights=judged.weights)
    loss = -np.average(logs[rows, judged.codes], weights=judged.weights)
    return float(error + LOSS_SHARE * loss)
