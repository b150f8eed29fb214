"""Columns of another scale, wild cells and noise must not cost the default model its accuracy."""

import numpy as np
import pytest
from scipy import sparse

from kampong import FisherDiscriminant, load
from kampong.selection.leave_one_out import LeaveOneOut, at_ridges, least_ridges
from kampong.selection.settings import SETTINGS
from kampong.statistics.reservoir import SampledScatter

ROWS, COLUMNS = 2000, 40


def waves(seed, rows=ROWS, columns=COLUMNS):
    """Return rows of Breiman's waveform, noise columns beside: convex combinations of two of three triangles."""
    rng = np.random.default_rng(seed)
    places = np.arange(1, 22)
    shapes = np.array([np.maximum(6 - np.abs(places - centre), 0) for centre in (11, 15, 7)])
    y = rng.integers(0, 3, rows)
    share = rng.random((rows, 1))
    pairs = np.array([(0, 1), (0, 2), (1, 2)])[y]
    X = rng.normal(size=(rows, columns))
    X[:, :21] += share * shapes[pairs[:, 0]] + (1 - share) * shapes[pairs[:, 1]]
    return X, y


def identifier(X, rng):
    return np.column_stack([X, rng.permutation(len(X)) * 1000.0])


def timestamp(X, rng):
    return np.column_stack([X, 1.7e9 + np.sort(rng.uniform(0, 3e7, len(X)))])


def money(X, rng):
    return np.column_stack([X, rng.lognormal(10, 2, (len(X), 4))])


def mistyped(X, rng):
    X = X.copy()
    X[rng.choice(len(X), 3, replace=False), rng.choice(21, 3, replace=False)] = 1e9
    return X


def constant(X, rng):
    return np.column_stack([X, np.full(len(X), 7e5), np.zeros(len(X))])


def duplicated(X, rng):
    return np.column_stack([X, X[:, 5], X[:, 6]])


def collinear(X, rng):
    return np.column_stack([X, X[:, :21].sum(axis=1), 1e4 * (X[:, 3] - X[:, 9])])


HARMS = (identifier, timestamp, money, mistyped, constant, duplicated, collinear)


def halves(X, y):
    return X[::2], y[::2], X[1::2], y[1::2]


def accuracy(X, y, **options):
    train, classes, test, truth = halves(X, y)
    return FisherDiscriminant(**options).fit(train, classes).score(test, truth)


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_one_harm_costs_less_than_two_points(harm, form):
    X, y = waves(0)
    harmed = harm(X, np.random.default_rng(1))
    clean = accuracy(X, y)
    assert clean > 0.8
    assert accuracy(harmed if form == "dense" else sparse.csr_array(harmed), y) >= clean - 0.02


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_noise_columns_cost_less_than_two_points_of_the_better_scale(seed):
    X, y = waves(seed, rows=1000, columns=21)
    wide = np.column_stack([X, 0.2 * np.random.default_rng(9).normal(size=(len(X), 980))])
    best = max(accuracy(wide, y, scale=scale) for scale in (False, True))
    assert accuracy(wide, y) >= best - 0.02


def test_a_large_column_above_the_width_of_leave_one_out():
    signal, y = waves(2, rows=700, columns=21)
    rng = np.random.default_rng(1)
    X = np.tile(signal, 50) + 6.0 * rng.normal(size=(len(y), 1050))
    clean, (train, classes, test, truth) = accuracy(X, y), halves(identifier(X, rng), y)
    model = FisherDiscriminant().fit(train, classes)
    assert model.scale_ is not None
    assert model.score(test, truth) >= clean - 0.02
    assert FisherDiscriminant(scale=False).fit(train, classes).score(test, truth) < clean - 0.1


def test_the_reason_names_both_losses():
    X, y = waves(0, rows=400)
    harmed = identifier(X, np.random.default_rng(1))
    model = FisherDiscriminant().fit(harmed, y)
    plain, scaled = model.choice_.scales.values()
    assert scaled < plain
    assert model.scale_reason_ == (
        f"The columns are divided by their standard deviations: the selection loss on validation rows is {plain:.4f} "
        f"as they are and {scaled:.4f} divided by their standard deviations."
    )
    statistics = SampledScatter(harmed.shape[1]).update(harmed, y)
    for view, loss in ((statistics, plain), (statistics.in_units(statistics.units()), scaled)):
        rows = LeaveOneOut(view)
        found = at_ridges([rows], [least_ridges([rows])[0].ridge])[0]
        assert found.loss == pytest.approx(loss, rel=1e-6)


def test_the_reason_says_why_only_one_was_tried():
    X, y = waves(0, rows=60)
    texts = {
        "scale=True was given": FisherDiscriminant(scale=True).fit(X, y),
        "scale=False was given": FisherDiscriminant(scale=False).fit(X, y),
        "only if ridge='auto'": FisherDiscriminant(ridge=0.1).fit(X, y),
        "too few rows to compare": FisherDiscriminant().fit(X[:6], [0, 0, 0, 1, 1, 1]),
        "of sparse rows above 1024 columns": FisherDiscriminant().fit(
            sparse.csr_array(np.pad(X, ((0, 0), (0, 1100)))), y
        ),
        "of all rows above 8192, only large": FisherDiscriminant().fit(
            sparse.csr_array(np.pad(X, ((0, 0), (0, 8200)))), y
        ),
    }
    for text, model in texts.items():
        assert text in model.scale_reason_
        assert ("divided by" in model.scale_reason_) == (model.scale_ is not None)


