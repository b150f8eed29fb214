"""Parameters and heads chosen by rows held out: as if those had never come, and smoothly."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_classification
from threadpoolctl import threadpool_info, threadpool_limits

from kampong import FisherDiscriminant, KernelFisherDiscriminant, MarginSubspace, SupervisedKampongMeasure
from kampong.criteria import EPSILONS
from kampong.datasets import sparse_text, waveform
from kampong.heads.calibration import (
    GAIN,
    ValidationRows,
    calibrated,
    fit_calibration,
    fit_weights,
    least_point,
    selection_loss,
)
from kampong.heads.quadratic import ClassShapes
from kampong.selection.evidence import among_means, gaussian_scores
from kampong.selection.leave_one_out import LeaveOneOut, at_ridges, least_ridges
from kampong.selection.settings import SETTINGS
from kampong.statistics.all_rows import ClassRows
from kampong.statistics.held_out import TrainingStatistics
from kampong.statistics.reservoir import ClassReservoir, SampledScatter
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
    held = TrainingStatistics(everything, sample, fold)
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
    diagonal = np.diag(expected.within_times(np.eye(X.shape[1])))
    np.testing.assert_allclose(expected.within_variances(), diagonal, atol=1e-9 * scale)
    np.testing.assert_allclose(held.within_variances(), diagonal, atol=1e-9 * scale)
    if several:
        np.testing.assert_allclose(held.row_mean, expected.row_mean, atol=1e-9 * np.abs(X).max())
        assert held.row_weight == pytest.approx(expected.row_weight)


# Rows left out one by one, in closed form.


def left_out_by_hand(X, y, weights, row, ridge):
    """Fit without one unit of a row; return its products with the class means, their squares, and the regression."""
    weights = weights.astype(float).copy()
    full = weights @ X / weights.sum()
    weights[row] -= min(weights[row], 1.0)
    total, classes = weights.sum(), np.unique(y)
    means = np.array([weights[y == k] @ X[y == k] / weights[y == k].sum() for k in classes])
    centred = (X - means[np.searchsorted(classes, y)]) * np.sqrt(weights)[:, None]
    ridge = ridge * (total + 1.0) / total  # a ridge that counts as a sum over rows keeps its size
    inverse = np.linalg.inv(centred.T @ centred / total + ridge * np.eye(X.shape[1]))
    return (X[row] - full) @ inverse @ (means - full).T, np.einsum("kd,de,ke->k", means - full, inverse, means - full)


@given(seed=st.integers(0, 10**6), weighted=st.booleans(), features=st.sampled_from([2, 4]), redundant=st.booleans())
def test_a_row_left_out_in_closed_form_is_a_fit_without_it(seed, weighted, features, redundant):
    X, y = problem(seed, classes=3, rows=30, features=features)
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 3, 30) if weighted else np.ones(30, dtype=int)
    if redundant:  # sums of the others, constant columns, and two that are constant within each class
        same = rng.normal(size=(3, 2))[y]
        X = np.hstack([X @ rng.normal(size=(features, 2 * features)), np.full((30, 3), 5.0), same])
        features = X.shape[1]
    rows = LeaveOneOut(SampledScatter(features).update(X, y, weights))
    assert len(rows.values) == (np.linalg.matrix_rank(X - X.mean(axis=0)) if redundant else features)
    ridge = 0.3 * rows.usual * 10.0 ** rng.uniform(-1, 3)
    parts = rows.parts(ridge)
    sample = SampledScatter(features).update(X, y, weights).sample()
    for place, judge in enumerate(rows.validation_rows[:8]):
        row = int(np.flatnonzero((sample.rows[judge] == X).all(axis=1))[0])
        products, squares = left_out_by_hand(X, y, weights, row, ridge)
        scale = np.abs(products).max() + np.abs(squares).max()
        np.testing.assert_allclose(parts.products[place], products, atol=1e-7 * scale)
        np.testing.assert_allclose(parts.squares[place], squares, atol=1e-7 * scale)


@given(seed=st.integers(0, 10**6), rows=st.sampled_from([7, 12]), constant=st.booleans())
def test_few_rows_of_many_columns_are_left_out_as_well(seed, rows, constant):
    """The rank is less than the rows, and the class means differ where nothing varies within a class."""
    rng = np.random.default_rng(seed)
    y = np.arange(rows) % 3
    X = rng.normal(size=(rows, 40)) + rng.normal(size=(3, 40))[y]
    if constant:
        X[:, 10:30], X[:, 30:] = 4.0, X[:, :10]
    left_out = LeaveOneOut(SampledScatter(40).update(X, y))
    assert len(left_out.values) == np.linalg.matrix_rank(X - X.mean(axis=0))
    ridge, sample = left_out.usual * 10.0 ** rng.uniform(-1, 2), SampledScatter(40).update(X, y).sample()
    parts = left_out.parts(ridge)
    for place, judge in enumerate(left_out.validation_rows):
        row = int(np.flatnonzero((sample.rows[judge] == X).all(axis=1))[0])
        products, squares = left_out_by_hand(X, y, np.ones(rows), row, ridge)
        scale = np.abs(products).max() + np.abs(squares).max()
        np.testing.assert_allclose(parts.products[place], products, atol=1e-7 * scale)
        np.testing.assert_allclose(parts.squares[place], squares, atol=1e-7 * scale)


@given(seed=st.integers(0, 10**6), features=st.sampled_from([1, 2, 3, 5]))
def test_the_regression_left_out_is_least_squares_without_the_row(seed, features):
    X, y = problem(seed, classes=3, rows=25, features=features)
    rows = LeaveOneOut(SampledScatter(features).update(X, y))
    ridge = rows.usual * 3.0
    parts, sample = rows.parts(ridge), SampledScatter(features).update(X, y).sample()
    centred = np.hstack([X - X.mean(axis=0), np.ones((25, 1))])
    pull = np.diag([ridge * 25] * features + [0.0])
    targets = np.eye(3)[y]
    for place, judge in list(enumerate(rows.validation_rows))[::4]:
        row = int(np.flatnonzero((sample.rows[judge] == X).all(axis=1))[0])
        kept = np.arange(25) != row
        theta = np.linalg.solve(centred[kept].T @ centred[kept] + pull, centred[kept].T @ targets[kept])
        np.testing.assert_allclose(parts.regression[place], centred[row] @ theta, atol=1e-8)


@given(seed=st.integers(0, 10**6), K=st.integers(2, 9), p=st.integers(1, 9))
def test_lengths_among_the_class_means_are_those_of_a_projection(seed, K, p):
    rng = np.random.default_rng(seed)
    centres, points = rng.normal(size=(K, p)), rng.normal(size=(5, p))
    inside = points @ np.linalg.pinv(centres) @ centres
    found = among_means(points @ centres.T, centres)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), np.linalg.norm(inside, axis=1), rtol=1e-6)


@given(seed=st.integers(0, 10**6), features=st.sampled_from([2, 5]))
def test_several_ridges_and_units_at_once_are_each_alone(seed, features):
    X, y = problem(seed, classes=3, rows=30, features=features)
    plain = SampledScatter(features).update(X, y)
    views = [LeaveOneOut(plain), LeaveOneOut(plain.in_units(plain.units()))]
    ridges = views[0].usual * np.array([0.01, 1.0, 30.0])
    whole = views[0].gaussian(ridges, 20)
    for place, ridge in enumerate(ridges):
        alone = views[0].parts(float(ridge))
        expected = gaussian_scores(alone.products, alone.squares, views[0].log_priors)[:20]
        np.testing.assert_allclose(whole[place, 0], expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
        np.testing.assert_array_equal(whole[place, 1], np.tile(views[0].log_priors, (20, 1)))
    for together, view, ridge in zip(at_ridges(views, [0.1, 0.2]), views, [0.1, 0.2], strict=True):
        one = at_ridges([view], [ridge])[0]
        np.testing.assert_array_equal(together.scores, one.scores)
        assert together.loss == pytest.approx(one.loss, rel=100 * GAIN)
    for together, view in zip(least_ridges(views), views, strict=True):
        one = least_ridges([view])[0]
        # Newton's method ends after a step that gains less than GAIN; what is left is of that order
        np.testing.assert_allclose(together.losses, one.losses, rtol=100 * GAIN)
        assert together.ridge == pytest.approx(one.ridge, rel=1e-4)


def test_of_many_classes_few_rows_are_compared_and_no_expensive_head():
    K, n = 300, 1500
    rng = np.random.default_rng(0)
    y = np.arange(n) % K
    means = 3.0 * rng.normal(size=(K, 12))
    X = means[y] + rng.normal(size=(n, 12))
    model = FisherDiscriminant().fit(X, y)
    assert n * K * 12 > SETTINGS.logistic_cost
    assert SETTINGS.logistic_scatters * 12 < K
    assert "logistic" not in model.choice_.heads
    assert model.choice_.n_rows == SETTINGS.curve_scores // K
    new = means[y] + rng.normal(size=(n, 12))
    assert model.score(new, y) >= FisherDiscriminant(ridge=model.ridge_, head="gaussian").fit(X, y).score(new, y) - 0.02


@given(seed=st.integers(0, 10**6), shrinkage=st.sampled_from([1.0, 20.0, 500.0]))
def test_a_class_shape_left_out_is_one_without_the_row(seed, shrinkage):
    points, codes = problem(seed, classes=3, rows=40, features=3)
    own, lift = np.ones(40), 0.1 * np.eye(3)
    logs = np.log(np.bincount(codes) / 40)
    shapes = ClassShapes(points, codes, own, 3, lift)
    found = shapes.left_out(points, ValidationRows(codes, own), own, np.array([shrinkage]), logs)[:, :, 0]
    for row in range(0, 40, 7):
        for k in range(3):
            mine = points[(codes == k) & (np.arange(40) != row)]
            if len(mine) < 2:
                continue
            n, mean = len(mine), mine.mean(axis=0)
            # what the ridge adds belongs to all rows of the class, the one that leaves included
            before = int((codes == k).sum())
            shape = (mine - mean).T @ (mine - mean) + before * lift + shrinkage * np.eye(3)
            covariance = shape / (n + shrinkage)
            away = points[row] - mean
            score = -0.5 * (away @ np.linalg.solve(covariance, away) + np.linalg.slogdet(covariance)[1]) + logs[k]
            assert found[row, k] == pytest.approx(score, rel=1e-6, abs=1e-6)


def test_the_curve_has_its_least_point_between_nodes():
    nodes = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    assert least_point(nodes, (nodes - 0.3) ** 2) == pytest.approx(0.3, abs=1e-12)
    assert least_point(nodes, nodes) == -2.0


def test_weights_are_those_of_the_least_loss_and_never_negative():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, 500)
    good, noise = rng.normal(size=(500, 4)), rng.normal(size=(500, 4))
    good[np.arange(500), codes] += 1.5
    validation = ValidationRows(codes, np.ones(500))
    weights, loss = fit_weights(np.stack([good, noise, -good]), validation, np.array([0.3, 0.0, 0.0]))
    assert weights.min() >= 0
    assert weights[2] == 0
    for b in (0.9, 1.1):
        other = (b * weights[0]) * good + weights[1] * noise
        worse = -np.mean(other[np.arange(500), codes] - np.log(np.exp(other).sum(axis=1)))
        assert worse > loss


def test_a_calibration_never_changes_what_is_most_probable():
    rng = np.random.default_rng(1)
    scores = 30 * rng.normal(size=(400, 3))
    codes = np.where(rng.random(400) < 0.6, scores.argmax(axis=1), rng.integers(0, 3, 400))
    validation = ValidationRows(codes, np.ones(400))
    sharpness, tail = fit_calibration(scores, validation)
    logs = calibrated(scores, sharpness, tail)
    np.testing.assert_array_equal(logs.argmax(axis=1), scores.argmax(axis=1))
    np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1)
    sure = -np.mean(calibrated(scores, 1.0, 0.0)[np.arange(400), codes])
    assert -np.mean(logs[np.arange(400), codes]) < 0.2 * sure
    assert selection_loss(scores, validation, sharpness, tail) < selection_loss(scores, validation)


# What is chosen.


@quiet
def test_what_was_chosen_is_what_is_used():
    X, y = load_digits(return_X_y=True)
    model = FisherDiscriminant().fit(X, y)
    choice = model.choice_
    assert model.ridge_ == choice.value
    assert len(choice.values) == len(choice.losses) == len(SETTINGS.ridge_nodes)
    assert model.head_ in choice.heads
    assert choice.heads[model.head_] <= min(choice.heads.values()) + 0.002
    fixed = FisherDiscriminant(ridge=model.ridge_).fit(X, y)
    np.testing.assert_allclose(model.components_, fixed.components_, atol=1e-10)
    assert fixed.choice_ is None
    assert fixed.head_ == "gaussian"
    epsilon = MarginSubspace(epsilon="auto").fit(X, y)
    kampong = SupervisedKampongMeasure(a="auto").fit(X, y)
    np.testing.assert_array_equal(epsilon.choice_.values, EPSILONS)
    assert kampong.a_ == 1 + 2 * epsilon.epsilon_
    np.testing.assert_allclose(kampong.components_, epsilon.components_, atol=1e-12)


@quiet
@pytest.mark.parametrize("model", [FisherDiscriminant(head="gaussian"), MarginSubspace(epsilon="auto")])
def test_near_the_best_of_the_grid(model):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:900], order[900:]
    chosen = clone(model).fit(X[train], y[train])
    name = "ridge" if isinstance(model, FisherDiscriminant) else "epsilon"
    scores = [
        clone(model).set_params(**{name: value}).fit(X[train], y[train]).score(X[test], y[test])
        for value in chosen.choice_.values
    ]
    assert chosen.score(X[test], y[test]) > max(scores) - 0.02


HEADS = ("gaussian", "nearest_mean", "cosine", "regression", "quadratic", "logistic", "hinge", "mixture")


@quiet
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("streamed", [False, True])
def test_every_head_can_be_asked_for(head, streamed, tmp_path):
    import kampong

    X, y = load_digits(return_X_y=True)
    model = FisherDiscriminant(head=head)
    if streamed:
        for start in range(0, 1200, 300):
            model.partial_fit(X[start : start + 300], y[start : start + 300])
    else:
        model.fit(X[:1200], y[:1200])
    assert model.head_ == head
    assert model.score(X[1200:], y[1200:]) > 0.88
    chances = model.predict_proba(X[1200:])
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[chances.argmax(axis=1)], model.predict(X[1200:]))
    loss = -np.mean(np.log(chances[np.arange(len(chances)), y[1200:]]))
    assert loss < 0.6
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(kampong.load(tmp_path / "model").predict_proba(X), model.predict_proba(X))
    halves = [FisherDiscriminant(head=head, random_state=s).fit(X[s:1200:2], y[s:1200:2]) for s in (0, 1)]
    merged = halves[0].merge(halves[1])
    assert (merged.predict(X[1200:]) == model.predict(X[1200:])).mean() > 0.97


@quiet
def test_heads_from_a_sample_need_one():
    X, y = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match=r"head='quadratic' is trained on a sample of rows .* head='gaussian'"):
        FisherDiscriminant(ridge=0.1, head="quadratic").fit(X, np.eye(3, dtype=int)[y])
    for model in (MarginSubspace(2, epsilon="auto", head="logistic"), FisherDiscriminant(ridge=0.1, head="logistic")):
        assert model.fit(X, y).head_ == "logistic"
    with pytest.raises(ValueError, match="head='cosine' needs one label per row"):
        FisherDiscriminant(ridge=0.1, head="cosine").fit(X, np.eye(3, dtype=int)[y])


@quiet
def test_curved_classes_get_a_curved_head():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4000)
    X = rng.normal(size=(4000, 6)) * np.where(y == 1, 3.0, 1.0)[:, None] + 0.3 * y[:, None]
    model = FisherDiscriminant().fit(X[:2000], y[:2000])
    assert model.head_ in ("quadratic", "mixture")
    plain = FisherDiscriminant(head="gaussian").fit(X[:2000], y[:2000])
    assert model.score(X[2000:], y[2000:]) > plain.score(X[2000:], y[2000:]) + 0.15


# Smoothness: no last bit decides.


def text():
    return sparse_text(1500, 9000, 30, n_classes=4, random_state=0)


def collinear(rows=150):
    """Return four columns that inform, and two that are sums of them."""
    options = {"n_informative": 4, "n_clusters_per_class": 1, "class_sep": 0.7, "random_state": 1}
    X, y = make_classification(150, 6, **options)
    return X[:rows], y[:rows]


SETS = {
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
    "waveform": lambda: waveform(800, random_state=0),
    "gauss": lambda: problem(5, classes=4, rows=300, features=8),
    "sparse digits": lambda: (sparse.csr_array(load_digits().data), load_digits().target),
    "text": text,
    "text of many classes": lambda: sparse_text(1200, 8500, 20, n_classes=8, random_state=0),
    "collinear": collinear,
    "few collinear": lambda: collinear(70),
}


@quiet
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_choice_is_a_smooth_function_of_the_rows(name, streamed):
    smooth(name, streamed, 20 if name in ("iris", "wine", "gauss", "collinear") else 4)


@quiet
@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("streamed", [False, True])
def test_twenty_changes_of_the_last_bits_on_one_thread_and_on_two(name, streamed, threads):
    with threadpool_limits(threads, user_api="blas"):
        smooth(name, streamed, 20)


def smooth(name, streamed, times):
    """Fit a set again and again with its last bits changed: nothing that was chosen may jump."""
    X, y = SETS[name]()
    rng = np.random.default_rng(0)

    def fitted(rows):
        if not streamed:
            return FisherDiscriminant().fit(rows, y)
        model = FisherDiscriminant()
        for part in np.array_split(np.arange(len(y)), 3):
            model.partial_fit(rows[part], y[part], classes=np.unique(y))
        return model

    first = fitted(X)
    expected = first.predict_proba(X)
    for _ in range(times):
        moved = X.copy()
        values = moved.data if sparse.issparse(moved) else moved
        values *= 1 + 1e-12 * rng.uniform(-1, 1, values.shape)
        other = fitted(moved)
        assert other.ridge_ == pytest.approx(first.ridge_, rel=1e-6)
        assert other.head_ == first.head_
        np.testing.assert_allclose(other.predict_proba(X), expected, atol=1e-6)


@quiet
@pytest.mark.parametrize("head", ["quadratic", "logistic", "hinge", "mixture"])
@pytest.mark.parametrize("shape", [(6, 4), (6, 2), (90, 30), (90, 64)])
def test_where_nothing_varies_no_direction_is_rounding(shape, head):
    """Columns that are sums of others leave directions without variance: no head may look along a chance one."""
    columns, rank = shape
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    inner = rng.normal(size=(600, rank)) * (1.0 + y[:, None] * rng.uniform(0, 1, rank)) + 0.4 * y[:, None]
    X = inner @ rng.normal(size=(rank, columns))
    new = X[:100] + 0.1 * rng.normal(size=(100, columns))  # these do not lie where the others do
    fitted, streamed = FisherDiscriminant(head=head).fit(X, y), FisherDiscriminant(head=head)
    for start in range(0, 600, 10):
        streamed.partial_fit(X[start : start + 10], y[start : start + 10], classes=[0, 1])
    moved = FisherDiscriminant(head=head).fit(X * (1 + 1e-13 * rng.uniform(-1, 1, X.shape)), y)
    for other in (streamed, moved):
        for rows in (X, new):
            np.testing.assert_allclose(other.predict_proba(rows), fitted.predict_proba(rows), atol=1e-6)
            expected = fitted.decision_function(rows)
            np.testing.assert_allclose(other.decision_function(rows), expected, atol=1e-6 * np.abs(expected).max())


@quiet
@pytest.mark.parametrize("name", [*SETS, "landmarks of digits", "landmarks of waveform"])
def test_the_number_of_threads_decides_nothing(name):
    kernel = name.startswith("landmarks of ")
    X, y = SETS[name.removeprefix("landmarks of ")]()
    kind = partial(KernelFisherDiscriminant, landmarks=80) if kernel else FisherDiscriminant
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            counts = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
            assert set(counts) == {threads}
            fitted, streamed = kind().fit(X, y), kind()
            for part in np.array_split(np.arange(len(y)), 3):
                streamed.partial_fit(X[part], y[part], classes=np.unique(y))
            found.append([(model.ridge_, model.head_, model.predict_proba(X)) for model in (fitted, streamed)])
            if kernel:
                found[-1] += [(model.gamma_, model.head_, model.decision_function(X)) for model in (fitted, streamed)]
    for one, other in zip(*found, strict=True):
        assert other[0] == pytest.approx(one[0], rel=1e-6)
        assert other[1] == one[1]
        np.testing.assert_allclose(other[2], one[2], atol=1e-6, rtol=1e-6)


@quiet
@pytest.mark.parametrize("epsilon", ["epsilon", "a"])
def test_the_margin_is_chosen_smoothly_too(epsilon):
    X, y = load_wine(return_X_y=True)
    X = X / X.std(axis=0)
    make = MarginSubspace(2, epsilon="auto") if epsilon == "epsilon" else SupervisedKampongMeasure(2, a="auto")
    first, rng = clone(make).fit(X, y), np.random.default_rng(0)
    for _ in range(5):
        other = clone(make).fit(X * (1 + 1e-12 * rng.uniform(-1, 1, X.shape)), y)
        assert other.epsilon_ == pytest.approx(first.epsilon_, rel=1e-6, abs=1e-9)


@quiet
def test_while_everything_fits_a_wide_stream_chooses_as_a_fit():
    X, y = sparse_text(6000, 10_000, 40, n_classes=4, random_state=0)
    whole, streamed = FisherDiscriminant().fit(X, y), FisherDiscriminant()
    for start in range(0, 6000, 700):
        streamed.partial_fit(X[start : start + 700], y[start : start + 700])
    assert (whole.solver_, streamed.solver_) == ("resolvent", "reservoir")
    assert streamed.ridge_ == pytest.approx(whole.ridge_, rel=1e-6)
    assert streamed.head_ == whole.head_
    np.testing.assert_allclose(streamed.eigenvalues_, whole.eigenvalues_, rtol=1e-6)
    np.testing.assert_allclose(streamed.predict_proba(X), whole.predict_proba(X), atol=1e-6)


# What the sample promises.


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
    chances = model.predict_proba(X[test])
    assert model.score(X[test], y[test]) < 0.95
    assert abs(chances.max(axis=1).mean() - model.score(X[test], y[test])) < 0.08  # it knows how good it is


def test_reading_leaves_no_trace_and_batches_do_not_matter():
    X, y = load_digits(return_X_y=True)
    whole, parts = FisherDiscriminant(), FisherDiscriminant()
    whole.partial_fit(X, y)
    for start in range(0, len(X), 77):
        parts.partial_fit(X[start : start + 77], y[start : start + 77])
        if start > 900:
            parts.predict(X[:3])
    assert parts.ridge_ == pytest.approx(whole.ridge_, rel=1e-8)
    np.testing.assert_allclose(parts.choice_.losses, whole.choice_.losses, atol=1e-8)


def test_the_validation_sample_is_bounded():
    rng = np.random.default_rng(0)
    model = FisherDiscriminant(reservoir_bytes=50_000)
    for _ in range(20):
        model.partial_fit(rng.normal(size=(500, 4)), rng.integers(0, 2, 500))
    assert model._statistics.nbytes <= 50_000
    assert 200 < model._statistics.n_kept < 500
    assert model.choice_.n_rows == model._statistics.n_kept


def test_one_row_a_class_cannot_be_validated():
    model = FisherDiscriminant().fit(np.eye(3), ["a", "b", "c"])
    assert model.choice_ is None
    assert model.predict(np.eye(3)).tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (MarginSubspace(epsilon="best"), "epsilon"),
        (SupervisedKampongMeasure(a="best"), "a"),
        (FisherDiscriminant(ridge="best"), "ridge"),
    ],
)
def test_other_words_are_refused(model, text):
    X, y = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match=rf"{type(model).__name__}: {text} must be a number"):
        model.fit(X, y)


@quiet
@pytest.mark.parametrize("seed", range(24))
def test_nothing_of_the_data_breaks_the_choice(seed):
    """Few rows, many classes, constant and rounded columns, units that differ by 1e12, weights of any size, fading."""
    rng = np.random.default_rng(seed)
    classes, d = int(rng.choice([2, 3, 40])), int(rng.choice([1, 2, 30, 100]))
    n = int(rng.choice([12, 100, 800])) + classes
    y = np.concatenate([np.arange(classes), rng.choice(classes, n - classes, p=rng.dirichlet(np.full(classes, 0.3)))])
    units = 10.0 ** rng.uniform(-6, 6, d) if seed % 3 == 0 else np.ones(d)
    X = (rng.normal(size=(n, d)) + rng.choice([0, 0.5, 5]) * rng.normal(size=(classes, d))[y]) * units
    if seed % 5 == 0:
        X[:, 0] = 3.0
    if seed % 4 == 1:
        X = np.round(X)
    weights = rng.random(n) * 10.0 ** rng.uniform(-5, 5) if seed % 4 == 0 else None
    for model in (FisherDiscriminant().fit(X, y, weights), FisherDiscriminant(half_life=20).partial_fit(X, y)):
        chances = model.predict_proba(X)
        assert np.isfinite(chances).all()
        np.testing.assert_allclose(chances.sum(axis=1), 1)
        assert np.isfinite(model.transform(X)).all()
