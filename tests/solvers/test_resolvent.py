"""Directions from products with rows: equal to the d × d solver where that fits, right where it does not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine

from kampong import FisherDiscriminant, MarginSubspace, MaximumMarginCriterion
from kampong.criteria import FisherCriterion, MarginCriterion
from kampong.solvers import resolvent, solve
from kampong.statistics import ClassMeans, ClassScatter
from kampong.statistics.all_rows import ClassRows
from problems import aligned, problem, problems, seeds, sparse_rows
from reference_linear import largest_angle

quiet = pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, np.asfortranarray])
@given(data=problems(), seed=seeds)
def test_products_with_rows_are_products_with_the_scatter(form, data, seed):
    X, y = data
    rng = np.random.default_rng(seed)
    weights, block = rng.integers(0, 3, len(X)), rng.standard_normal((X.shape[1], 3))
    weights[:2] = 1
    expected = ClassScatter(X.shape[1]).update(X, y, weights).within_times(block)
    found = ClassRows(X.shape[1]).update(form(X), y, weights).within_times(block)
    np.testing.assert_allclose(found, expected, atol=1e-11 * (np.abs(expected).max() + 1e-3))


def test_products_with_rows_far_from_the_origin_and_with_several_labels():
    rng = np.random.default_rng(0)
    X, y = 1e6 + rng.standard_normal((300, 6)), rng.integers(0, 3, 300)
    block = rng.standard_normal((6, 2))
    expected = ClassScatter(6).update(X, y).within_times(block)
    np.testing.assert_allclose(ClassRows(6).update(X, y).within_times(block), expected, atol=1e-8)
    X, Y = rng.standard_normal((300, 6)), (rng.random((300, 4)) < 0.4).astype(int)
    expected = ClassScatter(6).update(X, Y).within_times(block)
    for rows in (X, sparse.csr_array(X)):
        np.testing.assert_allclose(ClassRows(6).update(rows, Y).within_times(block), expected, atol=1e-11)


def test_products_of_a_few_rows_at_a_time_are_those_of_all(monkeypatch):
    X, y = problem(9, classes=9, rows=120, features=30)
    rows, block = ClassRows(30).update(X, y), np.random.default_rng(0).standard_normal((9, 30))
    expected = rows.within_times(block.T).T
    monkeypatch.setattr(resolvent, "PRODUCT_BYTES", 8 * 30 * 4)
    monkeypatch.setattr(resolvent, "FEWEST", 2)
    calls = []
    whole = rows.within_times
    monkeypatch.setattr(rows, "within_times", lambda columns: calls.append(columns.shape) or whole(columns))
    np.testing.assert_allclose(resolvent._within(rows, block), expected, atol=1e-12)
    assert calls == [(30, 4), (30, 4), (30, 1)]


@given(data=problems(), epsilon=st.floats(0.05, 1.5), ridge=st.sampled_from([1e-2, 1.0]))
def test_a_whole_krylov_space_gives_the_exact_directions(data, epsilon, ridge):
    X, y = data
    exact, rows = ClassScatter(X.shape[1]).update(X, y), ClassRows(X.shape[1]).update(X, y)
    space = resolvent.build(rows, resolvent.MOST_STEPS, lambda space: space.n_steps, tolerance=-1.0)
    fisher = solve(FisherCriterion(ridge), exact)
    found = resolvent.inside(space, FisherCriterion(ridge), None)
    np.testing.assert_allclose(found.eigenvalues, fisher.eigenvalues, rtol=1e-7)
    metric = found.components @ (exact.within_scatter() + ridge * np.eye(X.shape[1])) @ found.components.T
    np.testing.assert_allclose(metric, np.eye(len(metric)), atol=1e-7)
    assert largest_angle(found.components, fisher.components) < 1e-6
    margin = solve(MarginCriterion(epsilon), exact)
    ours = resolvent.inside(space, MarginCriterion(epsilon), None)
    size = np.abs(margin.eigenvalues).max()
    if margin.n_positive and margin.eigenvalues[-1] > 1e-3 * size:
        assert ours.n_positive == margin.n_positive
        np.testing.assert_allclose(ours.eigenvalues, margin.eigenvalues, atol=1e-9 * size)
        assert largest_angle(ours.components, margin.components) < 1e-6


@pytest.mark.parametrize(
    "criterion", [FisherCriterion(0.5), FisherCriterion(5.0), MarginCriterion(0.2), MarginCriterion(1.0)]
)
@pytest.mark.parametrize("load", [load_wine, load_digits])
def test_the_criterion_is_reached_to_a_thousandth(criterion, load):
    X, y = load(return_X_y=True)
    X = X / X.std()
    exact, rows = ClassScatter(X.shape[1]).update(X, y), ClassRows(X.shape[1]).update(sparse.csr_array(X), y)
    best, found = solve(criterion, exact), solve(criterion, rows, solver="resolvent")
    assert found.solver == "resolvent"
    assert found.n_steps <= resolvent.MOST_STEPS
    assert best.total * (1 - 1e-3) <= found.total <= best.total * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_where_the_class_means_mislead_the_resolvent_does_not(seed):
    X, y = aligned(seed)
    exact, rows = ClassScatter(200).update(X, y), ClassRows(200).update(X, y)
    criterion = MarginCriterion.maximum_margin()
    between, within = exact.between_factor(), exact.within_scatter()

    def value(components):
        spread = components @ (between.T @ between - criterion.epsilon * within) @ components.T
        return np.trace(spread)

    best = solve(criterion, exact)
    found = solve(criterion, rows, solver="resolvent")
    naive = solve(MarginCriterion(0.0), exact, len(best.components))
    assert value(found.components[: len(best.components)]) >= 0.999 * value(best.components)
    assert value(naive.components) < 0 < value(best.components)


@quiet
def test_fit_takes_the_resolvent_where_no_scatter_fits():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 4, 600)
    topics = sparse_rows((4, 9000), 0.01, rng).toarray()
    X = sparse_rows((600, 9000), 0.01, rng)
    X = sparse.csr_array(X + sparse.csr_array((rng.random((600, 9000)) < 0.2) * topics[y]))
    for model in (FisherDiscriminant(), MaximumMarginCriterion(3), MarginSubspace(3, epsilon=0.1)):
        model.fit(X[:400], y[:400])
        assert model.solver_ == "resolvent"
        assert model.head_ == ("cosine" if isinstance(model, FisherDiscriminant) else "gaussian")
        assert model.score(X[400:], y[400:]) > 0.9
        assert not any(sparse.issparse(value) for value in vars(model._statistics).values())
        with pytest.raises(
            ValueError, match=r"fitted with the rows at hand .*did not keep its statistics, so it cannot learn more"
        ):
            model.partial_fit(X, y)
        with pytest.raises(ValueError, match="did not keep its statistics, so it cannot be merged"):
            model.merge(model)
    with pytest.raises(ValueError, match=r"its limit is 8192 features. Use solver='auto', which takes products"):
        FisherDiscriminant(solver="scatter").partial_fit(X, y)
    with pytest.raises(ValueError, match="'resolvent' needs all rows at hand, and a stream passes them by"):
        FisherDiscriminant(solver="resolvent").partial_fit(X[:, :50], y)


@quiet
def test_the_resolvent_can_be_asked_for_at_any_width():
    X, y = load_digits(return_X_y=True)
    exact = FisherDiscriminant(ridge=1.0).fit(X, y)
    ours = FisherDiscriminant(ridge=1.0, solver="resolvent").fit(X, y)
    assert ours.eigenvalues_.sum() > 0.999 * exact.eigenvalues_.sum()
    assert (ours.predict(X) == exact.predict(X)).mean() > 0.98
    weights = np.random.default_rng(0).integers(0, 3, len(X))
    repeated = np.repeat(np.arange(len(X)), weights)
    weighted = FisherDiscriminant(ridge=1.0, solver="resolvent").fit(X, y, sample_weight=weights)
    twice = FisherDiscriminant(ridge=1.0, solver="resolvent").fit(X[repeated], y[repeated])
    np.testing.assert_allclose(weighted.eigenvalues_, twice.eigenvalues_, rtol=1e-9)


def test_what_the_resolvent_cannot_do_it_says():
    X, y = problem(0)
    with pytest.raises(ValueError, match=r"'resolvent' needs rows in memory .*statistics are ClassMeans"):
        solve(MarginCriterion(1.0), ClassMeans(5).update(X, y), solver="resolvent")
    with pytest.raises(ValueError, match=r"'resolvent' finds at most 2 directions for 3 classes and 5 features"):
        solve(MarginCriterion(1.0), ClassRows(5).update(X, y), 3, solver="resolvent")
    with pytest.raises(ValueError, match="ClassRows holds one batch, all rows in memory"):
        ClassRows(5).update(X, y).update(X, y)
    with pytest.raises(TypeError, match="ClassMeans holds class means only"):
        ClassMeans(5).update(X, y).within_times(np.ones((5, 1)))


def test_no_more_than_a_few_blocks_of_memory():
    import tracemalloc

    X = sparse_rows((2000, 100_000), 1e-4, 0)
    y = np.arange(2000) % 4
    block = 8 * 3 * 100_000
    for ridge in ("rule", "auto"):
        FisherDiscriminant(ridge=ridge, solver="resolvent").fit(X[:100], y[:100])
        tracemalloc.start()
        model = FisherDiscriminant(ridge=ridge).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # each part that is held out in turn may take more steps than the result
        steps = model.n_steps_ if ridge == "rule" else resolvent.MOST_STEPS
        assert peak < (steps + 30) * block


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("solver", ["scatter", "resolvent", "reservoir"])
@pytest.mark.parametrize("model", [FisherDiscriminant(ridge=0.1), MarginSubspace(2, epsilon=0.1)])
def test_classes_of_equal_means_are_equally_probable(model, solver):
    rows = np.repeat(np.random.default_rng(0).integers(-3, 4, size=(16, 9)).astype(float), 3, axis=0)
    found = clone(model).set_params(solver=solver).fit(rows, np.arange(48) % 3).predict_proba(rows)
    assert np.allclose(found, 1 / 3)