def test_the_losses_of_both_scales_are_saved(tmp_path):
    X, y = waves(0, rows=300)
    model = FisherDiscriminant().fit(X, y)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").scale_reason_ == model.scale_reason_


def documents(width, seed=0, rows=1000, classes=4):
    """Return counts of words: a class has words of its own, and all share frequent and rare ones."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    shares = 1.0 / np.arange(1, width + 1)
    lines = []
    for label in y:
        chances = shares.copy()
        chances[20 + label :: 40] *= 10.0
        words = rng.choice(width, 60, p=chances / chances.sum())
        lines.append(sparse.csr_array((np.ones(60), words, [0, 60]), shape=(1, width)))
    X = sparse.csr_array(sparse.vstack(lines))
    X.sum_duplicates()
    return X, y


WIDE = {width: documents(width) for width in (1500, 9000)}


def beside(X, more):
    return sparse.csr_array(sparse.hstack([X, sparse.csr_array(more)]))


@pytest.mark.parametrize(
    ("width", "harm"),
    [(1500, money), (9000, identifier), (9000, timestamp), (9000, money)],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
def test_a_large_column_beside_text_costs_less_than_two_points(width, harm, tmp_path):
    X, y = WIDE[width]
    harmed = beside(X, harm(np.zeros((len(y), 0)), np.random.default_rng(3)))
    train, classes, test, truth = halves(harmed, y)
    clean = accuracy(X, y)
    model = FisherDiscriminant().fit(train, classes)
    assert clean > 0.9
    assert model.score(test, truth) >= clean - 0.02
    assert FisherDiscriminant(scale=False).fit(train, classes).score(test, truth) < clean - 0.1
    assert "capped" in model.choice_.scales
    assert (model.scale_[width:] > 100).all()
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(test), model.predict_proba(test))
    np.testing.assert_array_equal(loaded.scale_, model.scale_)
    assert loaded.scale_reason_ == model.scale_reason_


def test_dividing_large_columns_is_a_model_of_divided_rows():
    X, y = WIDE[9000]
    harmed = beside(X, identifier(np.zeros((len(y), 0)), np.random.default_rng(3)))
    model = FisherDiscriminant().fit(harmed, y)
    assert model.scale_reason_.startswith("Large columns are divided by their standard deviations: ")
    assert model.scale_reason_.endswith("with large columns divided.")
    outside = sparse.csr_array(harmed @ sparse.diags_array(1.0 / model.scale_))
    plain = FisherDiscriminant(scale=False).fit(outside, y)
    # nearly: the trace of S_w without held-out rows is taken from that of each class, which a view knows on average
    assert model.ridge_ == pytest.approx(plain.ridge_, rel=1e-3)
    np.testing.assert_allclose(model.predict_proba(harmed), plain.predict_proba(outside), atol=1e-3)


def test_text_by_itself_stays_as_it_is():
    X, y = WIDE[9000]
    model = FisherDiscriminant().fit(X, y)
    assert model.scale_ is None
    assert model.choice_.scales == {}


def test_a_stream_of_text_with_a_large_column_divides_it_too():
    X, y = WIDE[9000]
    harmed = beside(X, timestamp(np.zeros((len(y), 0)), np.random.default_rng(3)))
    clean, stream = FisherDiscriminant(), FisherDiscriminant()
    for start in range(0, 400, 100):
        part = slice(start, start + 100)
        clean.partial_fit(X[part], y[part])
        stream.partial_fit(harmed[part], y[part])
    assert stream.score(harmed[400:], y[400:]) >= clean.score(X[400:], y[400:]) - 0.02
    kept = stream.freeze(keep=stream.freeze())
    np.testing.assert_allclose(kept.choice.units, stream.scale_, rtol=1e-12)
    np.testing.assert_allclose(kept.probabilities(harmed[400:]), stream.predict_proba(harmed[400:]), atol=1e-3)


def test_the_head_may_overrule_a_scale_that_helps_a_mixture_little(real_data):
    """On usps dividing gains a mixture less than a standard error, and the quadratic head errs half as much again."""
    X, y = real_data("usps")
    order = np.random.default_rng(0).permutation(len(y))
    model = FisherDiscriminant().fit(X[order], y[order])
    scales = model.choice_.scales
    assert model.scale_ is None
    divided = FisherDiscriminant(scale=True).fit(X[order], y[order])
    if scales["scaled"] < scales["unscaled"] - SETTINGS.slack:
        assert "the head errs less on them as they are" in model.scale_reason_
    assert min(model.choice_.heads.values()) < min(divided.choice_.heads.values())
