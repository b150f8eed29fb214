"""Chains of orthogonal margin directions: solve, remove the direction from the kernel, solve again.

With unit directions u_q the constraint u_q · w = 0 is met by the kernel k(x, z) − Σ f_q(x) f_q(z), f_q(x) = u_q · φ(x),
so the multipliers of Tsang et al. 2006, equation 9, are not needed. The kernel itself is the same for all chains and
all rounds, so the chains are solved side by side and share its values.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kampong.margin.core_set import solve
from kampong.margin.hull import Hull

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Integer
    from kampong.margin.core_set import Solution
    from kampong.margin.kernel_rows import KernelRows
    from kampong.margin.problem import Options, Watcher

    Start = dict[tuple[int, int], Float]
    Product = Callable[[Integer, Float], Float]


@dataclass(frozen=True)
class BallHull(Hull):
    """A hull whose patterns keep the length that they had before deflation, as the ball of the paper requires.

    Attributes
    ----------
    constant : float
        z_i · z_i, the same for all patterns.
    """

    constant: float = 0.0

    def squared_norms(self, diagonal: Float) -> Float:
        """Return z_i · z_i."""
        return np.full(len(diagonal), self.constant)


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
    """The result: the features by chain and order, and the number of kernel values computed."""

    features: list[Feature]
    n_evaluations: int


@dataclass
class Chains:
    """The chains of several two-class problems on the same rows.

    Attributes
    ----------
    rows : KernelRows
        The kernel values, shared by all problems and all rounds.
    hulls : list of Hull
        One per problem.
    length : int
        Directions of each chain.
    options : Options
        How to solve; its watcher is given a list of features in place of solutions.
    product : callable or None
        Returns K[rows][:, rows] @ weights of the undeflated kernel, for a block of weights, with more digits than
        `rows` have, where possible.
    together : bool
        Whether a direction is orthogonal to all earlier ones, or to those of its chain only.
    whole : bool
        Whether the solve begins with all patterns in the core set.
    """

    rows: KernelRows
    hulls: list[Hull]
    length: int
    options: Options
    product: Product | None
    together: bool = False
    whole: bool = False
    features: list[Feature] = field(default_factory=list)

    def extract(self, rng: np.random.RandomState, start: Start) -> Extraction:
        """Extract the directions.

        Parameters
        ----------
        rng : RandomState
            Chooses subsets and samples.
        start : dict
            PreparedRows of the hulls to start from, by (chain, order).

        Returns
        -------
        Extraction
            Fewer features than asked for if no direction is left for a chain, or if it was interrupted.
        """
        before, stopped = self.rows.n_evaluations, False
        if self.whole or self.length > 1:
            # further rounds use nearly every value again and again
            self.rows.fetch_all()
        for order in range(self.length):
            alive = [f.chain for f in self.features if f.order == order - 1] if order else range(len(self.hulls))
            for chains in [[chain] for chain in alive] if self.together else [list(alive)]:
                found = [] if stopped else self._solve(order, chains, rng, start)
                self.features += found
                stopped = stopped or any(f.solution.status == "interrupted" for f in found)
                for feature in found:
                    _report(self.options, feature, self.rows.n_evaluations - before)
        return Extraction(_in_order(self.features), self.rows.n_evaluations - before)

    def _solve(self, order: int, chains: list[int], rng: np.random.RandomState, start: Start) -> list[Feature]:
        """Return the next direction of some chains, if one is left."""
        problems = [(chain, self._deflated(chain)) for chain in chains]
        problems = [(chain, hull) for chain, hull in problems if not self._exhausted(hull)]
        if not problems:
            return []
        points = [self._begin(start.get((chain, order)), hull) for chain, hull in problems]

        def direct(solutions: list[Solution]) -> list[Feature]:
            return self._direct(order, problems, solutions)

        options = self.options
        if options.watcher is not None:
            options = replace(options, watcher=_Relay(options.watcher, self.features, direct))
        return direct(solve(self.rows, [hull for _, hull in problems], options, rng, points))

    def _earlier(self, chain: int) -> list[Feature]:
        return [f for f in self.features if self.together or f.chain == chain]

    def _deflated(self, chain: int) -> Hull:
        """Return a problem without the directions that its chain has so far."""
        earlier = self._earlier(chain)
        if not earlier:
            return self.hulls[chain]
        return self.hulls[chain].without(earlier)

    def _begin(self, point: Float | None, hull: Hull) -> Float:
        """Return the point to start from, or zero; weight at every pattern puts all of them into the core set."""
        point = np.zeros(len(hull.signs)) if point is None else point / point.sum()
        if not self.whole:
            return point
        even = np.full(len(hull.signs), 1.0 / len(hull.signs))
        return 0.99 * point + 0.01 * even if point.any() else even

    def _exhausted(self, hull: Hull) -> bool:
        """Tell whether deflation has left nothing but rounding."""
        diagonal = self.rows.diagonal
        floor = 1e3 * float(np.finfo(self.rows.dtype).eps) * float(np.abs(diagonal).max())
        return hull.directions is not None and not float(hull.diagonal(diagonal).max()) > floor

    def _direct(self, order: int, problems: list[tuple[int, Hull]], solutions: list[Solution]) -> list[Feature]:
        """Return the unit directions of some solutions, made orthogonal to earlier ones up to the last digit."""
        found = [self._normal(chain, order, hull, s) for (chain, hull), s in zip(problems, solutions, strict=True)]
        features = [feature for feature in found if feature is not None]
        products = self._products(features)
        return [f for f, product in zip(features, products, strict=True) if self._polish(f, product)]

    def _normal(self, chain: int, order: int, hull: Hull, solution: Solution) -> Feature | None:
        """Return the normal of a hyperplane at unit length, up to rounding; None where it vanishes."""
        raw = hull.signs * solution.alpha
        used = np.flatnonzero(raw)
        weights: Float = raw.copy()
        if np.isfinite(solution.gradient).all():
            values = hull.signs * (solution.gradient - hull.ridge * solution.alpha) - hull.offset * float(raw.sum())
        else:
            values = self.rows.times(used, raw[used, None])[:, 0]
            hull.deflate_product(values, None, used, raw[used])
        involved = raw != 0.0
        for feature in self._earlier(chain):
            weights[feature.rows] -= float(feature.values[used] @ raw[used]) * feature.coefficients
            involved[feature.rows] = True
        length = float(raw[used] @ values[used])
        # a sum that cancels further than this has no digits left to tell its direction
        largest = float(np.abs(hull.diagonal(self.rows.diagonal)).max())
        noise = float(np.finfo(np.float64).eps) * largest * float(raw @ raw)
        if not length > (1.0 if self.rows.kernel.name == "linear" else 1e7) * noise:
            return None
        where, unit, margin = np.flatnonzero(involved), np.sqrt(length), solution.gap.objective / np.sqrt(length)
        return Feature(chain, order, where, weights[where] / unit, values / unit, solution, margin)

    def _products(self, features: list[Feature]) -> list[Float]:
        """Return K times the coefficients of each feature at its own rows, with the most digits available."""
        if self.product is None:
            return [f.values[f.rows] for f in features]
        union = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(f.rows for f in features)]))
        if len(union) ** 2 > sum(len(f.rows) ** 2 for f in features):
            return [self.product(f.rows, f.coefficients[:, None])[:, 0] for f in features]
        weights = np.zeros((len(union), len(features)))
        places = [np.searchsorted(union, f.rows) for f in features]
        for column, (feature, place) in enumerate(zip(features, places, strict=True)):
            weights[place, column] = feature.coefficients
        products = self.product(union, weights)
        return [products[place, column] for column, place in enumerate(places)]

    def _polish(self, feature: Feature, product: Float) -> bool:
        """Subtract what is left of the earlier directions, and scale to length one; tell whether anything remains."""
        squared = float(feature.coefficients @ product)
        coefficients: Float = np.zeros(self.rows.n_samples)
        coefficients[feature.rows] = feature.coefficients
        at: Float = np.zeros(self.rows.n_samples)
        at[feature.rows] = product
        for other in self._earlier(feature.chain):
            cosine = float(other.coefficients @ at[other.rows])
            coefficients[other.rows] -= cosine * other.coefficients
            feature.values -= cosine * other.values
            squared -= cosine**2
        if not squared > 0.5:
            # most of it was rounding
            return False
        feature.rows = np.flatnonzero(coefficients)
        feature.coefficients = coefficients[feature.rows] / np.sqrt(squared)
        feature.values /= np.sqrt(squared)
        return True


class _Relay:
    """Passes the rounds of a solve on, with features in place of solutions."""

    def __init__(
        self, watcher: Watcher, features: list[Feature], direct: Callable[[list[Solution]], list[Feature]]
    ) -> None:
        self._watcher, self._features, self._direct = watcher, features, direct

    def begin(self) -> None:
        self._watcher.begin()

    def end(self, so_far: Callable[[], list[Solution]]) -> bool:
        return self._watcher.end(lambda: _in_order([*self._features, *self._direct(so_far())]))


def _in_order(features: list[Feature]) -> list[Feature]:
    return sorted(features, key=lambda f: (f.chain, f.order))


def _report(options: Options, feature: Feature, evaluations: int) -> None:
    if options.verbose:
        print(
            f"direction {feature.order + 1} of problem {feature.chain}: relative gap "
            f"{feature.solution.gap.relative:.3g}, {len(feature.rows)} rows, {evaluations:.3g} kernel evaluations",
            flush=True,
        )
