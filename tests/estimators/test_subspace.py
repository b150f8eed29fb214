"""The estimators: laws of the stream, predictions against scikit-learn, laziness, warnings, many labels."""

import contextlib
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine, make_multilabel_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kampong import (
    CriterionWarning,
    FisherDiscriminant,
    InterClassScatter,
    KernelFisherDiscriminant,
    MarginSubspace,
    MaximumMarginCriterion,
    SupervisedKampongMeasure,
    build,
    criteria,
)
from kampong.selection.settings import SETTINGS
from linear_models import MODELS, quiet
from problems import cut, problem, problems, seeds, sparse_rows
from reference_linear import largest_angle


@contextlib.contextmanager
def grid_for(seed):
    """Search a few values of epsilon and of the ridge for most seeds, which takes a third of the time; all for some."""
    with pytest.MonkeyPatch.context() as patch:
        if seed % 4:
            patch.setattr(criteria, "EPSILONS", criteria.EPSILONS[::4])
        yield


def assert_same_model(first, second, X, tolerance=1e-10):
    """Compare what two models know and say."""
    np.testing.assert_array_equal(first.classes_, second.classes_)
    np.testing.assert_allclose(first.class_counts_, second.class_counts_, rtol=1e-12)
    np.testing.assert_allclose(
        first.eigenvalues_, second.eigenvalues_, atol=tolerance * np.abs(first.eigenvalues_).max()
    )
    assert largest_angle(first.components_, second.components_) < 1e-8
    if first.head_ == second.head_:
        np.testing.assert_allclose(first.predict_proba(X), second.predict_proba(X), atol=1e-7)


BY_PARTS = MarginSubspace(2, epsilon="auto")
"""Its parameter is chosen on parts of the rows, which follow from their numbers: laws of order are for given ones."""
LAWFUL = [model for model in MODELS if str(model) != str(BY_PARTS)]


@quiet
@pytest.mark.parametrize("model", LAWFUL)
@given(data=problems(), seed=seeds)
def test_any_order_any_batches_any_merge_is_one_fit(model, data, seed):
    with grid_for(seed):
        X, y = data
        if len(set(y)) < 3:
            model = clone(model).set_params(n_components=1)
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(X))
        whole = clone(model).fit(X, y)
        streamed, halves = clone(model), [clone(model), clone(model)]
        for number, batch in enumerate(cut(rng, len(X))):
            streamed.partial_fit(X[order][batch], y[order][batch])
            halves[number % 2].partial_fit(X[order][batch], y[order][batch])
        assert_same_model(whole, streamed, X)
        if all(hasattr(half, "n_features_in_") for half in halves):
            merged = halves[0].merge(halves[1])
            assert_same_model(whole, merged, X)
            assert merged.n_samples_seen_ == len(X)


@quiet
@pytest.mark.parametrize("model", LAWFUL)
@given(seed=seeds)
def test_weights_and_sparse_rows(model, seed):
    with grid_for(seed):
        X, y = problem(seed, rows=60)
        weights = np.random.default_rng(seed).integers(0, 3, 60)
        repeated = np.repeat(np.arange(60), weights)
        weighted = clone(model).fit(X, y, sample_weight=weights)
        given = model.get_params()
        if not {given.get("ridge"), given.get("epsilon"), given.get("a")} & {"auto", "rule"}:  # which count rows
            assert_same_model(weighted, clone(model).fit(X[repeated], y[repeated]), X)
        assert_same_model(weighted, clone(model).fit(X[weights > 0], y[weights > 0], weights[weights > 0]), X)
        assert_same_model(weighted, clone(model).fit(sparse.csr_array(X), y, sample_weight=weights), X)


@quiet
@pytest.mark.parametrize("model", MODELS)
@given(seed=seeds, decay=st.floats(0.8, 0.999))
def test_decay_counts_rows_not_batches_and_knows_weights(model, seed, decay):
    with grid_for(seed):
        X, y = problem(seed, rows=50)
        rng = np.random.default_rng(seed)
        ages = len(X) - 1 - np.arange(len(X))
        model = clone(model)
        by_hand = clone(model).fit(X, y, sample_weight=decay**ages)
        model.set_params(decay=decay)
        assert_same_model(by_hand, clone(model).fit(X, y), X)
        streamed = clone(model)
        for batch in cut(rng, len(X)):
            streamed.partial_fit(X[batch], y[batch])
        assert_same_model(by_hand, streamed, X)
        weights = rng.exponential(size=len(X)) * rng.integers(0, 2, len(X))
        weights[[np.flatnonzero(y == label)[0] for label in np.unique(y)]] = 1.0
        number = np.cumsum(weights > 0)  # a row ages those before it by one step, whatever its weight
        by_hand = clone(model).set_params(decay=1.0).fit(X, y, sample_weight=weights * decay ** (number[-1] - number))
        assert_same_model(clone(model).fit(X, y, sample_weight=weights), by_hand, X)


