"""Directions of any criterion at any width, through products of S_w with blocks of few columns.

Fisher's directions span (S_w + ρI)⁻¹Φᵀ, and by the identity in `criterion.py` so do the margin's, each at its own ρ.
All of these lie, to any accuracy, in the block Krylov space of S_w started at the class means,

    span{Φᵀ, S_wΦᵀ, S_w²Φᵀ, …},

which does not depend on ρ or ε. So the space is built once, by block Lanczos steps with full orthogonalisation, and the
criterion is maximised inside it: every ρ and ε at once, one pass over the rows a step. A diagonal preconditioner D, the
variances of the features, takes the place of the identity: span{D⁻¹Φᵀ, D⁻¹S_w D⁻¹Φᵀ, …}. Few steps act as a ridge
of their own. `Subspace.n_steps` says how many were taken.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from kampong._core.compute import PARTS, one_blas_thread, run, split, transposed
from kampong.solvers import gram
from kampong.solvers.solver import Krylov, Subspace, between_directions
from kampong.statistics.all_rows import ClassRows

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float
    from kampong.criteria import Criterion
    from kampong.statistics import ClassMeans

NAME = "resolvent"
REASON = "{width}; the rows were in memory: products with them, {steps} steps"
STATISTICS = ClassRows
STEPS = 3
"""Products with S_w where a parameter is chosen too: a fixed number, so that no last bit decides it."""

TOLERANCE, MOST_STEPS = 1e-3, 30
"""For a given parameter steps end when one more raises the criterion by a smaller part, and at the latest here."""

LEVEL = 3.0
"""Parts of the usual ridge, tr S_w over the weight of the rows, in the preconditioner."""

SMALLEST = 1e-7
"""A direction is new where its length is more than this part of the longest product: shorter ones are rounding."""

BASIS_BYTES = 2**30
"""The most memory for the basis: a block of d × (K − 1) numbers a step. Fewer steps are taken where it is reached."""

PRODUCT_BYTES, FEWEST = 2**21, 16
"""Bytes of the rows that are multiplied with S_w together, and the fewest rows that are."""


def most(criterion: Criterion, statistics: ClassMeans) -> int:
    """Return how many directions the Krylov space shows: those in which class means can differ."""
    return between_directions(statistics) if criterion.needs_within else gram.most(criterion, statistics)


def refuse(criterion: Criterion, statistics: ClassMeans, n_components: int | None) -> str | None:
    """Say why this pair cannot be served and who can, or return None."""
    if not statistics.holds_within:
        return (
            f"needs rows in memory (fit) or a scatter, and these statistics are {type(statistics).__name__}: "
            "collect ClassRows or ClassScatter, or use epsilon=0, which solver='gram' solves from class means"
        )
    limit = most(criterion, statistics)
    if n_components is not None and n_components > limit:
        return (
            f"finds at most {limit} directions for {statistics.classes_seen} classes and {statistics.n_features} "
            f"features, and n_components is {n_components}: ask for fewer, or use solver='scatter' up to its width"
        )
    return None


def solve(
    criterion: Criterion, statistics: ClassMeans, n_components: int | None, space: Krylov | None = None
) -> Subspace:
    """Return the leading directions of a criterion.

    Parameters
    ----------
    criterion : Criterion
        Any.
    statistics : ClassRows or ClassScatter
        At least two classes.
    n_components : int or None
        None keeps every direction that raises the criterion.
    space : Krylov, optional
        Where to look, if it has been built before.

    Returns
    -------
    Subspace
        Orthonormal rows (margin), or rows with wᵀ(S_w + ρI)w = 1 (Fisher).
    """
    if not criterion.needs_within:
        return replace(gram.solve(criterion, statistics, n_components), solver=NAME)
    if space is None:
        space = build(statistics, MOST_STEPS, lambda grown: best_value(grown, criterion))
    return inside(space, criterion, n_components)


def build(
    statistics: ClassMeans,
    steps: int = STEPS,
    value: Callable[[Krylov], float] | None = None,
    tolerance: float = TOLERANCE,
) -> Krylov:
    """Return the Krylov space of this many steps: fewer where it is complete before, or its memory is used up.

    With `value` steps end too when one more raises it by less than a `tolerance` of it. The space is then the plain
    one, without a preconditioner, in which a criterion rises from the first step on.
    """
    factor, d = statistics.between_factor(), statistics.n_features
    scale = _scale(statistics) if value is None else np.ones(d)
    block = _orthonormal(factor / scale, np.empty((0, d)))
    if not len(block):  # class means coincide: any direction is as good, and one must be there to be said so
        block = np.eye(1, d, int(np.argmax(statistics.within_variances())))
    most = len(block)
    limit = min(steps, int(max(2, BASIS_BYTES // (8 * most * d))))
    room, within, last = np.empty((min(limit, 8) * most, d)), np.empty((0, 0)), -np.inf
    step = 0
    for step in range(1, limit + 1):
        product = _within(statistics, block)
        old, size = len(within), len(within) + len(block)
        if size > len(room):
            room = np.concatenate([room, np.empty_like(room)])
        room[old:size] = block
        del block
        with one_blas_thread():
            column = _inner(room[:size], product)
        grown = np.empty((size, size))
        grown[:old, :old], grown[:, old:], grown[old:, :old] = within, column, column[:old].T
        within = (grown + grown.T) / 2
        if value is not None:
            basis = room[:size]
            now = value(Krylov(basis, within, factor @ basis.T, between_directions(statistics), step))
            if now - last <= tolerance * abs(now):
                break
            last = now
        if step == limit:
            break
        product /= scale
        block = _orthonormal(product, room[:size])
        del product
        if not len(block):
            break
    basis = room[: len(within)]
    with one_blas_thread():
        inside = _inner(factor, basis)
    return Krylov(basis, within, inside, between_directions(statistics), step)


def whole(statistics: ClassMeans) -> Krylov:
    """Return the space of all directions, as a Krylov space that needed no steps."""
    basis = np.eye(statistics.n_features)
    within = statistics.within_times(basis)
    return Krylov(basis, within, statistics.between_factor(), between_directions(statistics), 0)


def inside(space: Krylov, criterion: Criterion, n_components: int | None) -> Subspace:
    """Return the directions that maximise a criterion inside a Krylov space."""
    wanted = None if n_components is None else min(n_components, len(space.within))
    found = criterion.solve_small(space.factor, space.within.copy(), wanted, space.most)
    within = found.vectors.T @ space.within @ found.vectors
    with one_blas_thread():
        components = _combine(found.vectors.T, space.basis)
    return Subspace.of(found, components, NAME, space.n_steps, within)


def best_value(space: Krylov, criterion: Criterion) -> float:
    """Return the largest value that a criterion takes inside a space: the sum of its positive eigenvalues."""
    found = criterion.solve_small(space.factor, space.within.copy(), None, space.most)
    return found.total or float(found.values[0])


def _scale(statistics: ClassMeans) -> Float:
    """Return the preconditioner: the within-class variance of each feature, and a few parts of the usual ridge.

    With it three steps do what a dozen do without, because features of text differ in their variance by orders of
    magnitude.
    """
    usual = statistics.within_trace / statistics.effective_rows
    scale: Float = statistics.within_variances() + LEVEL * max(usual, np.finfo(float).tiny)
    return scale


def _within(statistics: ClassMeans, block: Float) -> Float:
    """Return S_w times the rows of a block, as rows: some at a time, as each takes the room of four meanwhile."""
    product, step = np.empty_like(block), max(PRODUCT_BYTES // (8 * block.shape[1]), FEWEST)
    for start in range(0, len(block), step):
        columns = transposed(block[start : start + step])
        product[start : start + step] = transposed(np.ascontiguousarray(statistics.within_times(columns)))
    return product


def _orthonormal(rows: Float, basis: Float) -> Float:
    """Return what is new in rows, which are changed, as orthonormal rows; directions that are not new are left out."""
    with one_blas_thread():
        size = np.einsum("md,md->m", rows, rows).max()
        # Twice: products of rows lose half of the digits, and the second time they are nearly orthonormal already.
        for least in (SMALLEST**2 * size, 0.25):
            if not len(rows):  # older versions of LAPACK's wrapper refuse an empty matrix
                break
            _subtract(rows, basis)
            values, vectors = linalg.eigh(_inner(rows, rows), check_finite=False)
            new = values > least
            rows = _combine((vectors[:, new] / np.sqrt(values[new])).T, rows)
    return rows


def _combine(weights: Float, rows: Float) -> Float:
    """Return weights @ rows, a part of the columns a thread."""
    out = np.empty((len(weights), rows.shape[1]))

    def work(start: int, stop: int) -> None:
        np.matmul(weights, rows[:, start:stop], out=out[:, start:stop])

    run(work, split(rows.shape[1], PARTS))
    return out


def _subtract(rows: Float, basis: Float) -> None:
    """Take from rows, in place, what lies in the span of an orthonormal basis."""
    coefficients = _inner(basis, rows).T

    def work(start: int, stop: int) -> None:
        rows[:, start:stop] -= coefficients @ basis[:, start:stop]

    run(work, split(rows.shape[1], PARTS))


def _inner(basis: Float, rows: Float) -> Float:
    """Return basis @ rows.T, a part of the columns a thread; BLAS is held to one thread by the caller."""
    parts = split(rows.shape[1], PARTS)
    sums = np.empty((len(parts), len(basis), len(rows)))

    def work(number: int, start: int, stop: int) -> None:
        np.matmul(basis[:, start:stop], rows[:, start:stop].T, out=sums[number])

    run(work, [(number, *part) for number, part in enumerate(parts)])
    total: Float = sums.sum(axis=0)
    return total
