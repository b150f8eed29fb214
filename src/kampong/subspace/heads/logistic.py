"""Multinomial logistic regression inside the subspace, from a sample of rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy import linalg, optimize

from kampong._runtime.compute import run, split
from kampong.subspace.heads.linear import LinearHead

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._runtime.compute import Float, Integer
    from kampong.subspace.heads.base import Inside, Moved

PENALTIES = 10.0 ** np.array([-2.0, -3.0, -4.0])
"""Nodes of the L2 penalty, beside a mean over rows, in whitened coordinates."""

USUAL = 1e-3
"""The same where nothing judges."""

FEW = 600
"""Up to so many numbers Newton's method is exact and quick; past that L-BFGS is used."""

OFFSET_PENALTY = 1e-6

PARTS, LARGE = 4, 2**22
"""Into how many parts a large product is cut, and how many multiplications make it large."""

STEPS, NEW_STEPS, STEP_PRICE = 4, 15, 2e7
"""Steps where a head is kept and the statistics have changed, where classes are new, and numbers that a step reads."""


@dataclass(frozen=True)
class Logistic(LinearHead):
    """Multinomial logistic regression with an L2 penalty, trained on the sample.

    Attributes
    ----------
    penalty : float
        The L2 penalty.
    settled : bool
        Whether it was trained on all columns: steps along its few directions would miss the penalty of the others.
    """

    penalty: float
    settled: bool = field(default=False, kw_only=True)
    name: ClassVar[str] = "logistic"
    needs_covariance: ClassVar[bool] = True
    needs_sample: ClassVar[bool] = True

    @classmethod
    def build(cls, inside: Inside) -> Self:
        """Return the head with the usual penalty."""
        assert inside.points is not None
        assert inside.codes is not None
        assert inside.own is not None
        whitener = inside.whitener()
        theta = fit_logistic(inside.points @ whitener, inside.codes, inside.own, inside.counts, USUAL)
        return cls.of(theta, inside.counts, whitener, USUAL)

    @classmethod
    def of(cls, theta: Float, counts: Float, whitener: Float, penalty: float) -> Self:
        """Return the head of weights and offsets, (K, p + 1), in whitened coordinates."""
        seen = counts > 0
        weights = np.where(seen[:, None], theta[:, :-1] @ whitener.T, 0.0)
        return cls(False, weights, np.where(seen, theta[:, -1], -np.inf), penalty)

    def again(self, inside: Inside, wide: Inside, moved: Callable[[], Moved]) -> Self:
        """Return the head for other statistics: the same weights in the new coordinates, and a few steps from there."""
        if self.multilabel:
            return self._moved(wide, moved())
        assert wide.points is not None
        assert wide.codes is not None
        assert wide.own is not None
        change = moved()
        whitener, known = wide.whitener(), change.places >= 0
        start = start_of(wide.counts, len(whitener) + 1)
        weights, offsets = self.weights[change.places[known]], self.offsets[change.places[known]]
        start[known, :-1] = np.linalg.solve(whitener, (weights @ change.back).T).T
        start[known, -1] = np.where(np.isfinite(offsets), offsets + weights @ change.shift, start[known, -1])
        # a class that has come since must be learnt; else a few steps do, and none where they cost too much
        few = 0 if self.settled else min(STEPS, int(STEP_PRICE / (len(wide.points) * start.size)))
        most = few if known.all() else NEW_STEPS
        theta = start
        if most:
            theta = fit_logistic(wide.points @ whitener, wide.codes, wide.own, wide.counts, self.penalty, start, most)
        head = replace(self.of(theta, wide.counts, whitener, self.penalty), settled=self.settled)
        return replace(head, sharpness=self.sharpness, tail=self.tail)

    @property
    def reads_sample(self) -> bool:
        """Whether a sample of rows is needed to build this head again: not for several labels a row."""
        return not self.multilabel

    def _moved(self, wide: Inside, change: Moved) -> Self:
        """Return the same weights in the new coordinates; a label that has come since has its share alone."""
        known = change.places >= 0
        share = np.clip(wide.counts / max(wide.row_weight, 1e-300), 1e-12, 1 - 1e-12)
        weights, offsets = np.zeros((len(known), change.back.shape[1])), np.log(share / (1 - share))
        old = self.weights[change.places[known]]
        weights[known] = old @ change.back
        offsets[known] = self.offsets[change.places[known]] + old @ change.shift
        return replace(self, weights=weights, offsets=offsets)

    def inconsistent(self) -> str:
        """Say where the penalty is none."""
        return super().inconsistent() or ("" if self.penalty >= 0 else f"penalty is {self.penalty}")