@quiet
@given(data=problems())
def test_presets_are_one_criterion(data):
    X, y = data
    pairs = [
        (SupervisedKampongMeasure(1, a=1), InterClassScatter(1)),
        (SupervisedKampongMeasure(1, a=3), MaximumMarginCriterion(1)),
        (MarginSubspace(1, epsilon=0), InterClassScatter(1)),
        (MarginSubspace(1), MaximumMarginCriterion(1)),
    ]
    for first, second in pairs:
        np.testing.assert_array_equal(first.fit(X, y).components_, second.fit(X, y).components_)


@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_fisher_without_a_ridge_is_scikit_learns_lda(load):
    X, y = load(return_X_y=True)
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(X, y)
    ours = FisherDiscriminant(ridge=0.0).fit(X, y)
    rank = len(set(y)) - 1
    theirs = lda.scalings_[:, :rank].T
    signs = np.sign(np.einsum("pd,pd->p", theirs, ours.components_))
    np.testing.assert_allclose(ours.components_, signs[:, None] * theirs, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ours.criterion_ratio_, lda.explained_variance_ratio_[:rank], rtol=1e-9)
    np.testing.assert_array_equal(ours.predict(X), lda.predict(X))
    np.testing.assert_allclose(ours.predict_proba(X), lda.predict_proba(X), atol=1e-9)
    scores = lda.decision_function(X)
    np.testing.assert_allclose(np.diff(ours.decision_function(X)), np.diff(scores), rtol=1e-7, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Only one sample available")  # scikit-learn's word on classes of one row
@given(data=problems())
def test_fisher_without_a_ridge_is_scikit_learns_lda_on_any_data(data):
    X, y = data
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(X, y)
    ours = FisherDiscriminant(ridge=0.0).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), lda.predict_proba(X), atol=1e-8)
    if len(set(y)) == 2:
        np.testing.assert_allclose(ours.decision_function(X), lda.decision_function(X), rtol=1e-6, atol=1e-8)


def test_the_ridge_rule_fades_with_the_data_and_knows_the_units():
    X, y = load_digits(return_X_y=True)
    ours = FisherDiscriminant(ridge="rule").fit(X, y)
    centred = X - np.array([X[y == k].mean(axis=0) for k in range(10)])[y]
    variances = (centred**2).mean(axis=0)
    assert ours.ridge_ == pytest.approx(64 / len(X) * np.percentile(variances[variances > 0], 25))
    twice = FisherDiscriminant(ridge="rule").fit(np.vstack([X, X]), np.concatenate([y, y]))
    assert twice.ridge_ == pytest.approx(ours.ridge_ / 2)
    wide = FisherDiscriminant(ridge="rule", solver="resolvent").fit(X, y)
    assert wide.ridge_ == pytest.approx(variances.sum() / len(X))
    wine, label = load_wine(return_X_y=True)  # one feature has a variance a million times that of another
    plain = cross_val_score(FisherDiscriminant(ridge=0.0), wine, label, cv=5).mean()
    for rule in ("rule", "auto"):
        assert cross_val_score(FisherDiscriminant(ridge=rule), wine, label, cv=5).mean() > plain - 0.02


def test_nearest_mean_head_is_scikit_learns_nearest_centroid():
    X, y = load_digits(return_X_y=True)
    ours = InterClassScatter(head="nearest_mean").fit(X, y)
    assert ours.head_ == "nearest_mean"
    projected = ours.transform(X)
    np.testing.assert_array_equal(ours.predict(X), NearestCentroid().fit(projected, y).predict(projected))


def test_gaussian_head_is_lda_inside_the_subspace():
    X, y = load_digits(return_X_y=True)
    for model in (InterClassScatter(), InterClassScatter(4), MarginSubspace(3, epsilon=0.1)):
        projected = model.fit(X, y).transform(X)
        assert model.head_ == "gaussian"
        inside = LinearDiscriminantAnalysis(solver="lsqr").fit(projected, y)
        np.testing.assert_allclose(model.predict_proba(X), inside.predict_proba(projected), atol=1e-8)


