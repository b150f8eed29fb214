"""The point of a hull nearest to the origin: which hull, its gradient and duality gap, and the walks of Martinetz 2004.

Minimise ‖Σ α_i z_i‖² over α ≥ 0, Σ α_i = 1, α_i ≤ cap, with z_i · z_j = y_i y_j (k(x_i, x_j) + offset) + ridge·δ_ij.
All is written with the gradient g_i = v · z_i, v = Σ α_i z_i, which is the margin of pattern i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kampong.margin.step_rules import maxminover, minover

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kampong._core.compute import Float, Integer
    from kampong.margin.kernel_rows import KernelRows


class Gap(NamedTuple):
    """How close a point of the hull is to the point nearest to the origin.

    Attributes
    ----------
    objective : float
        ‖v‖² at this point.
    bound : float
        The least of v · z over the hull: ‖v*‖ ≥ bound/‖v‖, and ‖v‖² − ‖v*‖² ≤ 2 (objective − bound).
    """

    objective: float
    bound: float

    @property
    def relative(self) -> float:
        """Return (objective − bound) / objective: 0 at the nearest point, infinite at the origin, NaN if not known."""
        if math.isnan(self.bound):
            return math.nan
        if not self.objective > 0:
            return math.inf
        return max(0.0, (self.objective - self.bound) / self.objective)


@dataclass(frozen=True)
class Hull:
    """The hull of one two-class problem.

    Attributes
    ----------
    signs : array of shape (n_samples,)
        The labels y_i, +1 or −1.
    offset : float
        Added to every kernel value: 1 for the augmented bias of the papers.
    ridge : float or array of shape (n_samples,)
        Added to the diagonal: 1/C for squared slack, or 1/C_i if rows have weights.
    cap : float or array of shape (n_samples,)
        The largest α_i: 1/K for the reduced hull of a soft margin, or w_i/K if rows have weights.
    split : bool
        Whether the α of each class sum to ½. Then v is half the difference of two points, one of each class hull, and
        ‖v‖ at the optimum is the true margin.
    directions : array of shape (n_samples, n_directions) or None
        F, the values f_q(x_i) = u_q · φ(x_i) of unit directions that w is to be orthogonal to: the kernel is then
        K − FFᵀ, which drops the part of every pattern along them.
    """

    signs: Float
    offset: float = 0.0
    ridge: Any = 0.0
    cap: Any = math.inf
    split: bool = False
    directions: Float | None = None

    @property
    def groups(self) -> Integer:
        """Return the number of the sum that each pattern belongs to."""
        return (self.signs > 0).astype(np.int8) if self.split else np.zeros(len(self.signs), dtype=np.int8)

    @property
    def group_sum(self) -> float:
        """Return the sum of α over a group."""
        return 0.5 if self.split else 1.0

    @property
    def hard(self) -> bool:
        """Tell whether the problem may have no solution, because the origin may lie in the hull."""
        return not np.any(self.ridge)

    @property
    def ridges(self) -> Float:
        """Return the ridge of each pattern."""
        return np.full(len(self.signs), self.ridge, dtype=np.float64)

    @property
    def caps(self) -> Float:
        """Return the cap of each pattern."""
        return np.full(len(self.signs), self.cap, dtype=np.float64)

    @property
    def capped(self) -> bool:
        """Tell whether the hull is a reduced one."""
        return bool(np.isfinite(self.cap).all())

    @property
    def deflated(self) -> bool:
        """Tell whether directions are taken off the kernel."""
        return self.directions is not None

    def without(self, features: Sequence[Any]) -> Hull:
        """Return the hull without some directions, whose values at all patterns are known."""
        return replace(self, directions=np.column_stack([feature.values for feature in features]))

    def restrict(self, indices: Integer) -> Hull:
        """Return the hull of some of the patterns."""
        directions = None if self.directions is None else self.directions[indices]
        parts = {name: getattr(self, name) for name in ("ridge", "cap")}
        parts = {name: value[indices] if np.ndim(value) else value for name, value in parts.items()}
        return replace(self, signs=self.signs[indices], directions=directions, **parts)

    def diagonal(self, diagonal: Float) -> Float:
        """Return the diagonal of the kernel matrix without the directions."""
        if self.directions is None:
            return diagonal
        left: Float = diagonal - np.einsum("ij,ij->i", self.directions, self.directions)
        return left

    def deflate(self, block: Float, rows: Integer, columns: Integer) -> Float:
        """Subtract the directions from a block of kernel values, in place."""
        if self.directions is not None:
            thin = self.directions.astype(block.dtype)
            block -= thin[rows] @ thin[columns].T
        return block

    def squared_norms(self, diagonal: Float) -> Float:
        """Return z_i · z_i from the diagonal of the kernel matrix."""
        norms: Float = self.diagonal(diagonal) + self.offset + self.ridge
        return norms

    def deflate_product(self, product: Float, rows: Integer | None, columns: Integer, weights: Float) -> Float:
        """Subtract the directions from a product K[rows][:, columns] @ weights, in place; None stands for all rows."""
        if self.directions is not None:
            product -= (self.directions if rows is None else self.directions[rows]) @ (
                self.directions[columns].T @ weights
            )
        return product

    def gradient(self, product: Float, alpha: Float) -> Float:
        """Return g = (v · z_i) from `product` = K (y ∘ α), without the directions."""
        bias = self.offset * float(self.signs @ alpha)
        gradient: Float = self.signs * (product + bias) + self.ridge * alpha
        return gradient

    def gap(self, alpha: Float, gradient: Float) -> Gap:
        """Return the objective and its bound, from the gradient at all patterns."""
        bound, groups = 0.0, self.groups
        for group in range(2 if self.split else 1):
            values = gradient[groups == group] if self.split else gradient
            if not self.capped:
                bound += self.group_sum * float(values.min())
                continue
            if np.ndim(self.cap):
                # as much weight as its cap allows to each pattern, from the least margin on, until it is used up
                order, caps = np.argsort(values, kind="stable"), self.caps[groups == group]
                before = np.cumsum(caps[order]) - caps[order]
                bound += float(np.clip(self.group_sum - before, 0.0, caps[order]) @ values[order])
                continue
            count = min(len(values), math.ceil(self.group_sum / self.cap - 1e-9))
            least = np.sort(np.partition(values, count - 1)[:count])
            bound += self.cap * float(least[:-1].sum()) + (self.group_sum - self.cap * (count - 1)) * float(least[-1])
        return Gap(float(alpha @ gradient), bound)

    def balance(self, alpha: Float, gradient: Float) -> Float:
        """Return the offset of a split hull: v · z minus the offset is y times the score.

        The offset lies midway between the weighted mean margins of the classes. At the optimum that is the middle of
        the corridor; before, single patterns change it less than they change the least margins.
        """
        if not self.split:
            return np.zeros(len(alpha))
        plus = self.signs > 0
        middle = float(alpha[plus] @ gradient[plus]) - float(alpha[~plus] @ gradient[~plus])
        return np.asarray(self.signs * middle)

    def levels(self, alpha: Float, gradient: Float) -> list[float]:
        """Return the margin level ρ of each group: what v · z is on the edge of the corridor.

        Without a cap it is the least margin. With one it is the mean margin of the patterns with α strictly between 0
        and the cap, or, if there are none, the middle between the patterns inside and outside.
        """
        result, groups = [], self.groups
        for group in range(2 if self.split else 1):
            a, g = alpha[groups == group], gradient[groups == group]
            if not self.capped:
                result.append(float(g.min()))
                continue
            caps = self.caps[groups == group]
            inside, outside = a >= caps * (1 - 1e-9), a <= caps * 1e-9
            free = ~inside & ~outside
            if free.any():
                result.append(float(g[free].mean()))
            else:
                low = float(g[inside].max())
                result.append((low + float(g[outside].min())) / 2 if outside.any() else low)
        return result


class Walk(NamedTuple):
    """The state of a walk of Martinetz 2004: how often each pattern was learnt, and its margin v · z."""

    counts: Integer
    margins: Float
    steps: int
    gap: Gap
    status: str
    trace: tuple[tuple[int, float, float, int, float, float], ...] = ()
    """By moments, about five times as many as powers of two: t, ‖v_t‖, the least margin over it, patterns stored, the
    relative gap, and the largest α_i."""


def walk(
    rows: KernelRows,
    hull: Hull,
    *,
    patterns: int,
    forget: bool,
    tol: float,
    steps: int,
    counts: Integer | None = None,
    on_chunk: Callable[[Walk], bool] | None = None,
) -> Walk:
    """Walk as Martinetz 2004 does: add the patterns of least margin, and forget stored ones of largest margin.

    MinOver (section II), MaxMinOver (III, `forget`) and SoftMaxMinOver (IV, `patterns` > 1), step by step, with
    whole counts n and v = (1/patterns) Σ n_i z_i. With a split hull each step takes this many patterns of each class.
    Among equal margins the first pattern is taken. The walk ends when the relative duality gap is `tol` or less, or
    after `steps` steps.

    Parameters
    ----------
    rows : KernelRows
        The kernel.
    hull : Hull
        The patterns; its cap is that of `patterns`.
    patterns : int
        K: how many patterns make up a step (a step of each group).
    forget : bool
        Whether to forget.
    tol : float
        The relative duality gap to reach.
    steps : int
        The most steps to take.
    counts : array of int, optional
        Where to start; by default nothing is stored.
    on_chunk : callable, optional
        Called now and then with the state of the walk; if it returns True, the walk ends as if interrupted.

    Returns
    -------
    Walk
        The end of the walk.
    """
    hull = replace(hull, cap=hull.group_sum / patterns if patterns > 1 else math.inf)
    groups, n_groups = hull.groups, 2 if hull.split else 1
    counts = np.zeros(len(hull.signs), dtype=np.int64) if counts is None else counts.astype(np.int64)
    used = np.flatnonzero(counts)
    margins: Float = np.zeros(len(counts))
    if len(used):
        weights = (hull.signs * counts)[used, None] / patterns
        margins = hull.gradient(rows.times(used, weights)[:, 0], counts / patterns)
    limit = 4 * longest(rows.diagonal, hull, patterns) ** 2 if forget else math.inf
    step_rule = maxminover if forget else minover
    done, edge, chunk, interrupted, trace = 0, 64, 128, False, []
    tiny = 1e-12 * float(hull.squared_norms(rows.diagonal).max())
    while True:
        # the trace is denser than the looks at the gap, which may cost kernel values
        wanted = min(max(1, done // 5), min(edge, steps) - done)
        try:
            taken, missing = step_rule(
                rows.store,
                rows.slot_of,
                hull.signs,
                hull.offset,
                groups,
                n_groups,
                patterns,
                limit,
                counts,
                margins,
                wanted,
            )
            done += taken
            if missing >= 0:
                # load the missing row, and those of least margin, which will be needed next
                near = np.argsort(margins, kind="stable")[: min(128, rows.capacity // 2)]
                rows.fetch(np.concatenate([[missing], near, np.flatnonzero(counts)])[: rows.capacity])
                continue
        except KeyboardInterrupt:
            if not counts.any():
                raise
            interrupted = True
        total = max(1, int(counts.sum()))
        alpha, gradient = counts / total, margins * patterns / total
        trace.append((done, *_moment(hull, alpha, gradient, total / patterns)))
        if done < min(edge, steps) and not interrupted:
            continue
        gap = _walk_gap(rows, hull, alpha, gradient)
        status = _walk_status(gap, tol, tiny, out_of_steps=done >= steps)
        if on_chunk is not None and not interrupted:
            stop = on_chunk(Walk(counts.copy(), margins.copy(), done, gap, status or "interrupted"))
            interrupted = stop and not status
        if status or interrupted:
            return Walk(counts, margins, done, gap, "interrupted" if interrupted else status, tuple(trace))
        edge, chunk = edge + chunk, min(2 * chunk, 8192)


def _moment(hull: Hull, alpha: Float, gradient: Float, scale: float) -> tuple[float, float, int, float, float]:
    """Return ‖v‖, the least margin (soft: the mean of the K least) over it, patterns stored, gap, largest share."""
    raw = hull.gap(alpha, gradient)
    length = math.sqrt(max(raw.objective, 0.0))
    margin = raw.bound / length if length > 0 else math.nan
    return scale * length, margin, int(np.count_nonzero(alpha)), raw.relative, float(alpha.max())


def _walk_status(gap: Gap, tol: float, tiny: float, *, out_of_steps: bool) -> str:
    """Return how a walk has ended, or an empty text if it goes on."""
    if gap.objective < tiny:
        return "inseparable" if gap.objective > -tiny else "indefinite"
    if gap.relative <= tol:
        return "converged"
    return "steps" if out_of_steps else ""


def _walk_gap(rows: KernelRows, hull: Hull, alpha: Float, gradient: Float) -> Gap:
    """Return the gap of a walk, which may have left the reduced hull, because forgetting ignores the cap.

    Outside the hull v bounds ‖v*‖ only from below; the upper bound is the length of the point with α cut to the cap.
    """
    gap = hull.gap(alpha, gradient)
    if alpha.max() <= hull.cap * (1 + 1e-12) or not gap.objective > 0:
        return gap
    inside, groups = np.minimum(alpha, hull.cap), hull.groups
    for group in range(2 if hull.split else 1):
        members = groups == group
        room = hull.cap - inside[members]
        inside[members] += room * (hull.group_sum - inside[members].sum()) / room.sum()
    used = np.flatnonzero(inside)
    product = rows.times(used, (hull.signs * inside)[used, None])[:, 0]
    objective = float(inside @ hull.gradient(product, inside))
    return Gap(objective, math.sqrt(max(objective, 0.0)) * gap.bound / math.sqrt(gap.objective))


def longest(diagonal: Float, hull: Hull, patterns: int) -> float:
    """Return R_K: the mean norm of the K longest patterns; for a split hull, the sum over the two classes."""
    norms, groups = np.sqrt(np.maximum(hull.squared_norms(diagonal), 0.0)), hull.groups
    return sum(float(np.sort(norms[groups == g])[-patterns:].mean()) for g in range(2 if hull.split else 1))
