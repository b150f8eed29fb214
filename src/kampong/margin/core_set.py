"""Fully corrective core sets: solve the nearest-point problem on few patterns, check all, add the violators, repeat.

Several problems on the same rows are solved together, so that all of them use the same block of kernel values to find
violators. The inner problem is solved by pairwise steps from the last solution, on the kernel block of the core set
alone. Subsets (a sixteenth, a quarter, all) are solved first, and the next one starts from their support vectors. A
solve ends by the duality gap at all patterns, never by that of the core set only. A problem whose core set grows to a
large share of the patterns goes on in working sets.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kampong._core.compute import one_blas_thread, run
from kampong.margin.hull import Gap
from kampong.margin.kernel_rows import WIDE
from kampong.margin.problem import Options, Problem, Stopped, starts_whole
from kampong.margin.remote import RemoteRows
from kampong.margin.working_set import is_crowded, solve_in_working_sets

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Integer
    from kampong.margin.hull import Hull
    from kampong.margin.kernel_rows import KernelRows

SAMPLE = 59
"""The largest of 59 random values is among the upper 5 % with probability 0.95 (Tsang et al. 2006)."""


@dataclass
class Solution:
    """The answer to one problem.

    Attributes
    ----------
    alpha : array of shape (n_samples,)
        A point of the hull.
    gradient : array of shape (n_samples,)
        v · z at every pattern; infinite where an interrupt came before it was known.
    gap : Gap
        The certificate, from all patterns; not known after an interrupt.
    n_core : int
        The size of the core set.
    steps : int
        Pairwise steps taken.
    status : str
        "converged", "steps" (too many), "stalled" (rounding), "inseparable" (the origin is in the hull), "indefinite"
        (the kernel is no inner product), or "interrupted".
    """

    alpha: Float
    gradient: Float
    gap: Gap
    n_core: int
    steps: int
    status: str


def solve(
    rows: KernelRows,
    hulls: list[Hull],
    options: Options,
    rng: np.random.RandomState,
    start: list[Float] | None = None,
) -> list[Solution]:
    """Find the nearest point of each hull.

    Parameters
    ----------
    rows : KernelRows
        The kernel values, shared by all problems.
    hulls : list of Hull
        The problems.
    options : Options
        How to solve.
    rng : RandomState
        Chooses subsets, first patterns and samples.
    start : list of array of shape (n_samples,), optional
        Feasible points to start from; zeros where there is none.

    Returns
    -------
    list of Solution
        One a hull.
    """
    n = rows.n_samples
    problems = [Problem(hull, options) for hull in hulls]
    alphas = [np.zeros(n) for _ in hulls] if start is None else [np.array(a, dtype=np.float64) for a in start]
    for indices in _levels(n, hulls, options, rng, any(alpha.any() for alpha in alphas)):
        whole = len(indices) == n
        part = rows if whole else rows.subset(indices)
        pending = [p for p in range(len(problems)) if whole or not problems[p].hopeless]
        for p in pending:
            problems[p].enter(hulls[p].restrict(indices), alphas[p][indices], part, rng)

        def so_far(indices: Integer = indices, part: KernelRows = part, pending: list[int] = pending) -> list[Solution]:
            return [
                _stopped_here(problem, part, indices, n) if p in pending else _solution(problem, alphas[p], indices)
                for p, problem in enumerate(problems)
            ]

        try:
            _solve_level(part, [problems[p] for p in pending], options, rng, so_far)
        except (KeyboardInterrupt, Stopped):
            for p in pending:
                if not (whole and problems[p].status):
                    problems[p].interrupt(part)
        for p in pending:
            alphas[p] = np.zeros(n)
            alphas[p][indices[problems[p].core]] = problems[p].alpha
        if not whole:
            rows.n_evaluations += part.n_evaluations
        if any(problem.status == "interrupted" for problem in problems):
            break
    return [_solution(p, a, indices) for p, a in zip(problems, alphas, strict=True)]


def _solution(problem: Problem, alpha: Float, indices: Integer) -> Solution:
    """Return the answer; margins of patterns that were never looked at are infinite."""
    gradient: Float = np.full(len(alpha), math.inf)
    if problem.gradient is not None and len(problem.gradient) == len(indices):
        gradient[indices] = problem.gradient
    return Solution(alpha, gradient, problem.gap, len(problem.core), problem.steps, problem.status)


def _stopped_here(problem: Problem, rows: KernelRows, indices: Integer, n: int) -> Solution:
    """Return the solution of a problem if its solve ended now."""
    ended = copy.copy(problem)
    ended.interrupt(rows)
    alpha = np.zeros(n)
    alpha[indices[ended.core]] = ended.alpha
    return _solution(ended, alpha, indices)


def _levels(n: int, hulls: list[Hull], options: Options, rng: np.random.RandomState, warm: bool) -> list[Integer]:
    """Return nested subsets, the last one of all patterns, each with the same share of every combination of labels."""
    everything: Integer = np.arange(n)
    capped = any(hull.capped for hull in hulls)
    if starts_whole(n, options) or warm or capped or options.criterion == "meb" or options.selection == "sample":
        return [everything]
    kinds: Integer = np.zeros(n, dtype=np.int64)
    for hull in hulls:
        kinds = np.unique(2 * kinds + (hull.signs > 0), return_inverse=True)[1]
    order = rng.permutation(n)
    order = order[np.argsort(kinds[order], kind="stable")]
    sizes = np.bincount(kinds)
    rank = np.empty(n)
    rank[order] = (np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes)) / np.repeat(sizes, sizes)
    subsets: list[Integer] = [np.flatnonzero(rank < share) for share in (1 / 16, 1 / 4)]
    return [*subsets, everything]


def _solve_level(
    rows: KernelRows,
    problems: list[Problem],
    options: Options,
    rng: np.random.RandomState,
    so_far: Callable[[], list[Solution]],
) -> None:
    """Solve all problems on one set of patterns."""
    shared = None
    for problem in problems:
        if not problem.hull.deflated and len(problem.core) == rows.n_samples <= problem.block_size(rows):
            # read only, so all problems may look at the same block
            problem.block = shared = rows.block(problem.core, problem.core) if shared is None else shared
    crowded = [p for p in problems if p.crowded]
    pending, turn = [p for p in problems if not p.crowded], 0
    while pending:
        if options.watcher is not None:
            options.watcher.begin()
        # a sample is of no use while the margins of the core set itself are out of date
        sampled = options.selection == "sample" and turn > 0 and all(len(p.margins) for p in pending)
        growing = _sample(rows, [p for p in pending if not p.status], rng) if sampled else []
        rest = [p for p in pending if p not in growing]
        if rest:
            _certify(rows, rest)
            returned = [p for p in rest if p.fall_back()]
            if returned:
                _certify(rows, returned)
            growing += [p for p in rest if not _finished(p, rows, sampled) and _grow_all(p, rows)]
        for problem in growing:
            problem.crowded = is_crowded(problem, rows)
        crowded += [p for p in growing if p.crowded]
        growing = [p for p in growing if not p.crowded]
        _improve(growing, rows, options)
        pending, turn = growing, turn + 1
        _report(options, rows, problems, turn)
        if options.watcher is not None and options.watcher.end(so_far):
            raise Stopped
    if crowded:
        solve_in_working_sets(rows, crowded, options, so_far)


def _sample(rows: KernelRows, problems: list[Problem], rng: np.random.RandomState) -> list[Problem]:
    """Look at a sample of patterns; return the problems that found something to add there."""
    n_wanted = SAMPLE * max((p.batch() for p in problems), default=rows.n_samples)
    if n_wanted >= rows.n_samples:
        return []
    where = np.sort(rng.choice(rows.n_samples, n_wanted, replace=False))
    gradients = _look(rows, problems, where)
    return [p for p, gradient in zip(problems, gradients, strict=True) if _grow(p, gradient, where, rows)]


def _look(rows: KernelRows, problems: list[Problem], where: Integer | None) -> list[Float]:
    """Return the gradient of each problem at some patterns, or at all: one product serves every problem."""
    weights = np.zeros((rows.n_samples, len(problems)))
    for column, problem in enumerate(problems):
        weights[problem.core, column] = problem.hull.signs[problem.core] * problem.alpha
    used = np.flatnonzero(weights.any(axis=1))
    # late rounds change few weights: then an update of the last gradient costs less than a new one
    last = np.column_stack([p.hull.signs * p.looked_from for p in problems]) if _looked(problems, where) else None
    if last is not None:
        changed = np.flatnonzero((weights != last).any(axis=1))
        used, last = (changed, last) if len(changed) < len(used) else (used, None)
    difference = weights[used] if last is None else weights[used] - last[used]
    # the papers' rule adds one pattern a round, so every round needs the same rows
    keep = problems[0].options.criterion == "meb" or rows.width >= WIDE
    products = rows.times(used, difference, where, keep=keep)
    gradients: list[Float] = []
    for column, problem in enumerate(problems):
        hull = problem.hull if where is None else problem.hull.restrict(where)
        problem.hull.deflate_product(products[:, column], where, used, difference[:, column])
        alpha = problem.hull.signs * weights[:, column]
        before: Float | float = 0.0
        if last is not None:
            assert problem.gradient is not None
            alpha, before = alpha - problem.looked_from, problem.gradient
        bias = hull.offset * float(difference[:, column].sum())
        alpha = alpha if where is None else alpha[where]
        gradients.append(before + hull.signs * (products[:, column] + bias) + hull.ridge * alpha)
    return gradients


def _looked(problems: list[Problem], where: Integer | None) -> bool:
    """Tell whether all problems know their gradient at all patterns, from some earlier point."""
    return where is None and all(p.gradient is not None and len(p.looked_from) == len(p.gradient) for p in problems)


def _certify(rows: KernelRows, problems: list[Problem]) -> None:
    """Compute the gradient at all patterns and the gap."""
    small = [p for p in problems if p.block is not None and len(p.core) == rows.n_samples]
    for block in {id(p.block): p.block for p in small}.values():
        assert block is not None
        users = [p for p in small if p.block is block]
        weights = np.column_stack([p.hull.signs[p.core] * p.alpha for p in users]).astype(block.dtype)
        with one_blas_thread():
            products = block @ weights
        for column, problem in enumerate(users):
            hull, problem.gradient = problem.hull.restrict(problem.core), np.empty(rows.n_samples)
            problem.gradient[problem.core] = hull.gradient(products[:, column], problem.alpha)
    large = [p for p in problems if p not in small]
    if large and isinstance(rows, RemoteRows):
        _certify_elsewhere(rows, large)
        problems, large = small, []
    if large:
        for problem, gradient in zip(large, _look(rows, large, None), strict=True):
            problem.gradient = gradient
    for problem in problems:
        assert problem.gradient is not None
        full = np.zeros(rows.n_samples)
        full[problem.core] = problem.alpha
        problem.looked_from = full
        problem.gap = problem.hull.gap(full, problem.gradient)
        problem.margins = problem.gradient[problem.core]
        if problem.hull.hard and problem.gap.objective > problem.floor:
            problem.remember(problem.hull, full, problem.gradient)


def _certify_elsewhere(rows: RemoteRows, problems: list[Problem]) -> None:
    """Ask those who hold the rows for the gap, the margins of the core set, and the worst patterns."""
    for problem, sight in zip(problems, rows.look(problems), strict=True):
        problem.gradient, problem.margins = None, sight.margins
        problem.gap = Gap(float(problem.alpha @ sight.margins), sight.least)
        problem.candidates = sight.worst, sight.gradients


def _finished(problem: Problem, rows: KernelRows, sampled: bool) -> bool:
    """Tell whether a problem is solved; with the ball test of the papers a sample without violators is enough."""
    reached = problem.reached(problem.gradient, rows.diagonal) or (sampled and problem.options.criterion == "meb")
    if reached and not problem.status:
        problem.status = "converged"
    return bool(problem.status)


def _grow(problem: Problem, gradient: Float, where: Integer, rows: KernelRows) -> bool:
    """Add the worst patterns of a sample, if any violates."""
    problem.gap = Gap(float(problem.alpha @ problem.margins), float(gradient.min()))
    if problem.reached(gradient, rows.diagonal):
        return False
    found = problem.violators(gradient, where, problem.batch())
    if len(found):
        problem.want(where[found], gradient[found])
    return len(found) > 0


def _grow_all(problem: Problem, rows: KernelRows) -> bool:
    """Add the worst of all patterns; if none is left, solve the inner problem more exactly."""
    if problem.gradient is not None:
        where: Integer = np.arange(rows.n_samples)
        gradient = problem.gradient
    else:
        assert problem.candidates is not None
        where, gradient = problem.candidates
    added = problem.violators(gradient, where, problem.batch())
    if not len(added) and problem.steps and not (problem.part is not None and problem.moved):
        problem.inner_tol *= 0.25
        if problem.inner_tol < 1e-3 * problem.options.tol:
            problem.status = "stalled"
            return False
    problem.want(where[added], gradient[added])
    return True


def _improve(problems: list[Problem], rows: KernelRows, options: Options) -> None:
    """Extend the core sets and solve on them, on all cores; forget kernel blocks that would not fit together."""
    _plan_blocks(problems, rows, options)
    if problems:
        rows.bring(np.concatenate([part for problem in problems for part in (problem.core, problem.wanted[0])]))
    if rows.kernel.name == "callable":
        # a caller's function may not be safe in threads
        for problem in problems:
            problem.work(rows)
        return
    with one_blas_thread():
        run(Problem.work, [(problem, rows) for problem in problems])


def _plan_blocks(problems: list[Problem], rows: KernelRows, options: Options) -> None:
    """Say which kernel blocks to keep after this round; one that several problems share counts once."""
    total, seen = 0, set()
    for problem in problems:
        if problem.block is None or id(problem.block) not in seen or len(problem.wanted[0]):
            size = min(len(problem.core) + len(problem.wanted[0]), problem.block_size(rows))
            total += rows.dtype.itemsize * size**2
        seen.add(id(problem.block))
        problem.keep_block = total <= options.block_bytes


def _report(options: Options, rows: KernelRows, problems: list[Problem], turn: int) -> None:
    if not options.verbose:
        return
    worst = max(p.gap.relative for p in problems)
    core = max(len(p.core) for p in problems)
    print(
        f"{rows.n_samples} patterns, round {turn}: relative gap {worst:.3g}, core set {core}, "
        f"{sum(not p.status for p in problems)} problems open, {rows.n_evaluations:.3g} kernel evaluations",
        flush=True,
    )
