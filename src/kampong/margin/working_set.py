"""Working sets: the nearest-point problem when a large share of the patterns carries weight.

A core set then saves nothing: its kernel block is most of the matrix, and every pairwise step reads a row of it. Here
the margins of all patterns are kept up to date, in float64. Pairwise steps run on about a thousand patterns, and then
the rows of those that moved are added to the margins, so the gap at all patterns is known after every set without a
further product. Kernel rows come from the store that all problems share, in the type of the rows, and the store is all
the memory that grows with the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.compute import compiled, one_blas_thread, run, split
from kampong.margin import problem as problems_module
from kampong.margin.problem import Stopped
from kampong.margin.remote import RemoteRows
from kampong.margin.step_rules import pairwise

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kampong._core.compute import Float, Integer
    from kampong.margin.kernel_rows import KernelRows
    from kampong.margin.problem import Options, Problem

SIZE = 1024
"""Patterns of a working set: their kernel block of 4 MiB stays in the cache of a core."""
SHARE = 0.25
"""Core sets of a larger share of the patterns go over to working sets.

In units of one multiplication, m patterns in the core set of n cost about 6m steps of three passes over m values and
ten for each value of an m × m block, 28 m²; working sets update n margins for each of about 6m weights that move, 6mn.
Both compute about 2mn kernel values besides. They are equal at m = 6n/28.
"""


def is_crowded(problem: Problem, rows: KernelRows) -> bool:
    """Tell whether working sets cost less than the core set that a problem would have next."""
    if isinstance(rows, RemoteRows) or rows.n_samples <= max(SIZE, problems_module.SMALL):
        return False
    if problem.hull.hard:
        # many support vectors without squared slack mean that there is hardly a margin: steps on all notice it sooner
        return False
    if problem.options.criterion != "gap" or problem.options.selection != "furthest":
        return False
    return len(problem.core) + len(problem.wanted[0]) > SHARE * rows.n_samples


def solve_in_working_sets(
    rows: KernelRows, problems: list[Problem], options: Options, so_far: Callable[[], list[Any]]
) -> None:
    """Solve problems on all patterns of one level, and leave their weights, margins and gaps in them.

    Parameters
    ----------
    rows : KernelRows
        The kernel values, shared by all problems.
    problems : list of Problem
        Changed in place.
    options : Options
        How to solve.
    so_far : callable
        Returns the solutions if the solve ended now, for the watcher.
    """
    size = min(SIZE, rows.capacity)
    for problem in problems:
        _begin(problem, rows)
    pending, turn = [problem for problem in problems if not _finished(problem)], 0
    while pending:
        if options.watcher is not None:
            options.watcher.begin()
        together = max(1, rows.capacity // size)
        for first in range(0, len(pending), together):
            group = pending[first : first + together]
            chosen = [_choose(problem, rows, size) for problem in group]
            rows.fetch(np.concatenate(chosen))
            with one_blas_thread():
                run(_improve, list(zip(group, [rows] * len(group), chosen, strict=True)))
        pending, turn = [problem for problem in pending if not _finished(problem)], turn + 1
        if options.verbose:
            worst = max(problem.gap.relative for problem in problems)
            print(
                f"{rows.n_samples} patterns, working set {turn}: relative gap {worst:.3g}, {len(pending)} problems "
                f"open, {rows.n_evaluations:.3g} kernel evaluations",
                flush=True,
            )
        if options.watcher is not None and options.watcher.end(so_far):
            raise Stopped
    for problem in problems:
        _end(problem)


def _begin(problem: Problem, rows: KernelRows) -> None:
    """Take all patterns, and compute their margins if they are not known."""
    n = rows.n_samples
    alpha = np.zeros(n)
    alpha[problem.core] = problem.alpha
    known = problem.gradient is not None and np.array_equal(problem.looked_from, alpha)
    gradient: Float = np.zeros(n)
    if known:
        assert problem.gradient is not None
        gradient = problem.gradient
    else:
        support = np.flatnonzero(alpha)
        for start in range(0, len(support), rows.capacity):
            part = support[start : start + rows.capacity]
            rows.fetch(part)
            gradient = moved_gradient(problem, rows, gradient, part, alpha[part])
    _note(problem, np.arange(n), alpha, gradient)


def _note(problem: Problem, core: Integer, alpha: Float, gradient: Float) -> None:
    """Keep weights and margins, together, so that an interrupt finds them of one point."""
    problem.core, problem.alpha, problem.margins, problem.block, problem.part = core, alpha, gradient, None, None
    problem.gradient, problem.gap = gradient, problem.hull.gap(alpha, gradient)
    problem.wanted = np.zeros(0, dtype=np.int64), np.zeros(0)


def _end(problem: Problem) -> None:
    """Keep the patterns with weight as the core set."""
    problem.looked_from, kept = problem.alpha, np.flatnonzero(problem.alpha)
    problem.core, problem.alpha, problem.margins = kept, problem.alpha[kept], problem.margins[kept]


def _finished(problem: Problem) -> bool:
    if not problem.status and problem.gap.relative <= problem.options.tol:
        problem.status = "converged"
    return bool(problem.status)


def _choose(problem: Problem, rows: KernelRows, size: int) -> Integer:
    """Return the patterns of the next working set.

    Half of the last set stay: extreme patterns alone would make the solve swing for long. A quarter are the patterns
    that should gain or lose the most weight, so the pair that violates most is among them. The others violate most
    among those whose kernel rows are stored and cost nothing.
    """
    last = np.random.RandomState(problem.rounds).permutation(problem.last)[: size // 2]
    room = size - len(last)
    everywhere = np.ones(rows.n_samples, dtype=bool)
    first = _extremes(problem, everywhere, room // 2)
    stored = rows.slot_of >= 0
    stored[first] = stored[last] = False
    return np.unique(np.concatenate([last, first, _extremes(problem, stored, room - len(first))]))


def _extremes(problem: Problem, allowed: np.ndarray, count: int) -> Integer:
    """Return patterns of least margin that may gain weight and of largest margin that may lose it, of each group.

    Only those on the wrong side of the middle between both extremes: the others would hardly move, and each of them
    brings a kernel row. The pair that violates most is among them.
    """
    hull, alpha, margins = problem.hull, problem.alpha, problem.margins
    groups, few = hull.groups, max(1, count // (4 if hull.split else 2))
    chosen: list[Integer] = [np.zeros(0, dtype=np.int64)]
    for group in range(2 if hull.split else 1):
        members = groups == group if hull.split else np.ones(len(alpha), dtype=bool)
        gaining, losing = np.flatnonzero(members & (alpha < hull.cap)), np.flatnonzero(members & (alpha > 0))
        level = 0.5 * (margins[gaining].min(initial=np.inf) + margins[losing].max(initial=-np.inf))
        gaining, losing = gaining[margins[gaining] < level], losing[margins[losing] > level]
        gaining, losing = gaining[allowed[gaining]], losing[allowed[losing]]
        chosen += [_least(gaining, margins[gaining], few), _least(losing, -margins[losing], few)]
    return np.unique(np.concatenate(chosen))


def _least(where: Integer, values: Float, count: int) -> Integer:
    return where if len(where) <= count else where[np.argpartition(values, count - 1)[:count]]


def _improve(problem: Problem, rows: KernelRows, chosen: Integer) -> None:
    """Take pairwise steps on a working set, and bring the margins of all patterns up to date."""
    hull, whole, options = problem.hull.restrict(chosen), problem.hull, problem.options
    assert problem.gradient is not None
    block = whole.deflate(rows.square(chosen), chosen, chosen)
    before, margins, objective = problem.alpha[chosen], problem.gradient[chosen], problem.gap.objective
    alpha, groups, n_groups = before.copy(), hull.groups, 2 if hull.split else 1
    apart = max(
        float(margins[(groups == g) & (alpha > 0)].max(initial=-np.inf))
        - float(margins[(groups == g) & (alpha < hull.caps)].min(initial=np.inf))
        for g in range(n_groups)
    )
    # to solve a set far more exactly than the others stand is of no use: their steps undo it
    wanted = min(4 * len(chosen), options.max_steps - problem.steps)
    taken, _, objective = pairwise(
        block,
        hull.diagonal(rows.diagonal[chosen]),
        hull.signs,
        hull.offset,
        hull.ridges,
        groups,
        n_groups,
        hull.caps,
        alpha,
        margins,
        0.0,
        problem.floor,
        wanted,
        objective - float(before @ margins),
        0.25 * apart,
    )
    moved = np.flatnonzero(alpha != before)
    gradient = moved_gradient(problem, rows, problem.gradient, chosen[moved], (alpha - before)[moved])
    everything = problem.alpha.copy()
    everything[chosen] = alpha
    _note(problem, problem.core, everything, gradient)
    problem.steps, problem.rounds, problem.last = problem.steps + taken, problem.rounds + 1, chosen
    if objective <= problem.floor:
        problem.status = "indefinite"
    elif problem.steps >= options.max_steps and not problem.gap.relative <= options.tol:
        problem.status = "steps"
    elif not problem.gap.relative <= options.tol and not taken:
        # also if the gap is not a number, because kernel values overflow
        problem.status = "stalled"


def moved_gradient(problem: Problem, rows: KernelRows, gradient: Float, where: Integer, change: Float) -> Float:
    """Return the margins of all patterns after the weights at some of them, whose rows are stored, have changed."""
    hull, n = problem.hull, rows.n_samples
    weights, products = hull.signs[where] * change, np.empty(n)
    slots = rows.slot_of[where]
    strips = split(n, max(1, n * len(where) // 2**22))
    run(_add_rows, [(rows.store, slots, weights, products, start, stop) for start, stop in strips])
    hull.deflate_product(products, None, where, weights)
    moved: Float = gradient + hull.signs * (products + hull.offset * float(weights.sum()))
    moved[where] += hull.ridges[where] * change
    return moved


@compiled
def _add_rows(store: Float, slots: Integer, weights: Float, out: Float, start: int, stop: int) -> None:
    """Write Σ weights × stored rows, float64 sums, four rows at a time so that the sums are read less often."""
    width = 2048
    for left in range(start, stop, width):
        right = min(left + width, stop)
        total = out[left:right]
        total[:] = 0.0
        done = len(slots) - len(slots) % 4
        for w in range(0, done, 4):
            a, b = store[slots[w], left:right], store[slots[w + 1], left:right]
            c, d = store[slots[w + 2], left:right], store[slots[w + 3], left:right]
            e, f, g, h = weights[w], weights[w + 1], weights[w + 2], weights[w + 3]
            for j in range(right - left):
                total[j] += e * a[j] + f * b[j] + g * c[j] + h * d[j]
        for w in range(done, len(slots)):
            a, e = store[slots[w], left:right], weights[w]
            for j in range(right - left):
                total[j] += e * a[j]
