"""From statistics to directions: what a solver is and returns, and `solve`, which finds one for a criterion by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kampong._core.compute import fix_signs
from kampong._core.registries import enter
from kampong.statistics.scatter import WIDEST

if TYPE_CHECKING:
    from kampong._core.compute import Float
    from kampong.criteria import Criterion, Directions
    from kampong.statistics.means import ClassMeans


SOLVERS: dict[str, Solver] = {}
"""All solvers by name, in the order in which "auto" tries them; `kampong.solvers` enters those of the library."""


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
        return criterion.most_directions(statistics.classes_seen, statistics.n_features)

    def refuse(self, criterion: Criterion, statistics: ClassMeans, n_components: int | None) -> str | None:
        """Say why this pair cannot be served and who can, or return None."""
        return None

    def solve(
        self, criterion: Criterion, statistics: ClassMeans, n_components: int | None, space: Krylov | None = None
    ) -> Subspace:
        """Return the best directions."""


def classes_seen(statistics: ClassMeans) -> int:
    """Return the number of classes of positive weight."""
    return statistics.classes_seen


def between_directions(statistics: ClassMeans) -> int:
    """Return in how many directions the class means can differ."""
    return min(statistics.classes_seen - 1, statistics.n_features)


def worth_of(criterion: Criterion, components: Float, statistics: ClassMeans) -> float:
    """Return what a criterion is worth in a subspace, on statistics that may be others than it was found on."""
    columns = np.ascontiguousarray(components.T)
    within = np.zeros((len(components), len(components)))
    if criterion.needs_within:
        within = components @ statistics.within_times(columns)
    return criterion.worth(statistics.between_factor() @ columns, within, components @ columns)


def register(solver: Solver) -> None:
    """Add a solver, so that `solver=` of every subspace estimator knows its name.

    Parameters
    ----------
    solver : Solver
        An object of a subclass of `Solver`, or a module with the same names. Its name must be free.
    """
    enter(SOLVERS, "a solver", solver.NAME, solver, ("auto",))


def solver_for(criterion: Criterion, n_features: int, solver: str = "auto", *, in_memory: bool = False) -> Solver:
    """Return the solver for a criterion at a width, before any data is summarised.

    Parameters
    ----------
    criterion : Criterion
        What will be maximised.
    n_features : int
        The width of the rows.
    solver : str
        A name in `SOLVERS`, or "auto".
    in_memory : bool
        Whether all rows are at hand, or come as a stream.

    Returns
    -------
    Solver
        Its `STATISTICS` are what must be collected.
    """
    if solver != "auto" and solver not in SOLVERS:
        raise ValueError(f"solver must be 'auto' or one of {sorted(SOLVERS)}, got {solver!r}.")
    narrow = n_features <= WIDEST
    name = solver
    if solver == "auto":
        wide = "resolvent" if in_memory else "reservoir"
        name = "gram" if not criterion.needs_within else "scatter" if narrow else wide
    if name == "resolvent" and not in_memory:
        raise ValueError(
            "solver='resolvent' needs all rows at hand, and a stream passes them by: use fit, or solver='reservoir', "
            "which keeps a sample of them."
        )
    if name == "scatter" and not narrow:
        raise ValueError(
            f"solver='scatter' would keep a {n_features} × {n_features} matrix ({8 * n_features**2 / 2**30:.1f} GiB); "
            f"its limit is {WIDEST} features. Use solver='auto', which takes products with the rows in fit "
            "and a sample of the rows in partial_fit, or epsilon=0 (InterClassScatter), which needs class means only."
        )
    return SOLVERS[name]


def most_directions(criterion: Criterion, statistics: ClassMeans, solver: str = "auto") -> int:
    """Return how many directions can be found in the present state of the statistics.

    Parameters
    ----------
    criterion : Criterion
        What is maximised.
    statistics : ClassMeans
        What is known of the data, of at least two classes.
    solver : str
        A name in `SOLVERS`, or "auto".

    Returns
    -------
    int
        The most that a solver which can serve the pair finds; 0 where none can.
    """
    names = SOLVERS if solver == "auto" else [solver]
    served = [SOLVERS[name] for name in names if SOLVERS[name].refuse(criterion, statistics, None) is None]
    return max((one.most(criterion, statistics) for one in served), default=0)


def solve(
    criterion: Criterion,
    statistics: ClassMeans,
    n_components: int | None = None,
    *,
    solver: str = "auto",
    space: Krylov | None = None,
) -> Subspace:
    """Return the directions that maximise a criterion, best first.

    Parameters
    ----------
    criterion : Criterion
        What to maximise: MarginCriterion, FisherCriterion, or one of your own.
    statistics : ClassMeans or ClassScatter
        What is known of the data.
    n_components : int or None
        How many directions; None keeps those that raise the criterion.
    solver : str
        A name in `SOLVERS`, or "auto": the first that can serve the request.
    space : Krylov, optional
        The space in which an iterative solver looks, where it has been built before.

    Returns
    -------
    Subspace
        The directions and their eigenvalues.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kampong.criteria import MarginCriterion
    >>> from kampong.statistics import ClassScatter
    >>> X, y = load_iris(return_X_y=True)
    >>> solve(MarginCriterion.maximum_margin(), ClassScatter(4).update(X, y)).eigenvalues.round(4)
    array([3.6435])
    """
    seen = statistics.classes_seen
    if seen < 2:
        raise ValueError(
            f"directions that tell classes apart need at least 2 classes; the data has {seen} class(es) of positive "
            f"weight: {statistics.classes[statistics.counts > 0].tolist()}."
        )
    if n_components is not None and n_components < 1:
        raise ValueError(f"n_components must be at least 1, got {n_components}.")
    if solver != "auto" and solver not in SOLVERS:
        raise ValueError(f"solver must be 'auto' or one of {sorted(SOLVERS)}, got {solver!r}.")
    reasons = {}
    from_means = solver == "auto" and not criterion.needs_within
    for name in ("gram", *SOLVERS) if from_means else SOLVERS if solver == "auto" else [solver]:
        reason = SOLVERS[name].refuse(criterion, statistics, n_components)
        if reason is None:
            return SOLVERS[name].solve(criterion, statistics, n_components, space)
        reasons[name] = f"solver={name!r} {reason}."
    if solver == "auto":  # the word of the one that would have been first choice
        rows = statistics.holds_within and not statistics.holds_scatter
        solver = "gram" if not criterion.needs_within else "resolvent" if rows else "scatter"
    raise ValueError(reasons[solver])
