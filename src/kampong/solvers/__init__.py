"""From statistics to directions: `solve(criterion, statistics, n_components)`, one file a solver, one registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kampong._core.registries import enter
from kampong.solvers import gram, reservoir_solver, resolvent, scatter_solver
from kampong.solvers.result import Solver, Subspace, classes_seen, worth_of
from kampong.statistics.scatter import WIDEST

if TYPE_CHECKING:
    from kampong.criteria import Criterion
    from kampong.solvers.result import Krylov
    from kampong.statistics import ClassMeans

__all__ = [
    "SOLVERS",
    "Solver",
    "Subspace",
    "classes_seen",
    "most_directions",
    "register",
    "solve",
    "solver_for",
    "worth_of",
]

SOLVERS: dict[str, Solver] = {solver.NAME: solver for solver in (scatter_solver, reservoir_solver, resolvent, gram)}
"""All solvers by name, in the order in which "auto" tries them."""


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
        wide = resolvent.NAME if in_memory else reservoir_solver.NAME
        name = gram.NAME if not criterion.needs_within else scatter_solver.NAME if narrow else wide
    if name == resolvent.NAME and not in_memory:
        raise ValueError(
            "solver='resolvent' needs all rows at hand, and a stream passes them by: use fit, or solver='reservoir', "
            "which keeps a sample of them."
        )
    if name == scatter_solver.NAME and not narrow:
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
    seen = classes_seen(statistics)
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
    for name in (gram.NAME, *SOLVERS) if from_means else SOLVERS if solver == "auto" else [solver]:
        reason = SOLVERS[name].refuse(criterion, statistics, n_components)
        if reason is None:
            return SOLVERS[name].solve(criterion, statistics, n_components, space)
        reasons[name] = f"solver={name!r} {reason}."
    if solver == "auto":  # the word of the one that would have been first choice
        rows = statistics.holds_within and not statistics.holds_scatter
        solver = gram.NAME if not criterion.needs_within else resolvent.NAME if rows else scatter_solver.NAME
    raise ValueError(reasons[solver])
