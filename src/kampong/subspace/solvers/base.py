"""What a solver returns and what it says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kampong.subspace.criteria import MarginCriterion

if TYPE_CHECKING:
    from kampong._runtime.arrays import Float
    from kampong.statistics import ClassMeans
    from kampong.subspace.criteria import Criterion


@dataclass(frozen=True)
class Subspace:
    """The directions that maximise a criterion, best first.

    Attributes
    ----------
    components : array of shape (p, d)
        One direction a row: orthonormal for a margin criterion; with wᵀ(S_w + ρI)w = 1 for Fisher's.
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
    """

    components: Float
    eigenvalues: Float
    total: float
    n_positive: int
    solver: str
    n_dropped: int = 0
    n_steps: int = 0


@dataclass(frozen=True)
class Krylov:
    """An orthonormal basis of the Krylov space, and both scatters inside it.

    Attributes
    ----------
    basis : array of shape (q, d)
        Orthonormal rows, a block a step.
    within : array of shape (q, q)
        S_w inside the space.
    between : array of shape (r,)
        S_b inside the space is diagonal, and zero but for its first r entries, these.
    n_steps : int
        Products with S_w taken.
    """

    basis: Float
    within: Float
    between: Float
    n_steps: int


class Solver(Protocol):
    """One file in this folder: a name, the statistics it needs, what it cannot do, and how it does the rest."""

    NAME: str

    @property
    def STATISTICS(self) -> type[ClassMeans]:
        """The least that must be remembered of the data."""

    def refuse(self, criterion: Criterion, statistics: ClassMeans, n_components: int | None) -> str | None:
        """Say why this pair cannot be served and who can, or return None."""

    def solve(
        self, criterion: Criterion, statistics: ClassMeans, n_components: int | None, space: Krylov | None = None
    ) -> Subspace:
        """Return the best directions."""


def classes_seen(statistics: ClassMeans) -> int:
    """Return the number of classes of positive weight."""
    return int(np.count_nonzero(statistics.counts))


def keep(n_components: int | None, n_positive: int) -> int:
    """Return how many directions to keep: those asked for, or all that raise the criterion, and one at least."""
    return max(n_positive, 1) if n_components is None else n_components


def value_of(criterion: Criterion, components: Float, statistics: ClassMeans) -> float:
    """Return what a criterion is worth in a subspace, on statistics that may be others than it was found on.

    Margin: tr W(S_b − ε S_w)Wᵀ for orthonormal W. Fisher: tr (W(S_w + ρI)Wᵀ)⁻¹(W S_b Wᵀ) for any W.
    """
    between = statistics.between_factor() @ components.T
    columns = np.ascontiguousarray(components.T)
    if isinstance(criterion, MarginCriterion):
        value = float(np.einsum("kp,kp->", between, between))
        if criterion.epsilon > 0:
            value -= criterion.epsilon * float(np.sum(columns * statistics.within_times(columns)))
        return value
    within = components @ statistics.within_times(columns) + criterion.ridge * components @ components.T
    return float(np.trace(np.linalg.solve(within, between.T @ between)))