def test_the_head_falls_back_where_a_stream_keeps_no_scatter():
    X, y = load_digits(return_X_y=True)
    assert InterClassScatter().partial_fit(X, y).head_ == "nearest_mean"
    assert InterClassScatter(head="gaussian").partial_fit(X, y).head_ == "gaussian"
    assert MarginSubspace(epsilon=0.1).partial_fit(X, y).head_ == "gaussian"
    model = InterClassScatter().fit(X, y)
    assert model.head_ == "gaussian"
    assert model.partial_fit(X, y).head_ == "nearest_mean"
    wide = sparse_rows((30, 9000), 0.01, 0)
    assert InterClassScatter(head="gaussian").partial_fit(wide, [0, 1] * 15).head_ == "gaussian"
    gaussian = InterClassScatter(head="gaussian").fit(wide, [0, 1] * 15)
    assert gaussian.head_ == "gaussian"
    with pytest.raises(ValueError, match="out of date after partial_fit"):
        gaussian.partial_fit(wide, [0, 1] * 15).predict(wide)


def test_a_large_fit_measures_its_head_on_a_sample(monkeypatch):
    X, y = load_digits(return_X_y=True)
    full = InterClassScatter().fit(X, y)
    monkeypatch.setattr(build, "SETTINGS", replace(SETTINGS, head_rows=1000, head_rows_per_direction=1))
    sampled = InterClassScatter().fit(X, y)
    np.testing.assert_array_equal(sampled.components_, full.components_)
    exact, estimate = full.freeze().head.weights, sampled.freeze().head.weights
    assert 0 < np.abs(exact - estimate).max() / np.abs(exact).max() < 0.1
    np.testing.assert_array_equal(estimate, InterClassScatter().fit(X, y).freeze().head.weights)


def test_transform_centres_and_inverts():
    X, y = load_wine(return_X_y=True)
    with pytest.warns(CriterionWarning, match="others lower it"):
        model = MarginSubspace(13).fit(X, y)
    points = model.transform(X)
    np.testing.assert_allclose(points.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(model.inverse_transform(points), X, atol=1e-9)
    np.testing.assert_allclose(points, (X - X.mean(axis=0)) @ model.components_.T, atol=1e-9)
    fisher = FisherDiscriminant(ridge=0.5).fit(X, y)
    points = fisher.transform(X)
    back = fisher.inverse_transform(points)
    np.testing.assert_allclose(fisher.transform(back), points, atol=1e-9)
    np.testing.assert_allclose(sparse_transform(fisher, X), points, atol=1e-8)
    with pytest.raises(ValueError, match=r"FisherDiscriminant.inverse_transform: X has 3 columns, expected 2"):
        fisher.inverse_transform(np.ones((2, 3)))


def sparse_transform(model, X):
    return model.transform(sparse.csr_matrix(X))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csc_matrix])
def test_float32_in_is_float32_out_within_its_rounding(form):
    X, y = load_digits(return_X_y=True)
    double = FisherDiscriminant().fit(X, y)
    single = FisherDiscriminant().fit(form(X.astype(np.float32)), y)
    points = single.transform(form(X.astype(np.float32)))
    assert points.dtype == np.float32
    assert single.inverse_transform(points).dtype == np.float32
    assert double.transform(form(X)).dtype == np.float64
    np.testing.assert_allclose(single.components_, double.components_, atol=1e-12)
    np.testing.assert_allclose(points, double.transform(X), atol=2e-5 * np.abs(points).max())


def test_the_solve_is_lazy_and_happens_once_a_state(monkeypatch):
    calls = []
    original = build.solve
    monkeypatch.setattr(build, "solve", lambda *a, **k: calls.append(1) or original(*a, **k))
    X, y = load_digits(return_X_y=True)
    model = FisherDiscriminant()
    for start in range(0, 1000, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100])
    assert not calls
    assert model.classes_.tolist() == list(range(10))
    assert not calls
    model.components_, model.eigenvalues_, model.transform(X), model.predict(X), model.score(X, y)
    assert len(calls) == 1
    model.partial_fit(X[:1], y[:1]).predict(X)
    assert len(calls) == 2
    FisherDiscriminant().fit(X, y).predict(X)
    assert len(calls) == 3


