"""What a solver returns and what it says of itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kampong._core.compute import fix_signs

if TYPE_CHECKING:
    from kampong._core.compute import Float
    from kampong.criteria import Criterion, Directions
    from kampong.statistics.means import ClassMeans


@dataclass(frozen=True)
class Subspace:
    """The directions that maximise a criterion, best first.

    Attributes
    ----------
    components : array of shape (p, d)
        One direction per row: orthonormal for a margin criterion; with wᵀ(S_w + ρI)w = 1 for Fisher's.
    eigenvalues : array of shape (p,)
        What each direction adds to the criterion.
    total : float
        The sum of all positive eigenvalues, kept or not.
    n_positive : int
        How many directions raise the criterion.
    solver : str
        Who found them.
    n_dropped : int
        Directions left out because S_w vanishes there (Fisher's criterion without a ridge only).
    n_steps : int
        Products with S_w taken by an iterative solver.
    within : array of shape (p, p) or None
        W S_w Wᵀ, where the solver knows it without another product.
    """

    components: Float
    eigenvalues: Float
    total: float
    n_positive: int
    solver: str
    n_dropped: int = 0
    n_steps: int = 0
    within: Float | None = None

    @classmethod
    def of(
        cls, found: Directions, components: Float, solver: str, n_steps: int = 0, within: Float | None = None
    ) -> Subspace:
        """Return what was found in a small space, its directions given in the space of the rows."""
        signed = fix_signs(components)
        if within is not None:
            signs = np.where(np.einsum("pd,pd->p", signed, components) < 0, -1.0, 1.0)
            within = signs[:, None] * within * signs
        return cls(signed, found.values, found.total, found.n_positive, solver, found.n_dropped, n_steps, within)

    def turned(self, signs: Float) -> Subspace:
        """Return the same directions, each times its sign."""
        within = None if self.within is None else signs[:, None] * self.within * signs
        return replace(self, components=self.components * signs[:, None], within=within)


@dataclass(frozen=True)
class Krylov:
    """An orthonormal basis of the Krylov space, and both scatters inside it.

    Attributes
    ----------
    basis : array of shape (q, d)
        Orthonormal rows, a block a step.
    within : array of shape (q, q)
        S_w inside the space.
    factor : array of shape (K, q)
        Φ with S_b = ΦᵀΦ inside the space.
    most : int
        In how many directions class means differ.
    n_steps : int
        Products with S_w taken.
    """

    basis: Float
    within: Float
    factor: Float
    most: int
    n_steps: int


class Solver(Protocol):
    """A name, the statistics it needs, what it cannot do, and how it does the rest: a module, or a subclass of this."""

    NAME: str
    REASON: str = "it was asked for"
    """Why its result is what it is; may name {width} and {steps}."""

    @property
    def STATISTICS(self) -> type[ClassMeans]:
        """The least that must be remembered of the data."""

    def most(self, criterion: Criterion, statistics: ClassMeans) -> int:
        """Return how many directions it can find."""
        return criterion.most_directions(classes_seen(statistics), statistics.n_features)

    def refuse(self, criterion: Criterion, statistics: ClassMeans, n_components: int | None) -> str | None:
        """Say why this pair cannot be served and who can, or return None."""
        return None

    def solve(
        self, criterion: Criterion, statistics: ClassMeans, n_components: int | None, space: Krylov | None = None
    ) -> Subspace:
        """Return the best directions."""


def classes_seen(statistics: ClassMeans) -> int:
    """Return the number of classes of positive weight."""
    return int(np.count_nonzero(statistics.counts))


def between_directions(statistics: ClassMeans) -> int:
    """Return in how many directions the class means can differ."""
    return min(classes_seen(statistics) - 1, statistics.n_features)


def worth_of(criterion: Criterion, components: Float, statistics: ClassMeans) -> float:
    """Return what a criterion is worth in a subspace, on statistics that may be others than it was found on."""
    columns = np.ascontiguousarray(components.T)
    within = np.zeros((len(components), len(components)))
    if criterion.needs_within:
        within = components @ statistics.within_times(columns)
    return criterion.worth(statistics.between_factor() @ columns, within, components @ columns)
