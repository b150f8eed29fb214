"""From statistics to directions: `solve(criterion, statistics, n_components)`, one file a solver, one registry."""

from kampong.solvers import gram, reservoir_solver, resolvent, scatter_solver
from kampong.solvers.solver import (
    SOLVERS,
    Solver,
    Subspace,
    classes_seen,
    most_directions,
    register,
    solve,
    solver_for,
    worth_of,
)

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

for _solver in (scatter_solver, reservoir_solver, resolvent, gram):
    register(_solver)