def test_auto_counts_the_fisher_ratios_above_epsilon():
    X, y = load_wine(return_X_y=True)
    ratios = FisherDiscriminant(ridge=0.0).fit(X, y).eigenvalues_
    for epsilon in (0.5, ratios[1] * 0.99, ratios[1] * 1.01, ratios[0] * 0.99):
        assert len(MarginSubspace(epsilon=epsilon).fit(X, y).components_) == np.count_nonzero(ratios > epsilon)


def test_where_no_direction_raises_the_criterion_a_warning_says_what_would():
    X, y = problem(3, classes=2, rows=200, features=3)
    y = np.random.default_rng(0).permutation(y)
    with pytest.warns(CriterionWarning, match="largest ratio of between-class to within-class variance is") as caught:
        model = MarginSubspace().fit(X, y)
    assert model.components_.shape == (1, 3)
    assert model.eigenvalues_[0] < 0
    np.testing.assert_array_equal(model.criterion_ratio_, [0.0])
    text = str(caught[0].message)
    epsilon = float(text.split("; set epsilon=")[1].split(" ")[0])
    ratio = FisherDiscriminant(ridge=0.0).fit(X, y).eigenvalues_[0]
    assert f"{ratio:.4g}" in text
    assert 0 < epsilon < ratio
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert MarginSubspace(epsilon=epsilon).fit(X, y).eigenvalues_[0] > 0
    with pytest.warns(CriterionWarning, match="; set a=1") as caught:
        SupervisedKampongMeasure(a=3).fit(X, y)
    a = float(str(caught[0].message).split("; set a=")[1].split(" ")[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SupervisedKampongMeasure(a=a).fit(X, y)


def test_more_directions_than_raise_the_criterion_warn_once_a_model():
    X, y = load_iris(return_X_y=True)
    model = MaximumMarginCriterion(3)
    with pytest.warns(
        CriterionWarning, match="1 of the 3 directions raise the margin criterion S_b − 1·S_w; the others"
    ):
        model.partial_fit(X, y).transform(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(X, y).transform(X)
    for solver in ("auto", "scatter"):
        with pytest.warns(CriterionWarning, match=r"2 of the 4 directions raise .*; it is indifferent to the others"):
            InterClassScatter(4, solver=solver).fit(X, y)


def test_classes_may_be_declared_and_may_come_later():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = FisherDiscriminant(ridge=0.0).partial_fit(
        X[:100], names[:100], classes=["virginica", "setosa", "versicolor"]
    )
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert model.class_counts_.tolist() == [50, 50, 0]
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (150, 3)
    assert not probabilities[:, 2].any()
    np.testing.assert_array_equal(model.class_means_[2], model.mean_)
    model.partial_fit(X[100:], names[100:])
    assert_same_model(model, FisherDiscriminant(ridge=0.0).fit(X, names), X)
    model.partial_fit(X[:5], ["unknown"] * 5)
    assert "unknown" in model.classes_


@quiet
def test_multilabel_targets():
    X, Y = make_multilabel_classification(400, 15, n_classes=4, random_state=0)
    for model in (FisherDiscriminant(), InterClassScatter(), MarginSubspace(2, epsilon=0.1, head="nearest_mean")):
        dense = clone(model).fit(X, Y)
        held = clone(model).fit(sparse.csr_array(X), sparse.csr_array(Y))
        np.testing.assert_allclose(dense.decision_function(X), held.decision_function(sparse.csr_array(X)), atol=1e-8)
        assert dense.predict(X).shape == Y.shape
        np.testing.assert_array_equal(dense.predict(X), dense.predict_proba(X) > 0.5)
        accuracy = (dense.predict(X) == Y).mean()
        assert accuracy > max(Y.mean(), 1 - Y.mean()) + 0.05
    always = np.hstack([Y, np.ones((400, 1), dtype=int), np.zeros((400, 1), dtype=int)])
    predicted = FisherDiscriminant().fit(X, always).predict(X)
    assert predicted[:, 4].all()
    assert not predicted[:, 5].any()


def test_multilabel_log_odds_are_two_gaussians_a_label():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 3))
    Y = (X @ rng.standard_normal((3, 2)) + 0.3 * rng.standard_normal((300, 2)) > 0).astype(int)
    model = FisherDiscriminant(1, ridge=0.2).fit(X, Y)
    points = model.transform(X)[:, 0]
    within = sum(((points[Y[:, k] == 1] - points[Y[:, k] == 1].mean()) ** 2).sum() for k in range(2)) / Y.sum()
    within += 0.2 * (model.components_**2).sum()  # the ridge is in the head too
    for k in range(2):
        inside, outside = points[Y[:, k] == 1].mean(), points[Y[:, k] == 0].mean()
        prior = Y[:, k].mean()
        odds = ((points - outside) ** 2 - (points - inside) ** 2) / (2 * within) + np.log(prior / (1 - prior))
        np.testing.assert_allclose(model.decision_function(X)[:, k], odds, atol=1e-9)


def test_a_class_of_one_sample_and_a_single_feature():
    X, y = load_iris(return_X_y=True)
    single = FisherDiscriminant(ridge=0.0).fit(X[:101], y[:101])
    assert single.class_counts_.tolist() == [50, 50, 1]
    np.testing.assert_allclose(single.class_means_[2], X[100])
    narrow = MaximumMarginCriterion().fit(X[:, 2:3], y)
    np.testing.assert_array_equal(narrow.components_, [[1.0]])
    assert narrow.score(X[:, 2:3], y) > 0.9
    points = FisherDiscriminant().fit(np.eye(3), [0, 1, 2])
    assert points.predict(np.eye(3)).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="S_w is zero, every class is a single point, and ridge is 0"):
        FisherDiscriminant(ridge=0).fit(np.eye(3), [0, 1, 2])


