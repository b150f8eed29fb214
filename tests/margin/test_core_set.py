"""Core sets against exact nearest points; certificates, subsets, samples, budgets and interrupts."""

import functools
import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import reference_margin as reference
from kampong.kernels.functions import Kernel
from kampong.margin import CoreVectorClassifier
from kampong.margin import problem as problem_module
from kampong.margin.core_set import solve
from kampong.margin.hull import Hull
from kampong.margin.kernel_rows import KernelRows
from kampong.margin.problem import Options


def problem(seed=0, n=300, C=10.0):
    """Return overlapping clouds of three classes: rows, hulls of squared slack, and their Gram matrices."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    X = rng.normal(size=(n, 3)) + 1.5 * np.eye(3)[labels]
    hulls = [Hull(np.where(labels == k, 1.0, -1.0), offset=1.0, ridge=1 / C) for k in range(3)]
    K = np.exp(-0.2 * cdist(X, X, "sqeuclidean"))
    return X, hulls, [np.outer(h.signs, h.signs) * (K + 1) + np.eye(n) / C for h in hulls]


@functools.cache
def exact(seed=0):
    """Return the nearest points of those hulls: exact, and slow enough to be computed once."""
    return [reference.nearest(Q) for Q in problem(seed)[2]]


def rows_of(X, dtype=np.float64):
    return KernelRows(Kernel("rbf", gamma=0.2), X.astype(dtype))


@pytest.fixture
def tiny_start(monkeypatch):
    """Make subsets, small core sets and many rounds happen on small data."""
    monkeypatch.setattr(problem_module, "SMALL", 16)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("selection", ["furthest", "sample"])
@pytest.mark.parametrize("tol", [0.1, 1e-2, 1e-6])
def test_objective_is_within_the_gap_of_the_exact_one(monkeypatch, seed, small, selection, tol):
    if small:
        monkeypatch.setattr(problem_module, "SMALL", 16)
    X, hulls, grams = problem(seed)
    found = solve(rows_of(X), hulls, Options(tol, selection=selection), np.random.RandomState(0))
    for solution, hull, Q, best in zip(found, hulls, grams, exact(seed), strict=True):
        least = best @ Q @ best
        assert solution.status == "converged"
        assert solution.alpha.sum() == pytest.approx(1.0)
        assert solution.alpha.min() >= 0
        # the certificate is that of the point returned, at all patterns
        np.testing.assert_allclose(solution.gradient, Q @ solution.alpha, rtol=1e-8, atol=1e-12)
        again = hull.gap(solution.alpha, Q @ solution.alpha)
        assert solution.gap.relative == pytest.approx(again.relative, abs=1e-9)
        assert solution.gap.relative <= tol
        assert least * (1 - 1e-9) <= solution.gap.objective <= least / (1 - tol) ** 2 * (1 + 1e-9)
        if tol < 1e-5:
            np.testing.assert_allclose(solution.alpha, best, atol=1e-5)


@pytest.mark.usefixtures("tiny_start")
def test_capped_and_split_hulls():
    X, hulls, _ = problem(n=60)
    K = np.exp(-0.2 * cdist(X, X, "sqeuclidean"))
    for split in (False, True):
        hull = Hull(hulls[0].signs, offset=0.0 if split else 1.0, cap=1 / 20, split=split)
        Q = np.outer(hull.signs, hull.signs) * (K + hull.offset)
        sums = (0.5, 0.5) if split else (1.0,)
        best = reference.nearest_capped(Q, 1 / 20, hull.groups, sums)
        (solution,) = solve(rows_of(X), [hull], Options(1e-7), np.random.RandomState(0))
        assert solution.gap.objective == pytest.approx(best @ Q @ best, rel=1e-5)
        assert solution.alpha.max() <= 1 / 20 + 1e-15


@pytest.mark.usefixtures("tiny_start")
def test_float32_reaches_its_gap():
    X, hulls, grams = problem()
    found = solve(rows_of(X, np.float32), hulls, Options(1e-3), np.random.RandomState(0))
    for solution, hull, Q in zip(found, hulls, grams, strict=True):
        assert hull.gap(solution.alpha, Q @ solution.alpha).relative <= 1.01e-3


@pytest.mark.usefixtures("tiny_start")
def test_blocks_that_do_not_fit_are_computed_again():
    X, hulls, _ = problem()
    kept, dropped = rows_of(X), rows_of(X)
    one = solve(kept, hulls, Options(1e-4), np.random.RandomState(0))
    two = solve(dropped, hulls, Options(1e-4, block_bytes=0), np.random.RandomState(0))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a.alpha, b.alpha, atol=1e-3)
        assert b.gap.relative <= 1e-4
    assert dropped.n_evaluations > kept.n_evaluations


@pytest.mark.parametrize("selection", ["furthest", "sample"])
@pytest.mark.parametrize("least", [24, 60])
@pytest.mark.usefixtures("tiny_start")
def test_core_sets_larger_than_a_block_are_solved_in_parts(monkeypatch, selection, least):
    monkeypatch.setattr(problem_module, "LEAST", least)
    X, hulls, grams = problem()
    sizes, real = [], problem_module.pairwise

    def watched(*arguments):
        sizes.append(len(arguments[0]))
        return real(*arguments)

    monkeypatch.setattr(problem_module, "pairwise", watched)
    options = Options(1e-2, selection=selection, block_bytes=0)
    found = solve(rows_of(X), hulls, options, np.random.RandomState(0))
    assert max(sizes) <= least
    for solution, Q, best in zip(found, grams, exact(), strict=True):
        assert solution.status == "converged"
        assert solution.n_core > least
        assert solution.alpha.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(solution.gradient, Q @ solution.alpha, rtol=1e-8, atol=1e-12)
        assert solution.gap.objective <= best @ Q @ best / (1 - 1e-2) ** 2


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.usefixtures("tiny_start")
def test_capped_and_split_hulls_in_parts(monkeypatch, split):
    monkeypatch.setattr(problem_module, "LEAST", 32)
    X, hulls, _ = problem(n=60)
    K = np.exp(-0.2 * cdist(X, X, "sqeuclidean"))
    hull = Hull(hulls[0].signs, offset=0.0 if split else 1.0, cap=1 / 20, split=split)
    Q = np.outer(hull.signs, hull.signs) * (K + hull.offset)
    best = reference.nearest_capped(Q, 1 / 20, hull.groups, (0.5, 0.5) if split else (1.0,))
    (solution,) = solve(rows_of(X), [hull], Options(1e-4, block_bytes=0), np.random.RandomState(0))
    assert solution.gap.objective == pytest.approx(best @ Q @ best, rel=2e-4)
    assert solution.alpha.max() <= 1 / 20 + 1e-15


@pytest.mark.usefixtures("tiny_start")
def test_a_look_adds_to_the_last_one_where_few_weights_moved(monkeypatch):
    X, hulls, _ = problem()
    widths, real = [], KernelRows.times

    def watched(self, columns, *arguments, **keywords):
        widths.append(len(columns))
        return real(self, columns, *arguments, **keywords)

    monkeypatch.setattr(KernelRows, "times", watched)
    (solution,) = solve(rows_of(X), hulls[:1], Options(1e-6), np.random.RandomState(0))
    assert min(widths[-3:]) < np.count_nonzero(solution.alpha)


@pytest.mark.usefixtures("tiny_start")
def test_problems_share_kernel_values():
    X, hulls, _ = problem()
    together = rows_of(X)
    solve(together, hulls, Options(1e-3), np.random.RandomState(0))
    apart = 0
    for hull in hulls:
        rows = rows_of(X)
        solve(rows, [hull], Options(1e-3), np.random.RandomState(0))
        apart += rows.n_evaluations
    assert together.n_evaluations < apart


@pytest.mark.parametrize("epsilon", [0.1, 0.02, 1e-3])
@pytest.mark.parametrize("selection", ["furthest", "sample"])
def test_the_ball_of_the_papers(epsilon, selection):
    X, hulls, grams = problem()
    options = Options(epsilon, criterion="meb", selection=selection)
    found = solve(rows_of(X), hulls, options, np.random.RandomState(0))
    for solution, Q, best in zip(found, grams, exact(), strict=True):
        alpha, constant = solution.alpha, Q[0, 0]
        radius = math.sqrt(constant - alpha @ Q @ alpha)
        distances = np.sqrt(constant - 2 * Q @ alpha + alpha @ Q @ alpha)
        outside = np.mean(distances > (1 + epsilon) * radius * (1 + 1e-9))
        # all points are inside; with samples of 59, at most one in twenty is not, with probability 0.95
        assert outside == 0 if selection == "furthest" else outside <= 0.1
        assert solution.n_core <= 2 + 2 / epsilon
        if selection == "furthest":
            optimum = constant - best @ Q @ best
            assert max(radius**2 / optimum, optimum / radius**2) <= (1 + epsilon) ** 2 * (1 + 1e-6)


@pytest.mark.usefixtures("tiny_start")
def test_a_warm_start_saves_steps():
    X, hulls, _ = problem()
    cold = solve(rows_of(X), hulls, Options(1e-4), np.random.RandomState(0))
    softer = [Hull(h.signs, h.offset, 1.1 * h.ridge) for h in hulls]
    again = solve(rows_of(X), softer, Options(1e-4), np.random.RandomState(0))
    start = [s.alpha for s in cold]
    before = [a.copy() for a in start]
    warm = solve(rows_of(X), softer, Options(1e-4), np.random.RandomState(0), start)
    assert sum(s.steps for s in warm) < sum(s.steps for s in again)
    for a, b in zip(start, before, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("tiny_start")
def test_the_same_seed_gives_the_same_answer():
    X, hulls, _ = problem()
    for selection in ("furthest", "sample"):
        one, two = (
            solve(rows_of(X), hulls, Options(1e-3, selection=selection), np.random.RandomState(3)) for _ in range(2)
        )
        for a, b in zip(one, two, strict=True):
            np.testing.assert_array_equal(a.alpha, b.alpha)


def test_a_step_limit_ends_with_a_point_of_the_hull_and_its_gap():
    X, hulls, grams = problem()
    for solution, Q in zip(
        solve(rows_of(X), hulls, Options(1e-9, max_steps=5), np.random.RandomState(0)), grams, strict=True
    ):
        assert (solution.status, solution.steps) == ("steps", 5)
        assert solution.alpha.sum() == pytest.approx(1.0)
        exact = Q @ solution.alpha
        assert solution.gap.relative == pytest.approx(1 - exact.min() / (solution.alpha @ exact))


@pytest.mark.parametrize("after", [1, 3, 8])
@pytest.mark.usefixtures("tiny_start")
def test_an_interrupt_leaves_a_point_of_the_hull(monkeypatch, after):
    X, hulls, _ = problem()
    calls, real = [], problem_module.pairwise

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) > after:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(problem_module, "pairwise", interrupted)
    found = solve(rows_of(X), hulls, Options(1e-6), np.random.RandomState(0))
    assert "interrupted" in {s.status for s in found}
    for solution in found:
        assert solution.alpha.sum() == pytest.approx(1.0)
        assert solution.alpha.min() >= 0


def test_verbose_shows_gap_core_set_and_evaluations(capsys):
    X, hulls, _ = problem()
    solve(rows_of(X), hulls, Options(1e-2, verbose=1), np.random.RandomState(0))
    assert "relative gap" in (text := capsys.readouterr().out)
    assert "core set" in text
    assert "kernel evaluations" in text


@pytest.mark.parametrize(
    "spoil", [np.negative, lambda w: w * np.where(np.arange(len(w)) % 3, 1, -1), lambda w: 1e6 * w]
)
def test_a_warm_start_from_weights_of_a_file_that_lies_ends(spoil):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    X = rng.normal(size=(120, 4)) + 1.5 * np.eye(3, 4)[y]
    model = CoreVectorClassifier(warm_start=True, max_iter=500).fit(X, y)
    scores = model.decision_function(X)
    model._weights = [spoil(weights) for weights in model._weights]
    assert set(model.fit(X, y).status_) == {"converged"}
    np.testing.assert_allclose(model.decision_function(X), scores, atol=0.2)
