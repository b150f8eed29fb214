"""Working sets against exact nearest points and a naive loop over all patterns, and when they take over."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.base import clone

import reference_margin as reference
from kampong.kernels.functions import Kernel
from kampong.margin import (
    CoreVectorClassifier,
    MaximumMarginDiscriminant,
    MaxMinOverClassifier,
    core_set,
    kernel_rows,
    working_set,
)
from kampong.margin import problem as problem_module
from kampong.margin.core_set import solve
from kampong.margin.hinge_loss import Box
from kampong.margin.hull import Hull
from kampong.margin.kernel_rows import KernelRows
from kampong.margin.problem import Options, Problem
from kampong.margin.working_set import _choose


def clouds(seed=0, n=240, distance=1.0):
    """Return rows of two classes, their signs and their Gaussian kernel matrix."""
    rng = np.random.default_rng(seed)
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)
    X = rng.normal(size=(n, 3)) + 0.5 * distance * signs[:, None]
    return X, signs, np.exp(-0.2 * cdist(X, X, "sqeuclidean"))


def rows_of(X, dtype=np.float64):
    return KernelRows(Kernel("rbf", gamma=0.2), X.astype(dtype))


def gram(hull, K):
    return np.outer(hull.signs, hull.signs) * (K + hull.offset) + hull.ridge * np.eye(len(K))


def naive_gap(hull, Q, alpha):
    """Return the relative gap, pattern by pattern: fill the cheapest patterns up to the cap."""
    margins = [sum(alpha[j] * Q[i, j] for j in range(len(Q))) for i in range(len(Q))]
    objective = sum(a * m for a, m in zip(alpha, margins, strict=True))
    bound = 0.0
    for group in set(hull.groups.tolist()):
        left = hull.group_sum
        for margin in sorted(m for m, g in zip(margins, hull.groups, strict=True) if g == group):
            weight = min(hull.cap, left)
            bound, left = bound + weight * margin, left - weight
    return (objective - bound) / objective


@pytest.fixture
def small_sets(monkeypatch):
    """Make working sets of 24 patterns, and a store of 48 rows, take over at once."""
    monkeypatch.setattr(problem_module, "SMALL", 16)
    monkeypatch.setattr(working_set, "SIZE", 24)
    monkeypatch.setattr(working_set, "SHARE", 0.0)
    monkeypatch.setattr(kernel_rows, "BLOCK_ROWS", 24)
    called, real = [], core_set.solve_in_working_sets

    def watched(rows, problems, *arguments):
        called.append(len(problems))
        assert rows.capacity <= max(48, rows.budget // (8 * rows.n_samples))
        return real(rows, problems, *arguments)

    monkeypatch.setattr(core_set, "solve_in_working_sets", watched)
    return called


HULLS = {
    "squared slack": {"offset": 1.0, "ridge": 0.1},
    "capped": {"offset": 1.0, "ridge": 0.01, "cap": 1 / 100},
    "two hulls": {"split": True, "ridge": 0.1},
    "reduced hulls": {"split": True, "ridge": 0.01, "cap": 0.5 / 40},
}


@pytest.mark.parametrize("budget", [0, 2**30])
@pytest.mark.parametrize("kind", HULLS)
@pytest.mark.parametrize("seed", range(2))
def test_point_is_within_its_gap_of_the_exact_one(small_sets, seed, kind, budget):
    X, signs, K = clouds(seed, n=120)
    hull = Hull(signs, **HULLS[kind])
    Q = gram(hull, K)
    rows = KernelRows(Kernel("rbf", gamma=0.2), X, budget=budget)
    (found,) = solve(rows, [hull], Options(1e-4), np.random.RandomState(0))
    assert small_sets
    assert found.status == "converged"
    np.testing.assert_allclose(found.gradient, Q @ found.alpha, rtol=1e-8, atol=1e-12)
    gap = naive_gap(hull, Q, found.alpha)
    assert gap <= 1.0001e-4
    assert found.gap.relative == pytest.approx(gap, abs=1e-9)
    sums = (0.5, 0.5) if hull.split else (1.0,)
    for group, total in enumerate(sums):
        assert found.alpha[hull.groups == group].sum() == pytest.approx(total)
    assert found.alpha.min() >= 0
    assert found.alpha.max() <= hull.cap
    best = reference.nearest_capped(Q, min(hull.cap, 1.0), hull.groups, sums)
    assert found.gap.objective == pytest.approx(best @ Q @ best, rel=3e-4)


@pytest.mark.parametrize("kind", ["narrow", "wide", "precomputed"])
def test_the_block_of_a_set_is_that_of_the_kernel_matrix(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 200 if kind == "wide" else 3))
    K = np.exp(-0.2 * ((X[:, None] - X[None]) ** 2).sum(axis=-1) / X.shape[1])
    rows = KernelRows(Kernel("rbf", gamma=0.2 / X.shape[1]), X)
    if kind == "precomputed":
        rows = KernelRows(Kernel("precomputed"), K)
    rows.fetch(np.array([41, 3, 17]))
    rows.fetch(np.array([8, 3]))
    chosen = np.array([3, 8, 17, 41])
    np.testing.assert_allclose(rows.square(chosen), K[np.ix_(chosen, chosen)], rtol=1e-10)
    assert rows.n_evaluations == (4 * 50 + 16 if kind == "narrow" else 4 * 50)


def test_several_problems_share_the_store(small_sets):
    X, _, K = clouds()
    labels = np.arange(len(X)) % 3
    hulls = [Hull(np.where(labels == k, 1.0, -1.0), offset=1.0, ridge=0.1) for k in range(3)]
    apart = 0
    for hull in hulls:
        rows = rows_of(X)
        solve(rows, [hull], Options(1e-3), np.random.RandomState(0))
        apart += rows.n_evaluations
    together = rows_of(X)
    for hull, found in zip(hulls, solve(together, hulls, Options(1e-3), np.random.RandomState(0)), strict=True):
        assert naive_gap(hull, gram(hull, K), found.alpha) <= 1.0001e-3
    assert max(small_sets) == 3
    assert together.n_evaluations < apart


@pytest.mark.usefixtures("small_sets")
def test_directions_stay_out_of_the_kernel():
    X, signs, K = clouds(n=120)
    F = np.linalg.eigh(K)[1][:, -2:] * np.sqrt(np.linalg.eigh(K)[0][-2:])
    hull = Hull(signs, offset=1.0, ridge=0.1, directions=F)
    (found,) = solve(rows_of(X), [hull], Options(1e-4), np.random.RandomState(0))
    Q = gram(hull, K - F @ F.T)
    np.testing.assert_allclose(found.gradient, Q @ found.alpha, rtol=1e-7, atol=1e-12)
    assert naive_gap(hull, Q, found.alpha) <= 1.001e-4


@pytest.mark.usefixtures("small_sets")
def test_float32_values_are_summed_in_float64():
    X, signs, K = clouds()
    hull = Hull(signs, offset=1.0, ridge=0.1)
    (found,) = solve(rows_of(X, np.float32), [hull], Options(1e-3), np.random.RandomState(0))
    assert found.gradient.dtype == np.float64
    assert naive_gap(hull, gram(hull, K), found.alpha) <= 1.01e-3


def test_hard_margins_stay_with_core_sets(small_sets):
    X, signs, _ = clouds(distance=6.0)
    (found,) = solve(rows_of(X), [Hull(signs, offset=1.0)], Options(1e-2), np.random.RandomState(0))
    assert found.gap.relative <= 1e-2
    assert not small_sets


@pytest.mark.parametrize("limit", [5, 40])
@pytest.mark.usefixtures("small_sets")
def test_a_step_limit_ends_with_a_point_of_the_hull_and_its_gap(limit):
    X, signs, K = clouds(n=120)
    hull = Hull(signs, offset=1.0, ridge=0.1)
    start = [np.full(120, 1 / 120)]
    (found,) = solve(rows_of(X), [hull], Options(1e-9, max_steps=limit), np.random.RandomState(0), start)
    assert (found.status, found.steps) == ("steps", limit)
    assert found.alpha.sum() == pytest.approx(1.0)
    assert found.gap.relative == pytest.approx(naive_gap(hull, gram(hull, K), found.alpha))


@pytest.mark.parametrize("after", [1, 4])
@pytest.mark.usefixtures("small_sets")
def test_an_interrupt_leaves_a_point_of_the_hull_and_its_margins(monkeypatch, after):
    X, signs, K = clouds()
    hull, calls, real = Hull(signs, offset=1.0, ridge=0.1), [], working_set.pairwise

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) > after:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(working_set, "pairwise", interrupted)
    start = [np.full(len(X), 1 / len(X))]
    (found,) = solve(rows_of(X), [hull], Options(1e-6), np.random.RandomState(0), start)
    assert found.status == "interrupted"
    assert found.alpha.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(found.gradient, gram(hull, K) @ found.alpha, rtol=1e-8)


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_memory_stays_within_one_and_a_half_times_the_cache(loss):
    X, _, _ = clouds(n=6000, distance=0.5)
    X, y = X.astype(np.float32), np.arange(6000) % 2
    CoreVectorClassifier(10, loss=loss).fit(X[:2000], y[:2000])  # compiled loops are not part of it
    tracemalloc.start()
    model = CoreVectorClassifier(10, loss=loss, cache_size=32).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    assert model.n_kernel_evaluations_ > 32 * 2**20 / 4  # a matrix of 137 MiB does not fit: the cache was full
    assert 32 < peak < 1.5 * 32


@pytest.mark.parametrize(
    "model",
    [
        CoreVectorClassifier(1.0, tol=1e-6, gamma=0.2),
        CoreVectorClassifier(1.0, loss="hinge", tol=1e-6, gamma=0.2),
        MaxMinOverClassifier(0.7, tol=1e-6, gamma=0.2),
        MaximumMarginDiscriminant(1, tol=1e-6, gamma=0.2),
    ],
    ids=str,
)
def test_a_small_cache_costs_time_and_changes_nothing_else(model, monkeypatch):
    monkeypatch.setattr(kernel_rows, "BLOCK_ROWS", 32)  # at least two blocks are kept
    monkeypatch.setattr(problem_module, "SMALL", 64)
    X, signs, _ = clouds(n=900, distance=1.0)
    plenty = clone(model).fit(X, signs)
    little = clone(model).set_params(cache_size=0.1).fit(X, signs)
    assert little.n_kernel_evaluations_ != plenty.n_kernel_evaluations_  # it took another way
    np.testing.assert_allclose(little.decision_function(X), plenty.decision_function(X), atol=5e-3)


@pytest.mark.parametrize(("distance", "expected"), [(0.3, True), (6.0, False)])
def test_they_take_over_where_classes_overlap(monkeypatch, distance, expected):
    monkeypatch.setattr(problem_module, "SMALL", 64)
    monkeypatch.setattr(working_set, "SIZE", 512)
    taken, real = [], working_set._improve

    def watched(*arguments):
        taken.append(1)
        return real(*arguments)

    monkeypatch.setattr(working_set, "_improve", watched)
    X, signs, _ = clouds(n=1200, distance=distance)
    model = CoreVectorClassifier(C=1.0).fit(X, signs)
    assert bool(taken) == expected
    assert (len(model.support_) > 300) == expected


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_a_set_holds_the_pair_that_violates_most_and_only_patterns_beyond_the_middle(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, labels = 200, np.where(rng.random(200) < 0.3, -1.0, 1.0)
    box = Box(np.ones(n), cap=np.full(n, 2.0), labels=labels)
    alpha, margins = rng.choice([0.0, 1.0, 2.0], n), rng.normal(size=n)
    alpha[:2] = 1.0
    problem = Problem(box, Options(0.01), core=np.arange(n), alpha=alpha, margins=margins)
    rows = KernelRows(Kernel("linear"), rng.normal(size=(n, 2)))
    chosen = _choose(problem, rows, 400)
    gaining, losing = margins[alpha < 2.0], margins[alpha > 0.0]
    assert margins[chosen].min() == gaining.min()
    assert margins[chosen].max() == losing.max()
    middle = 0.5 * (gaining.min() + losing.max())
    assert (((margins < middle) & (alpha < 2.0)) | ((margins > middle) & (alpha > 0.0)))[chosen].all()