def test_it_lives_in_a_pipeline_with_names_and_frames():
    X, y = load_wine(return_X_y=True, as_frame=True)
    pipe = make_pipeline(StandardScaler(), FisherDiscriminant(), GaussianNB())
    assert cross_val_score(pipe, X, y, cv=5).mean() > 0.95
    model = FisherDiscriminant().set_output(transform="pandas").fit(X, y)
    frame = model.transform(X)
    assert list(frame.columns) == ["fisherdiscriminant0", "fisherdiscriminant1"]
    np.testing.assert_array_equal(model.get_feature_names_out(), frame.columns)


def test_a_pickled_stream_goes_on():
    X, y = load_digits(return_X_y=True)
    model = FisherDiscriminant().partial_fit(X[:900], y[:900])
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        copy.partial_fit(X[900:], y[900:]).components_, model.partial_fit(X[900:], y[900:]).components_
    )


def test_no_d_by_d_array_for_wide_rows():
    import tracemalloc

    X = sparse_rows((200, 200_000), 1e-3, 0)
    y = np.arange(200) % 4
    InterClassScatter().fit(X[:50], y[:50])
    tracemalloc.start()
    InterClassScatter().fit(X, y).transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 4 * 200_000 * 8  # a few blocks of class means; d × d would be 320 GB
    with pytest.raises(ValueError, match=r"would keep a 200000 × 200000 matrix \(298.0 GiB\).*Use solver='auto'"):
        MaximumMarginCriterion(solver="scatter").fit(X, y)


