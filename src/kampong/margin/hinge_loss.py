"""The support vector machine with hinge loss, solved in working sets, with the duality gap at all rows.

Minimise ½‖w‖² + Σ C_i max(0, 1 − y_i (w · φ(x_i) + b)). With β_i = y_i α_i the dual maximises y · β − ½ βᵀKβ over
Σ β_i = 0 and 0 ≤ y_i β_i ≤ C_i. Counted from their lower ends, the β_i are weights between 0 and C_i with a given sum:
a hull whose cap differs by pattern, on which the same pairwise steps move weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kampong.margin.hull import Gap, Hull
from kampong.margin.problem import UNKNOWN, Options, Problem, Stopped
from kampong.margin.working_set import moved_gradient, solve_in_working_sets

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer
    from kampong.margin.kernel_rows import KernelRows


class LossGap(Gap):
    """The primal and the dual objective of a loss, which may both be zero: where all rows are of one class."""

    @property
    def relative(self) -> float:
        """Return (P − D)/P, 0 if P is 0."""
        return 0.0 if self.objective == self.bound == 0.0 else super().relative


@dataclass(frozen=True)
class Box(Hull):
    """The weights β of a problem, counted from their lower ends; `signs` are 1 for all, `cap` is C_i.

    Attributes
    ----------
    labels : array of shape (n_samples,)
        The labels y_i, +1 or −1.
    """

    labels: Float = field(default_factory=lambda: np.zeros(0))

    @property
    def low(self) -> Float:
        """Return the least β_i: −C_i in the negative class, else 0."""
        low: Float = np.where(self.labels < 0, -self.caps, 0.0)
        return low

    def restrict(self, indices: Integer) -> Box:
        """Return the box of some of the patterns."""
        part = super().restrict(indices)
        assert isinstance(part, Box)
        return replace(part, labels=self.labels[indices])

    def gap(self, alpha: Float, gradient: Float) -> Gap:
        """Return the primal objective, with the best constant, and the dual one; `gradient` is Kβ − y."""
        beta, scores = alpha + self.low, gradient + self.labels
        half = 0.5 * float(beta @ scores)
        slack = np.maximum(0.0, 1.0 - self.labels * (scores + self.constant(gradient)))
        return LossGap(half + float(self.caps @ slack), float(self.labels @ beta) - half)

    def constant(self, gradient: Float) -> float:
        """Return the b of least loss; the slope of the loss rises by C_i at y_i − f_i."""
        if np.ptp(self.caps):
            order = np.argsort(-gradient, kind="stable")
            kinks, rises = -gradient[order], np.cumsum(self.caps[order])
        else:  # values are sorted in a tenth of the time that their order takes
            kinks, rises = np.sort(-gradient), self.caps[0] * np.arange(1, len(gradient) + 1)
        positive = float(self.caps[self.labels > 0].sum())
        place = min(int(np.searchsorted(rises, positive * (1 - 1e-12))), len(kinks) - 1)
        low = float(kinks[place])
        flat = place + 1 < len(kinks) and rises[place] <= positive * (1 + 1e-12)
        # the loss is flat between two kinks: the middle treats both classes the same
        return 0.5 * (low + float(kinks[place + 1])) if flat else low


class HingeSolution(NamedTuple):
    """The answer to one problem.

    Attributes
    ----------
    beta : array of shape (n_samples,)
        y_i α_i: the coefficients of the kernel values.
    values : array of shape (n_samples,)
        w · φ(x_i) at every row.
    constant : float
        b.
    length : float
        ‖w‖.
    gap : Gap
        The primal and the dual objective; not known after an interrupt.
    steps : int
        Pairwise steps taken.
    status : str
        "converged", "steps", "stalled" or "interrupted".
    """

    beta: Float
    values: Float
    constant: float
    length: float
    gap: Gap
    steps: int
    status: str

    @property
    def n_core(self) -> int:
        """Return the number of support vectors."""
        return int(np.count_nonzero(self.beta))


def solve_hinge(
    rows: KernelRows, labels: list[Float], caps: Float, options: Options, start: list[Float] | None = None
) -> list[HingeSolution]:
    """Solve several problems on the same rows, which share their kernel values.

    Parameters
    ----------
    rows : KernelRows
        The kernel values.
    labels : list of array of shape (n_samples,)
        The labels ±1 of each problem.
    caps : array of shape (n_samples,)
        C_i, the weight of the slack of each row.
    options : Options
        How to solve.
    start : list of array of shape (n_samples,), optional
        Values of β for another C to start from, one array per problem.

    Returns
    -------
    list of HingeSolution
        One per problem.
    """
    problems = []
    for number, signs in enumerate(labels):
        box = Box(np.ones(len(signs)), cap=caps, labels=signs)
        beta = np.zeros(len(signs)) if start is None else feasible(start[number], signs, caps)
        problem = Problem(box, options, floor=-math.inf, core=np.arange(len(signs)), alpha=beta - box.low)
        gradient: Float = -signs
        support = np.flatnonzero(beta)
        for first in range(0, len(support), rows.capacity):
            part = support[first : first + rows.capacity]
            rows.fetch(part)
            gradient = moved_gradient(problem, rows, gradient, part, beta[part])
        problem.gradient, problem.looked_from = gradient, problem.alpha
        problems.append(problem)

    def so_far() -> list[HingeSolution]:
        return [_solution(problem) for problem in problems]

    try:
        solve_in_working_sets(rows, problems, options, so_far)
    except (KeyboardInterrupt, Stopped):
        for problem in problems:
            if problem.status != "converged":
                problem.status, problem.gap = "interrupted", UNKNOWN
    return so_far()


def feasible(beta: Float, labels: Float, caps: Float) -> Float:
    """Return β within the bounds, with the larger class scaled down so that the sum is 0."""
    cut: Float = np.clip(beta, np.where(labels < 0, -caps, 0.0), np.where(labels > 0, caps, 0.0))
    plus, minus = float(cut[labels > 0].sum()), -float(cut[labels < 0].sum())
    if not min(plus, minus) > 0:
        return np.zeros(len(labels))
    cut[labels > 0] *= min(1.0, minus / plus)
    cut[labels < 0] *= min(1.0, plus / minus)
    return cut


def _solution(problem: Problem) -> HingeSolution:
    box, alpha = problem.hull, np.zeros(len(problem.hull.signs))
    assert isinstance(box, Box)
    assert problem.gradient is not None
    alpha[problem.core] = problem.alpha
    beta: Float = alpha + box.low
    values: Float = problem.gradient + box.labels
    squared = float(beta @ values)
    length = math.sqrt(squared) if squared > 0 else 0.0
    status = problem.status or "interrupted"
    return HingeSolution(beta, values, box.constant(problem.gradient), length, problem.gap, problem.steps, status)
