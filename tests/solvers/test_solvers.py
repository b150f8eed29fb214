"""Every solver against naive eigenproblems, and the identities that tie the criteria together."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_iris, load_wine

import reference_linear as reference
from kampong import criteria
from kampong.criteria import FisherCriterion, MarginCriterion
from kampong.datasets import balance_scale
from kampong.solvers import SOLVERS, gram, scatter_solver, solve, solver_for
from kampong.statistics import ClassMeans, ClassScatter
from problems import problems

INTER, MAXIMUM = MarginCriterion.inter_class(), MarginCriterion.maximum_margin()


def distinct(values, floor=1e-3):
    """Tell whether neighbouring eigenvalues differ enough for directions to be well defined to 1e-10."""
    values = np.asarray(values)
    return len(values) < 2 or np.min(np.abs(np.diff(values))) > floor * np.abs(values).max()


@given(data=problems(), epsilon=st.floats(0.0, 3.0), extra=st.integers(1, 7))
def test_scatter_solves_the_margin_criterion(data, epsilon, extra):
    X, y = data
    between, within, *_ = reference.scatters(X, reference.single(y))
    values, rows = reference.margin(between, within, epsilon)
    p = min(extra, X.shape[1])
    assume(distinct(values))
    found = solve(MarginCriterion(epsilon), ClassScatter(X.shape[1]).update(X, y), p, solver="scatter")
    scale = np.abs(values).max()
    np.testing.assert_allclose(found.eigenvalues, values[:p], atol=1e-11 * scale)
    assert reference.largest_angle(found.components, rows[:p]) < 1e-10
    np.testing.assert_allclose(np.abs(np.einsum("pd,pd->p", found.components, rows[:p])), 1.0, atol=1e-10)
    np.testing.assert_allclose(found.components @ found.components.T, np.eye(p), atol=1e-12)
    if epsilon > 0.01:
        assert found.n_positive == np.count_nonzero(values > 1e-12 * scale)
        assert found.total == pytest.approx(values[values > 0].sum(), rel=1e-10, abs=1e-12 * scale)


@given(data=problems())
def test_gram_is_scatter_at_epsilon_zero(data):
    X, y = data
    rank = min(len(set(y)) - 1, X.shape[1])
    between, within, *_ = reference.scatters(X, reference.single(y))
    values, rows = reference.margin(between, within, 0.0)
    assume(distinct(values[: rank + 1]))
    statistics = ClassScatter(X.shape[1]).update(X, y)
    light = solve(INTER, ClassMeans(X.shape[1]).update(X, y))
    full = solve(INTER, statistics, rank, solver="scatter")
    assert light.solver == "gram"
    assert full.solver == "scatter"
    assert len(light.components) == light.n_positive == rank
    np.testing.assert_allclose(light.eigenvalues, full.eigenvalues, rtol=1e-9)
    assert reference.largest_angle(light.components, full.components) < 1e-10
    assert reference.largest_angle(light.components, rows[:rank]) < 1e-10


def test_gram_keeps_small_directions_that_a_gram_matrix_loses():
    rng = np.random.default_rng(4)
    frame = np.linalg.qr(rng.standard_normal((30, 3)))[0].T
    means = np.array([[1.0, 0, 0], [-1.0, 1e-5, 0], [0, -1e-5, 1e-6], [0, 0, -1e-6]]) @ frame
    found = solve(INTER, ClassMeans(30).update(np.repeat(means, 2, axis=0), np.repeat(np.arange(4), 2)))
    assert found.n_positive == 3
    centred = means - means.mean(axis=0)
    _, singular, rows = np.linalg.svd(centred / 2.0, full_matrices=False)
    np.testing.assert_allclose(found.eigenvalues, singular[:3] ** 2, rtol=1e-8)
    np.testing.assert_allclose(np.abs(np.einsum("pd,pd->p", found.components, rows[:3])), 1.0, atol=1e-8)


@given(data=problems(), a=st.floats(1.0, 6.0))
def test_the_kampong_measure_is_twice_a_margin_criterion(data, a):
    X, y = data
    between, within, *_ = reference.scatters(X, reference.single(y))
    epsilon = MarginCriterion.kampong(a).epsilon
    matrix = reference.kampong_matrix(X, y, a)
    np.testing.assert_allclose(matrix, 2 * (between - epsilon * within), atol=1e-11 * np.abs(matrix).max())


def test_the_presets_of_the_kampong_measure():
    assert MarginCriterion.kampong(1) == INTER
    assert MarginCriterion.kampong(3) == MAXIMUM


@given(data=problems(), ridge=st.sampled_from([0.0, 1e-3, 0.1, 10.0]))
def test_scatter_solves_the_fisher_criterion(data, ridge):
    X, y = data
    rank = min(len(set(y)) - 1, X.shape[1])
    between, within, *_ = reference.scatters(X, reference.single(y))
    values, rows = reference.fisher(between, within, ridge)
    assume(distinct(values[: rank + 1], 1e-4))
    found = solve(FisherCriterion(ridge), ClassScatter(X.shape[1]).update(X, y))
    np.testing.assert_allclose(found.eigenvalues, values[:rank], rtol=1e-8)
    assert reference.largest_angle(found.components, rows[:rank]) < 1e-9
    metric = found.components @ (within + ridge * np.eye(len(within))) @ found.components.T
    np.testing.assert_allclose(metric, np.eye(rank), atol=1e-9)


@given(data=problems(), epsilon=st.floats(0.05, 2.0))
def test_a_margin_direction_is_the_fisher_direction_at_its_own_ridge(data, epsilon):
    X, y = data
    statistics = ClassScatter(X.shape[1]).update(X, y)
    margin = solve(MarginCriterion(epsilon), statistics)
    assume(margin.n_positive > 0)
    for k in range(margin.n_positive):
        assume(margin.eigenvalues[k] > 1e-3 * margin.eigenvalues[0])
        fisher = solve(FisherCriterion(margin.eigenvalues[k] / epsilon), statistics)
        assert fisher.eigenvalues[k] == pytest.approx(epsilon, rel=1e-10)
        assume(distinct(fisher.eigenvalues))
        assert reference.largest_angle(margin.components[k : k + 1], fisher.components[k : k + 1]) < 1e-9


@pytest.mark.parametrize("load", [load_wine, load_digits])
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 2.0])
def test_the_identity_holds_on_real_data(load, epsilon):
    X, y = load(return_X_y=True)
    statistics = ClassScatter(X.shape[1]).update(X, y)
    margin = solve(MarginCriterion(epsilon), statistics)
    for k in range(margin.n_positive):
        fisher = solve(FisherCriterion(margin.eigenvalues[k] / epsilon), statistics)
        assert fisher.eigenvalues[k] == pytest.approx(epsilon, rel=1e-12)
        assert reference.largest_angle(margin.components[k : k + 1], fisher.components[k : k + 1]) < 1e-10


@given(data=problems(), epsilon=st.floats(0.01, 3.0))
def test_as_many_directions_raise_the_margin_as_fisher_ratios_exceed_epsilon(data, epsilon):
    X, y = data
    statistics = ClassScatter(X.shape[1]).update(X, y)
    ratios = solve(FisherCriterion(0.0), statistics).eigenvalues
    assume(np.abs(ratios - epsilon).min() > 1e-8)
    assert solve(MarginCriterion(epsilon), statistics, 1).n_positive == np.count_nonzero(ratios > epsilon)


def test_eigenvalues_of_iris_and_balance_scale():
    X, y = load_iris(return_X_y=True)
    iris = solve(MAXIMUM, ClassScatter(4).update(X, y), 4).eigenvalues
    np.testing.assert_allclose(iris, [3.6435, -0.0222, -0.0563, -0.2132], atol=5e-5)
    np.testing.assert_allclose(
        iris, [3.6396, -0.0222, -0.0571, -0.2133], atol=5e-3
    )  # Yan et al. 2006: another iris file
    X, y = balance_scale()
    scale = solve(MAXIMUM, ClassScatter(4).update(X, y), 4).eigenvalues
    np.testing.assert_allclose(scale, [0.7067, -1.9974, -2.0, -2.0], atol=5e-5)


@pytest.mark.parametrize("name", ["waveform21", "pima_diabetes", "monks1", "bupa_liver"])
def test_no_direction_reaches_ratio_one_where_the_papers_report_failure(real_data, name):
    X, y = real_data(name)
    statistics = ClassScatter(X.shape[1]).update(X, y)
    assert solve(MAXIMUM, statistics).n_positive == 0
    assert solve(FisherCriterion(0.0), statistics).eigenvalues[0] < 1


def test_singular_within_scatter_leaves_out_where_it_vanishes():
    X, y = load_digits(return_X_y=True)
    found = solve(FisherCriterion(0.0), ClassScatter(64).update(X, y))
    constant = np.flatnonzero(X.std(axis=0) == 0)
    assert found.n_dropped == len(constant) > 0
    assert not found.components[:, constant].any()
    kept = np.setdiff1d(np.arange(64), constant)
    same = solve(FisherCriterion(0.0), ClassScatter(len(kept)).update(X[:, kept], y))
    np.testing.assert_allclose(found.components[:, kept], same.components, atol=1e-8)
    doubled = np.hstack([X[:, kept], X[:, kept[:5]] @ np.arange(1.0, 6.0)[:, None]])
    dependent = solve(FisherCriterion(0.0), ClassScatter(doubled.shape[1]).update(doubled, y))
    assert dependent.n_dropped == 1
    np.testing.assert_allclose(dependent.eigenvalues, same.eigenvalues, rtol=1e-8)


def test_columns_that_never_vary_cost_nothing_with_a_ridge(monkeypatch):
    X, y = load_digits(return_X_y=True)
    kept = np.flatnonzero(X.std(axis=0) > 0)
    wide = np.zeros((len(X), 200))
    wide[:, 3 * np.arange(len(kept))] = X[:, kept]
    sizes, whole = [], criteria._whitener
    monkeypatch.setattr(criteria, "_whitener", lambda matrix: sizes.append(len(matrix)) or whole(matrix))
    found = solve(FisherCriterion(2.0), ClassScatter(200).update(wide, y))
    same = solve(FisherCriterion(2.0), ClassScatter(len(kept)).update(X[:, kept], y))
    assert sizes == [len(kept)] * 2  # one root, of the columns that vary
    assert found.n_dropped == 0  # the ridge would let them take part
    np.testing.assert_allclose(found.components[:, 3 * np.arange(len(kept))], same.components, atol=1e-12)
    np.testing.assert_allclose(found.eigenvalues, same.eigenvalues, rtol=1e-12)
    assert np.count_nonzero(found.components.any(axis=0)) == len(kept)


def test_as_many_directions_are_found_where_few_columns_vary():
    X, y = load_iris(return_X_y=True)
    X = X * np.array([1.0, 0.0, 0.0, 0.0])
    found = solve(FisherCriterion(1.0), ClassScatter(4).update(X, y))
    assert found.components.shape == (2, 4)
    between, within, *_ = reference.scatters(X, reference.single(y))
    values, _ = reference.fisher(between, within, 1.0)
    np.testing.assert_allclose(found.eigenvalues, values[:2], atol=1e-12)


def test_units_of_the_features_do_not_look_like_singularity():
    X, y = load_wine(return_X_y=True)
    units = np.logspace(-9, 9, X.shape[1])
    plain = solve(FisherCriterion(0.0), ClassScatter(13).update(X, y))
    scaled = solve(FisherCriterion(0.0), ClassScatter(13).update(X * units, y))
    assert scaled.n_dropped == 0
    np.testing.assert_allclose(scaled.eigenvalues, plain.eigenvalues, rtol=1e-8)


def test_signs_are_fixed_and_runs_repeat():
    X, y = load_wine(return_X_y=True)
    for criterion in (INTER, MarginCriterion(0.1), FisherCriterion(0.1)):
        first = solve(criterion, ClassScatter(13).update(X, y))
        mirrored = solve(criterion, ClassScatter(13).update(X[::-1], y[::-1]))
        np.testing.assert_allclose(first.components, mirrored.components, atol=1e-8 * np.abs(first.components).max())
        largest = np.abs(first.components).argmax(axis=1)
        assert (first.components[np.arange(len(largest)), largest] > 0).all()


def test_a_solver_that_cannot_serve_says_who_can():
    X, y = load_iris(return_X_y=True)
    means = ClassMeans(4).update(X, y)
    with pytest.raises(ValueError, match=r"'gram' knows the class means only.*margin criterion S_b − 1·S_w.*'scatter'"):
        solve(MAXIMUM, means, solver="gram")
    with pytest.raises(ValueError, match=r"'gram' knows the class means only.*Fisher criterion"):
        solve(FisherCriterion(1.0), means, solver="gram")
    with pytest.raises(
        ValueError, match=r"'scatter' needs the within-class scatter \(ClassScatter\).*ClassMeans.*'gram'"
    ):
        solve(MAXIMUM, means, solver="scatter")
    with pytest.raises(ValueError, match=r"at most 2 for 3 classes and 4 features, and n_components is 3"):
        solve(INTER, means, 3)
    with pytest.raises(ValueError, match=r"at most 2 directions for 3 classes, and n_components is 3"):
        solve(FisherCriterion(1.0), ClassScatter(4).update(X, y), 3)
    with pytest.raises(ValueError, match=r"at most 4 directions for 4 features, and n_components is 5"):
        solve(MAXIMUM, ClassScatter(4).update(X, y), 5)
    with pytest.raises(
        ValueError, match=r"solver must be 'auto' or one of \['gram', 'reservoir', 'resolvent', 'scatter'"
    ):
        solve(MAXIMUM, means, solver="scater")
    with pytest.raises(
        ValueError, match=r"need at least 2 classes; the data has 1 class\(es\) of positive weight: \[0\]"
    ):
        solve(INTER, ClassMeans(4).update(X[:50], y[:50]))
    with pytest.raises(ValueError, match="n_components must be at least 1, got 0"):
        solve(INTER, means, 0)


def test_the_registry_chooses_by_criterion_and_width():
    assert set(SOLVERS) >= {"gram", "scatter"}
    assert solver_for(INTER, 300_000) is gram
    assert solver_for(MAXIMUM, 100) is scatter_solver
    assert solver_for(FisherCriterion(0.1), 100) is scatter_solver
    assert solver_for(INTER, 100, "scatter") is scatter_solver
    with pytest.raises(ValueError, match=r"would keep a 41006 × 41006 matrix \(12.5 GiB\); its limit is 8192 features"):
        solver_for(MAXIMUM, 41_006, "scatter")
    with pytest.raises(ValueError, match="solver must be 'auto' or one of"):
        solver_for(MAXIMUM, 10, "exact")


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_criteria_refuse_what_makes_no_sense(value):
    with pytest.raises(ValueError, match="epsilon must be a finite number ≥ 0"):
        MarginCriterion(value)
    with pytest.raises(ValueError, match="ridge must be a finite number ≥ 0"):
        FisherCriterion(value)
    with pytest.raises(ValueError, match="a must be a finite number ≥ 1"):
        MarginCriterion.kampong(value)