@quiet
@pytest.mark.parametrize("ridge", ["rule", "auto"])
def test_a_class_and_its_columns_fade_with_forgotten_rows_and_leave_no_trace(ridge):
    rng = np.random.default_rng(0)
    X, y = problem(0, classes=2, rows=1200, features=2)
    early = np.arange(1200) < 40
    y[early] = np.arange(40) % 3
    alone = np.where(early[:, None], rng.normal(size=(1200, 6)) + 3.0 * (y == 2)[:, None], 0.0)
    X, batches = np.column_stack([X, alone]), np.split(np.arange(1200), 60)
    model = FisherDiscriminant(ridge=ridge, half_life=1.0, head="gaussian")
    for batch in batches:
        model.partial_fit(X[batch], y[batch])
        assert np.isfinite(model.predict_proba(X)).all()
    # what is left of them is no more than a number near 2^-1160, if that is one
    assert model._statistics.within_variances()[2:].max() < 1e-300
    assert model.class_counts_[2] < 1e-300
    without = FisherDiscriminant(ridge=model.ridge_, half_life=1.0)
    for batch in batches:
        without.partial_fit(X[batch, :2], y[batch])
    test = problem(1, rows=50, features=2)[0]
    scores = model.decision_function(np.column_stack([test, np.zeros((50, 6))]))[:, :2]
    expected = without.decision_function(test)[:, :2]
    np.testing.assert_allclose(scores - scores[:, :1], expected - expected[:, :1], atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("load", [load_wine, load_iris])
def test_the_names_of_scikit_learns_lda(load):
    X, y = load(return_X_y=True)
    for rows, labels in ((X, y), (X[y < 2], y[y < 2])):
        ours, peer = FisherDiscriminant(ridge=0.0).fit(rows, labels), LinearDiscriminantAnalysis().fit(rows, labels)
        np.testing.assert_allclose(ours.means_, peer.means_)
        np.testing.assert_allclose(ours.priors_, peer.priors_)
        np.testing.assert_allclose(ours.xbar_, peer.xbar_)
        np.testing.assert_allclose(ours.explained_variance_ratio_, peer.explained_variance_ratio_, atol=1e-9)
        assert largest_angle(ours.scalings_.T, peer.scalings_.T[: len(ours.components_)]) < 1e-6
        scores = rows @ ours.coef_.T + ours.intercept_
        expected = ours.decision_function(rows)
        np.testing.assert_allclose(scores.ravel() if scores.shape[1] == 1 else scores, expected, atol=1e-6)


def test_a_head_that_is_not_linear_has_no_weights():
    X, y = load_digits(return_X_y=True)
    model = FisherDiscriminant(head="quadratic").fit(X, y)
    assert not hasattr(model, "coef_")
    with pytest.raises(AttributeError, match=r"head='quadratic' is not linear, so it has no coef_ and intercept_. Set"):
        _ = model.coef_


def test_rows_of_no_known_class_score_low():
    X, y = load_digits(return_X_y=True)
    known = y < 8
    model = FisherDiscriminant().fit(X[known][:1000], y[known][:1000])
    inside, outside = model.score_samples(X[known][1000:]), model.score_samples(X[~known])
    ranks = np.argsort(np.argsort(np.r_[inside, outside]))
    area = (ranks[: len(inside)].sum() - len(inside) * (len(inside) - 1) / 2) / (len(inside) * len(outside))
    assert area > 0.8
    frozen, points = model.freeze(), model.transform(X[:5])
    near = [max(multivariate_normal(c).logpdf(z) for c in frozen.centres) for z in points]
    among = multivariate_normal(np.zeros(7), np.diag(1 + model.eigenvalues_))
    ratio = np.array(near) - among.logpdf(points)
    np.testing.assert_allclose(model.score_samples(X[:5]), ratio - 0.5 * np.log1p(model.eigenvalues_).sum())


def test_rows_far_from_everything_score_lowest():
    X, y = load_digits(return_X_y=True)
    model = FisherDiscriminant().fit(X, y)
    assert model.score_samples(100 * X[:50]).max() < model.score_samples(X).min()


@pytest.mark.parametrize("model", [FisherDiscriminant(), KernelFisherDiscriminant(landmarks=60)], ids=repr)
def test_prototypes_are_the_means_and_the_kept_rows_nearest_to_them(model):
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    found = model.fit(X, names).prototypes(4)
    points = model.transform(X)
    for one in found:
        mine = np.flatnonzero(names == one.label)
        apart = np.linalg.norm(points[mine] - points[mine].mean(axis=0), axis=1)
        np.testing.assert_allclose(one.distances, np.sort(apart)[:4], rtol=1e-6)
        assert {row.tobytes() for row in one.rows} <= {row.tobytes() for row in X[mine]}
    assert [one.label for one in found] == ["a", "b", "c"]
    np.testing.assert_allclose([one.mean for one in found], model.class_means_)
    assert [one.weight for one in found] == [50, 50, 50]
    given = FisherDiscriminant(ridge=0.1).fit(X, names).prototypes()
    assert all(one.rows.shape == (0, 4) for one in given)
    with pytest.raises(ValueError, match=r"n_rows must be an integer of at least 0, got -1"):
        model.prototypes(-1)


@pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")
@pytest.mark.parametrize("rows", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_columns_past_the_classes_are_pca_of_what_the_class_means_leave(rows):
    X, y = problem(8, classes=3, rows=200, features=6)
    model = InterClassScatter(5).fit(rows(X), y)
    first, further = model.components_[:2], model.components_[2:]
    np.testing.assert_allclose(np.abs(first), np.abs(InterClassScatter().fit(rows(X), y).components_), atol=1e-8)
    left = (X - X.mean(axis=0)) @ (np.eye(6) - first.T @ first)
    leading = np.linalg.eigh(left.T @ left)[1][:, ::-1][:, :3]
    np.testing.assert_allclose(np.abs(further @ leading), np.eye(3), atol=1e-6)
