"""Multinomial logistic regression inside the subspace, from a sample of rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from kampong.heads.linear import LinearHead
from kampong.heads.logistic_training import Problem, settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Integer
    from kampong.heads.head import Inside, Moved

PENALTIES = np.array([1e-2, 1e-4])
"""The L2 penalties that are compared, strong to weak, relative to a mean over rows, in whitened coordinates."""

LAST_GAIN = 1e-10
"""Weights that are compared, and used if they know all rows, end with a step that gains less of the log-loss."""

USUAL = float(np.sqrt(PENALTIES.prod()))
"""The same without validation rows: the middle."""

FEW = 800
"""Up to this many numbers their second derivatives are used; above that L-BFGS begins without."""

OFFSET_PENALTY = 1e-6

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
        """Whether a sample of rows is needed to build this head again: not for several labels per row."""
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
    gain: float = 1e-12,
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
        The most steps.
    shape : array of shape (p,), optional
        What the penalty is multiplied by along each coordinate.
    gain : float
        Where the numbers are few, it ends where a step would gain less.

    Returns
    -------
    array of shape (K, p + 1)
        The offset stands last.
    """
    K, q, fresh = len(counts), points.shape[1] + 1, start is None
    if start is None:
        start = start_of(counts, q)
    problem, pull = problem_of(points, codes, own), pull_of(penalty, q, shape)
    problem = problem.with_pull(pull)
    if K * q <= FEW and most > NEW_STEPS:
        return settle(problem, start, fresh=fresh, gain=gain, most=most)[0]
    # The loss bends by about half the prior of a class along a whitened coordinate: that is the unit of a row.
    unit = 1.0 / np.sqrt(np.maximum(counts / counts.sum(), 1e-4)[:, None] * 0.5 + pull)

    def goal(flat: Float) -> tuple[float, Float]:
        value, slope = problem.both(flat.reshape(K, q) * unit)
        return value, (slope * unit).ravel()

    from scipy import optimize  # few fits need it, and it takes long to import

    minimise: Any = optimize.minimize  # its types know no function that returns its slope too
    options = {"maxiter": most, "gtol": 1e-10, "ftol": 0.0, "maxcor": 10}
    found = minimise(goal, (start / unit).ravel(), jac=True, method="L-BFGS-B", options=options)
    theta: Float = found.x.reshape(K, q) * unit
    return theta


def left_out_path(
    points: Float,
    codes: Integer,
    own: Float,
    counts: Float,
    penalties: Float,
    some: Integer,
    gone: Float,
    shape: Float | None = None,
) -> tuple[list[Float], Float]:
    """Return the weights at some penalties, and what rows would score without themselves at each.

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
    penalties : array of shape (q,)
        L2 penalties, strong to weak.
    some : array of int of shape (m,)
        The rows to score.
    gone : array of shape (m,)
        The share of its weight that leaves with each.
    shape : array of shape (p,), optional
        What the penalty is multiplied by along each coordinate.

    Returns
    -------
    thetas : list of array of shape (K, p + 1)
        The weights that know all rows.
    scores : array of shape (q, m, K)
        The scores without the row.
    """
    theta: Float | None = None
    hessian: Float | None = None
    q, thetas, scores = points.shape[1] + 1, [], []
    plain = problem_of(points, codes, own)
    for penalty in penalties:
        problem = plain.with_pull(pull_of(float(penalty), q, shape))
        begin = start_of(counts, q) if theta is None else theta
        theta, hessian = settle(problem, begin, fresh=True, gain=LAST_GAIN, most=60, hessian=hessian)
        thetas.append(theta)
        scores.append(problem.left_out(theta, problem.curvature(hessian), some, gone))
    return thetas, np.stack(scores)


def problem_of(points: Float, codes: Integer, own: Float) -> Problem:
    """Return the problem of rows without a penalty."""
    extended = np.hstack([points, np.ones((len(points), 1))])
    return Problem(extended, codes, own / own.sum(), np.zeros(extended.shape[1]))


def pull_of(penalty: float, q: int, shape: Float | None) -> Float:
    """Return the penalty along each coordinate, and on the offset."""
    pull = np.full(q, penalty)
    pull[:-1] *= 1.0 if shape is None else shape
    pull[-1] = OFFSET_PENALTY
    return pull


def start_of(counts: Float, q: int) -> Float:
    """Return weights of zero and the log-priors as offsets, (K, q)."""
    start = np.zeros((len(counts), q))
    start[:, -1] = np.log(np.maximum(counts, 1e-9 * counts.sum()) / counts.sum())
    return start
