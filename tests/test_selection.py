"""Parameters chosen by accuracy: rows held back are as if they had never come, and the curve is the naive one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from kampong import FisherDiscriminant, MarginSubspace, SupervisedKampongMeasure
from kampong._runtime.compute import row_marks
from kampong.statistics.held_back import HeldBack
from kampong.statistics.reservoir import ClassReservoir, SampledScatter
from kampong.statistics.rows import ClassRows
from kampong.subspace.choice import JUDGES, _folds
from kampong.subspace.criteria import EPSILONS
from problems import problem, sparse_rows

quiet = pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")


def statistics_of(kind, X, y, weights):
    return kind(X.shape[1]).update(X, y, weights)


@pytest.mark.parametrize("kind", [SampledScatter, ClassReservoir, ClassRows])
@pytest.mark.parametrize("several", [False, True])
@given(seed=st.integers(0, 10**6), is_sparse=st.booleans())
def test_rows_held_back_are_rows_that_never_came(kind, several, seed, is_sparse):
    rng = np.random.default_rng(seed)
    X, y = problem(seed, rows=40)
    weights = rng.integers(1, 4, 40).astype(float)
    if several:
        y = (rng.random((40, 3)) < 0.5).astype(int)
        y[np.arange(40), rng.integers(0, 3, 40)] = 1
    rows = sparse.csr_array(X) if is_sparse else X
    everything = statistics_of(kind, rows, y, weights)
    sample = everything.sample(25)
    fold = np.sort(rng.permutation(25)[:10])
    held = HeldBack(everything, sample, fold)
    dense = sample.rows if isinstance(sample.rows, np.ndarray) else sample.rows.toarray()
    gone = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in dense[fold]]
    others = np.setdiff1d(np.arange(40), gone)
    expected = statistics_of(kind, rows[others], y[others], weights[others])
    seen = np.isin(everything.classes, expected.classes[expected.counts > 0])
    now = expected.counts > 0
    np.testing.assert_allclose(held.counts[seen], expected.counts[now], rtol=1e-10)
    np.testing.assert_allclose(held.means[seen], expected.means[now], atol=1e-9 * np.abs(X).max())
    block = rng.normal(size=(X.shape[1], 3))
    scale = np.abs(X).max() ** 2
    np.testing.assert_allclose(held.within_times(block), expected.within_times(block), atol=1e-9 * scale)
    if several:
        np.testing.assert_allclose(held.row_mean, expected.row_mean, atol=1e-9 * np.abs(X).max())
        assert held.row_weight == pytest.approx(expected.row_weight)


@quiet
@pytest.mark.parametrize("loader", [load_wine, load_breast_cancer])
@pytest.mark.parametrize("head", ["gaussian", "nearest_mean"])
@pytest.mark.parametrize("parameter", ["ridge", "epsilon"])
def test_the_curve_is_cross_validation(loader, head, parameter):
    X, y = loader(return_X_y=True)
    make = FisherDiscriminant(head=head) if parameter == "ridge" else MarginSubspace(len(set(y)) - 1, head=head)
    model = clone(make).set_params(**{parameter: "auto"}).fit(X, y)
    choice = model.choice_
    folds = _folds(model._statistics.sample(JUDGES), float(len(X)))
    assert sorted(len(fold) for fold in folds)[0] > 10
    assert choice.n_rows == len(X)
    rows = model._statistics.sample(JUDGES).rows
    for value, accuracy in list(zip(choice.values, choice.accuracies, strict=True))[
        :: 4 if parameter == "ridge" else 3
    ]:
        hits = 0.0
        for fold in folds:
            held = np.array([int(np.flatnonzero((row == X).all(axis=1))[0]) for row in rows[fold]])
            train = np.setdiff1d(np.arange(len(X)), held)
            fixed = clone(make).set_params(**{parameter: value}).fit(X[train], y[train])
            hits += fixed.score(X[held], y[held]) * len(held)
        assert accuracy == pytest.approx(hits / len(X), abs=1.5 / len(X))  # a row on the border may fall either way


@quiet
def test_what_was_chosen_is_what_is_used():
    X, y = load_digits(return_X_y=True)
    ridge = FisherDiscriminant().fit(X, y)
    assert ridge.ridge_ == ridge.choice_.value == ridge.choice_.values[ridge.choice_.best]
    fixed = FisherDiscriminant(ridge=ridge.ridge_).fit(X, y)
    np.testing.assert_allclose(ridge.components_, fixed.components_, atol=1e-10)
    assert fixed.choice_ is None
    epsilon = MarginSubspace(epsilon="auto").fit(X, y)
    kampong = SupervisedKampongMeasure(a="auto").fit(X, y)
    np.testing.assert_array_equal(epsilon.choice_.values, EPSILONS)
    assert kampong.a_ == 1 + 2 * epsilon.epsilon_
    np.testing.assert_allclose(kampong.components_, epsilon.components_, atol=1e-12)


@quiet
@pytest.mark.parametrize("model", [FisherDiscriminant(), MarginSubspace(epsilon="auto")])
def test_near_the_best_of_the_grid(model):
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    train, test = order[:900], order[900:]
    chosen = clone(model).fit(X[train], y[train])
    name = "ridge" if isinstance(model, FisherDiscriminant) else "epsilon"
    scores = [
        clone(model).set_params(**{name: value}).fit(X[train], y[train]).score(X[test], y[test])
        for value in chosen.choice_.values
    ]
    assert max(scores) - min(scores) > 0.03  # the choice matters
    assert chosen.score(X[test], y[test]) > max(scores) - 0.015


@pytest.mark.parametrize("streaming", [False, True])
def test_past_the_width_of_a_scatter_the_choice_is_honest(streaming):
    """With as many columns as rows a model that judged itself by rows it knows would call every ridge perfect."""
    rng = np.random.default_rng(1)
    n, d = 1500, 9000
    y = rng.integers(0, 3, n)
    X = sparse_rows((n, d), 0.004, 1)
    means = sparse.csr_array(rng.normal(size=(3, 30)))
    X = sparse.csr_array(sparse.hstack([means[y] * 0.35 + sparse.csr_array(rng.normal(size=(n, 30))), X]))
    train, test = np.arange(1000), np.arange(1000, n)
    model = FisherDiscriminant()
    model = model.partial_fit(X[train], y[train]) if streaming else model.fit(X[train], y[train])
    assert model.solver_ == ("reservoir" if streaming else "resolvent")
    truth = model.score(X[test], y[test])
    claimed = model.choice_.accuracies[model.choice_.best]
    assert truth < 0.95
    assert abs(claimed - truth) < 0.06  # three standard errors of 500 rows


def test_reading_leaves_no_trace_and_batches_do_not_matter():
    X, y = load_digits(return_X_y=True)
    whole, parts = FisherDiscriminant(), FisherDiscriminant()
    whole.partial_fit(X, y)
    for start in range(0, len(X), 77):
        parts.partial_fit(X[start : start + 77], y[start : start + 77])
        if start:
            parts.predict(X[:3])
    assert parts.ridge_ == pytest.approx(whole.ridge_)
    np.testing.assert_allclose(parts.choice_.accuracies, whole.choice_.accuracies, atol=2e-3)


def test_the_sample_of_judges_is_bounded():
    rng = np.random.default_rng(0)
    model = FisherDiscriminant(reservoir_bytes=50_000)
    for _ in range(20):
        model.partial_fit(rng.normal(size=(500, 4)), rng.integers(0, 2, 500))
    assert model._statistics.nbytes <= 50_000
    assert 200 < model._statistics.n_kept < 500
    assert model.choice_.n_rows == model._statistics.n_kept


def test_one_row_a_class_cannot_be_judged():
    model = FisherDiscriminant().fit(np.eye(3), ["a", "b", "c"])
    assert model.choice_ is None
    assert model.predict(np.eye(3)).tolist() == ["a", "b", "c"]


def test_marks_follow_the_entries_alone():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(50, 6)) * 0.5
    marks = row_marks(X)
    np.testing.assert_array_equal(marks, row_marks(sparse.csr_array(X)))
    np.testing.assert_array_equal(marks[::-1], row_marks(X[::-1]))
    np.testing.assert_array_equal(marks, row_marks(X.astype(np.float32)))
    np.testing.assert_array_equal(marks, row_marks(np.where(X == 0, -0.0, X)))
    same = (X[:, None] == X[None]).all(axis=2)
    np.testing.assert_array_equal(same, marks[:, None] == marks[None])


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (MarginSubspace(epsilon="best"), "epsilon"),
        (SupervisedKampongMeasure(a="best"), "a"),
        (FisherDiscriminant(ridge="best"), "ridge"),
    ],
)
def test_another_word_is_refused(model, text):
    with pytest.raises((ValueError, TypeError), match=rf"{text} .*'best'.*'auto'"):
        model.fit(np.eye(3), [0, 1, 2])
