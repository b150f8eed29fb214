"""Chains of orthogonal margin directions: solve, take the direction off the kernel, solve again.

With unit directions u_q the constraint u_q · w = 0 is met by the kernel k(x, z) − Σ f_q(x) f_q(z), f_q(x) = u_q · φ(x):
the multipliers of Tsang et al. 2006, equation 9, vanish. The kernel itself is evaluated once for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kampong.kernels import KernelRows
from kampong.margin.core_set import solve
from kampong.margin.hull import Hull

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._linalg import Float, Integer
    from kampong.margin.core_set import Solution
    from kampong.margin.problem import Options

    Start = dict[tuple[int, int], Float]
    Product = Callable[[Integer, Float], Float]


@dataclass(frozen=True)
class BallHull(Hull):
    """A hull whose patterns keep their length before deflation: the ball of the paper is about those.

    Attributes
    ----------
    constant : float
        z_i · z_i, the same for all patterns.
    """

    constant: float = 0.0

    def squared_norms(self, diagonal: Float) -> Float:
        """Return z_i · z_i."""
        return np.full(len(diagonal), self.constant)


class DeflatedRows(KernelRows):
    """K − FFᵀ as a view: the values of K come from rows that all views share.

    Parameters
    ----------
    base : KernelRows
        K, and its store.
    features : array of shape (n_samples, n_directions)
        F.
    shared : bool
        Whether `base` serves others too, and so counts its evaluations itself.
    """

    def __init__(self, base: KernelRows, features: Float, *, shared: bool = True) -> None:
        self.kernel, self.budget, self.dtype = base.kernel, base.budget, base.dtype
        self.n_samples, self.n_evaluations = base.n_samples, 0
        self._base, self._exact, self._shared = base, features, shared
        self._features = features.astype(base.dtype)
        self.diagonal = base.diagonal - np.einsum("ij,ij->i", features, features)

    @property
    def width(self) -> int:
        """Return the number of features that a kernel value is computed from."""
        return self._base.width

    def subset(self, indices: Integer) -> KernelRows:
        """Return the rows and columns of some points only."""
        return DeflatedRows(self._base.subset(indices), self._exact[indices], shared=False)

    def block(self, rows: Integer, columns: Integer | None = None) -> Float:
        """Return (K − FFᵀ)[rows][:, columns]."""
        assert self._features is not None
        values = self._base.block(rows, columns)
        values -= self._features[rows] @ (self._features if columns is None else self._features[columns]).T
        self.n_evaluations = 0 if self._shared else self._base.n_evaluations
        return values

    def times(self, columns: Integer, weights: Float, rows: Integer | None = None, *, keep: bool = False) -> Float:
        """Return (K − FFᵀ)[rows][:, columns] @ weights."""
        product = self._base.times(columns, weights, rows, keep=keep)
        product -= (self._exact if rows is None else self._exact[rows]) @ (self._exact[columns].T @ weights)
        self.n_evaluations = 0 if self._shared else self._base.n_evaluations
        return product


@dataclass
class Feature:
    """One direction u = Σ c_i φ(x_i) of unit length, and how it was found.

    Attributes
    ----------
    chain : int
        The problem that it belongs to.
    order : int
        How many directions of its chain came before it.
    rows : array of int
        The training rows of the expansion.
    coefficients : array
        c_i at those rows.
    values : array of shape (n_samples,)
        u · φ(x) at every training row.
    solution : Solution
        The nearest point of the hull.
    margin : float
        ‖v‖²/‖w‖: the half-width of the corridor.
    """

    chain: int
    order: int
    rows: Integer
    coefficients: Float
    values: Float
    solution: Solution
    margin: float


class Extraction(NamedTuple):
    """What came out: the features by chain and order, and what it took."""

    features: list[Feature]
    n_evaluations: int


def extract(
    rows: KernelRows,
    hulls: list[Hull],
    length: int,
    options: Options,
    rng: np.random.RandomState,
    product: Product | None,
    *,
    together: bool = False,
    whole: bool = False,
    start: Start | None = None,
) -> Extraction:
    """Extract a chain of directions from each two-class problem.

    Parameters
    ----------
    rows : KernelRows
        The kernel values, shared by all problems and all rounds.
    hulls : list of Hull
        One a problem.
    length : int
        Directions of each chain.
    options : Options
        How to solve.
    rng : RandomState
        Chooses subsets and samples.
    product : callable or None
        Returns K[rows][:, rows] @ weights of the undeflated kernel with more digits than `rows` have, where it can.
    together : bool
        Whether a direction is orthogonal to all earlier ones, or to those of its chain only.
    whole : bool
        Whether the solve begins with all patterns in the core set.
    start : dict, optional
        Points of the hulls to start from, by (chain, order).

    Returns
    -------
    Extraction
        Fewer features than asked for where a chain has come to the end of the space, or was interrupted.
    """
    features: list[Feature] = []
    start, before, apart, stopped = start or {}, rows.n_evaluations, 0, False
    if whole:
        rows.fetch(np.arange(rows.n_samples))
    for order in range(length):
        begin = [_begin(start.get((chain, order)), hull, whole) for chain, hull in enumerate(hulls)]
        found: list[Solution | None] = [None] * len(hulls)
        if order == 0 and not together:
            given = [point for point in begin if point is not None]
            found = [*solve(rows, hulls, options, rng, given if len(given) == len(hulls) else None)]
        for chain, hull in enumerate(hulls):
            if order and not any(f.chain == chain and f.order == order - 1 for f in features):
                continue
            earlier = [f for f in features if together or f.chain == chain]
            view = DeflatedRows(rows, np.column_stack([f.values for f in earlier])) if earlier else rows
            solution, point = found[chain], begin[chain]
            if solution is None and not stopped and not _exhausted(view, rows):
                solution = solve(view, [hull], options, rng, None if point is None else [point])[0]
            apart += view.n_evaluations if earlier else 0
            feature = None if solution is None else _direct(chain, order, hull, solution, view, earlier, product)
            if feature is not None:
                features.append(feature)
                stopped = stopped or feature.solution.status == "interrupted"
                _report(options, feature, rows.n_evaluations - before + apart)
        if stopped:
            break
    features.sort(key=lambda f: (f.chain, f.order))
    return Extraction(features, rows.n_evaluations - before + apart)


def _begin(point: Float | None, hull: Hull, whole: bool) -> Float | None:
    """Return the point to start from; one with weight everywhere puts all patterns into the core set."""
    point = None if point is None else point / point.sum()
    if whole:
        even = np.full(len(hull.signs), 1.0 / len(hull.signs))
        return even if point is None else 0.99 * point + 0.01 * even
    return point


def _exhausted(view: KernelRows, rows: KernelRows) -> bool:
    """Tell whether deflation has left nothing but rounding."""
    floor = 1e3 * float(np.finfo(rows.dtype).eps) * float(np.abs(rows.diagonal).max())
    return view is not rows and not float(view.diagonal.max()) > floor


def _direct(
    chain: int,
    order: int,
    hull: Hull,
    solution: Solution,
    view: KernelRows,
    earlier: list[Feature],
    product: Product | None,
) -> Feature | None:
    """Return the unit direction of a solution, less what rounding has left of earlier ones; None where w vanishes."""
    explicit = view.kernel.name == "linear"
    raw = hull.signs * solution.alpha
    used = np.flatnonzero(raw)
    weights: Float = raw.copy()
    if np.isfinite(solution.gradient).all():
        values = hull.signs * (solution.gradient - hull.ridge * solution.alpha) - hull.offset * float(raw.sum())
    else:
        values = view.times(used, raw[used, None])[:, 0]
    for feature in earlier:
        weights[feature.rows] -= float(feature.values[used] @ raw[used]) * feature.coefficients
    length = float(raw[used] @ values[used])
    # a sum that cancels further than this has no digits left to tell its direction
    noise = float(np.finfo(np.float64).eps) * float(np.abs(view.diagonal).max()) * float(raw @ raw)
    if not length > (1.0 if explicit else 1e7) * noise:
        return None
    weights /= np.sqrt(length)
    values /= np.sqrt(length)
    involved = weights != 0.0
    for feature in earlier:
        involved[feature.rows] = True
    where = np.flatnonzero(involved)
    products: Float = np.zeros(len(weights))
    products[where] = values[where] if product is None else product(where, weights[where])
    squared = float(weights[where] @ products[where])
    for feature in earlier:
        cosine = float(feature.coefficients @ products[feature.rows])
        weights[feature.rows] -= cosine * feature.coefficients
        values -= cosine * feature.values
        squared -= cosine**2
    if not squared > 0.5:
        # most of it was rounding
        return None
    margin = solution.gap.objective / np.sqrt(length)
    where = np.flatnonzero(weights)
    return Feature(chain, order, where, weights[where] / np.sqrt(squared), values / np.sqrt(squared), solution, margin)


def _report(options: Options, feature: Feature, evaluations: int) -> None:
    if options.verbose:
        print(
            f"direction {feature.order + 1} of problem {feature.chain}: relative gap "
            f"{feature.solution.gap.relative:.3g}, {len(feature.rows)} rows, {evaluations:.3g} kernel evaluations",
            flush=True,
        )