def fit_logistic(
    points: Float,
    codes: Integer,
    own: Float,
    counts: Float,
    penalty: float,
    start: Float | None = None,
    most: int = 60,
    shape: Float | None = None,
) -> Float:
    """Return weights and offsets, (K, p + 1), of least mean log-loss and penalty.

    Parameters
    ----------
    points : array of shape (n, p)
        Whitened coordinates.
    codes : array of int of shape (n,)
        Classes.
    own : array of shape (n,)
        Weights.
    counts : array of shape (K,)
        Class weights of all rows.
    penalty : float
        The L2 penalty on the weights.
    start : array of shape (K, p + 1), optional
        Where to start from.
    most : int
        The most steps of L-BFGS.
    shape : array of shape (p,), optional
        What the penalty is multiplied by along each coordinate.

    Returns
    -------
    array of shape (K, p + 1)
        The offset stands last.
    """
    K, q = len(counts), points.shape[1] + 1
    if start is None:
        start = start_of(counts, q)
    extended = np.hstack([points, np.ones((len(points), 1))])
    pull = np.full(q, penalty)
    pull[:-1] *= 1.0 if shape is None else shape
    pull[-1] = OFFSET_PENALTY
    problem = _Problem(extended, codes, own / own.sum(), pull)
    if K * q <= FEW and most > NEW_STEPS:
        return _newton(problem, start)
    # The loss bends by about half the prior of a class along a whitened coordinate: that is the unit of a row.
    unit = 1.0 / np.sqrt(np.maximum(counts / counts.sum(), 1e-4)[:, None] * 0.5 + pull)

    def goal(flat: Float) -> tuple[float, Float]:
        value, slope = problem.both(flat.reshape(K, q) * unit)
        return value, (slope * unit).ravel()

    minimise: Any = optimize.minimize  # its types know no function that returns its slope too
    options = {"maxiter": most, "gtol": 1e-10, "ftol": 0.0, "maxcor": 10}
    found = minimise(goal, (start / unit).ravel(), jac=True, method="L-BFGS-B", options=options)
    theta: Float = found.x.reshape(K, q) * unit
    return theta


def start_of(counts: Float, q: int) -> Float:
    """Return weights of zero and the log-priors as offsets, (K, q)."""
    start = np.zeros((len(counts), q))
    start[:, -1] = np.log(np.maximum(counts, 1e-9 * counts.sum()) / counts.sum())
    return start


class _Problem:
    """The mean log-loss of a linear model, and its slope."""

    def __init__(self, rows: Float, codes: Integer, weights: Float, pull: Float) -> None:
        self.rows, self.codes, self.weights, self.pull = rows, codes, weights, pull
        self.places = np.arange(len(rows))

    def value(self, theta: Float) -> tuple[float, Float]:
        scores = self.rows @ theta.T
        scores -= scores.max(axis=1, keepdims=True)
        mine = scores[self.places, self.codes]
        np.exp(scores, out=scores)
        mass = scores.sum(axis=1)
        loss = float(self.weights @ (np.log(mass) - mine)) + 0.5 * float((self.pull * theta * theta).sum())
        scores /= mass[:, None]
        return loss, scores

    def both(self, theta: Float) -> tuple[float, Float]:
        """Return the value and its slope, a part of the rows a thread: BLAS may be held to one."""
        parts = split(len(self.rows), PARTS if self.rows.shape[0] * theta.size > LARGE else 1)
        values, slopes = np.zeros(len(parts)), np.zeros((len(parts), *theta.shape))

        def work(number: int, start: int, stop: int) -> None:
            rows, w = self.rows[start:stop], self.weights[start:stop]
            places, codes = self.places[: stop - start], self.codes[start:stop]
            scores = rows @ theta.T
            scores -= scores.max(axis=1, keepdims=True)
            mine = scores[places, codes]
            np.exp(scores, out=scores)
            mass = scores.sum(axis=1)
            values[number] = w @ (np.log(mass) - mine)
            scores *= (w / mass)[:, None]
            scores[places, codes] -= w
            np.matmul(scores.T, rows, out=slopes[number])

        run(work, [(number, *part) for number, part in enumerate(parts)])
        loss = float(values.sum()) + 0.5 * float((self.pull * theta * theta).sum())
        return loss, slopes.sum(axis=0) + self.pull * theta

    def gradient(self, theta: Float, chances: Float) -> Float:
        residual = chances * self.weights[:, None]
        residual[self.places, self.codes] -= self.weights
        slope: Float = residual.T @ self.rows + self.pull * theta
        return slope


def _newton(problem: _Problem, start: Float) -> Float:
    """Solve to the last digits by Newton's method with halved steps."""
    K, q = start.shape
    rows, theta = problem.rows, start
    goal, chances = problem.value(theta)
    for _ in range(30):
        weighted = chances * problem.weights[:, None]
        hessian = np.empty((K, q, K, q))
        for a in range(K):
            for b in range(a, K):
                bend = weighted[:, a] * ((a == b) - chances[:, b])
                block = rows.T @ (rows * bend[:, None])
                hessian[a, :, b], hessian[b, :, a] = block, block.T
        matrix = hessian.reshape(K * q, K * q)
        # A little more on the diagonal changes the step, not where it ends.
        matrix.flat[:: K * q + 1] += np.tile(problem.pull, K) + 1e-12 * np.trace(matrix)
        gradient = problem.gradient(theta, chances).ravel()
        step = -linalg.cho_solve(linalg.cho_factor(matrix), gradient)
        slope = float(gradient @ step)
        if -slope < 1e-18:
            break
        length, new = 1.0, problem.value(theta + step.reshape(K, q))
        while new[0] > goal + 1e-4 * length * slope + 1e-15 and length > 1e-4:
            length /= 2
            new = problem.value(theta + length * step.reshape(K, q))
        theta = theta + length * step.reshape(K, q)
        goal, chances = new
    return theta
