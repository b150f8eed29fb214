"""Scale of the columns in the kernel estimators: chosen by evidence, free of units, kept in every copy of a model."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_classification, make_moons
from sklearn.model_selection import train_test_split

import kampong
from kampong import KernelFisherDiscriminant, KernelMarginSubspace, fit_landmarks, merge_all, statistics_of
from kampong.kernels.functions import columns_of, make_kernel
from kampong.kernels.landmarks import LandmarkBasis

MODELS = [
    KernelFisherDiscriminant(),
    KernelFisherDiscriminant(gamma=0.1),
    KernelFisherDiscriminant(kernel="polynomial", degree=2, gamma="scale"),
    KernelFisherDiscriminant(kernel="linear"),
    KernelFisherDiscriminant(kernel="sigmoid", gamma=0.01),
    KernelFisherDiscriminant(landmarks=40),
    KernelFisherDiscriminant(landmarks=40, placement="rows"),
    KernelFisherDiscriminant(landmarks=200, placement="fourier"),
    KernelMarginSubspace(epsilon=0.1),
]
UNITS = 10.0 ** np.arange(-6, 7)


def wine():
    return load_wine(return_X_y=True)


def rows_in(form, X):
    return X if form == "dense" else sparse.csr_array(X)


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_units_of_the_columns_change_nothing(model, form):
    X, y = wine()
    model = clone(model).set_params(scale=True)
    factors = np.random.default_rng(0).permutation(UNITS)
    first, other = clone(model).fit(rows_in(form, X), y), clone(model).fit(rows_in(form, X * factors), y)
    np.testing.assert_allclose(other.scale_, first.scale_ * factors, rtol=1e-9)
    found, expected = other.predict_proba(rows_in(form, X * factors)), first.predict_proba(rows_in(form, X))
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("kind", [KernelFisherDiscriminant, KernelMarginSubspace])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_scaling_is_what_dividing_the_columns_is(kind, form):
    X, y = wine()
    inside = kind(scale=True).fit(rows_in(form, X), y)
    np.testing.assert_allclose(inside.scale_, X.std(axis=0), rtol=1e-9)
    divided = rows_in(form, X / inside.scale_)
    outside = kind(scale=False).fit(divided, y)
    assert outside.scale_ is None
    assert inside.gamma_ == pytest.approx(outside.gamma_, rel=1e-9)
    np.testing.assert_allclose(inside.predict_proba(rows_in(form, X)), outside.predict_proba(divided), atol=1e-8)
    landmarks = inside.landmarks_ if form == "dense" else inside.landmarks_.toarray()  # rows as they came, sorted
    np.testing.assert_array_equal(landmarks[np.lexsort(landmarks.T)], X[np.lexsort(X.T)])


def test_a_choice_by_rows_left_out_is_that_of_separate_fits():
    """With every row a landmark, a row left out in closed form is a model that never had it, landmark included."""
    X, y = load_iris(return_X_y=True)
    X, y = X[::3] / X.std(axis=0), y[::3]
    n, share = len(y), 0.02
    from kampong.selection.kernel_width import LandmarkLeaveOneOut
    from kampong.statistics.kernel_scatter import KernelScatter

    kernel = make_kernel("a test", "rbf", X, gamma=0.3, degree=3, coef0=0.0)
    model = KernelFisherDiscriminant(gamma=0.3, ridge=share, scale=False).fit(X, y)
    ridge = model.ridge_
    left_out = LandmarkLeaveOneOut(model._statistics, model._statistics.sample(n), ridge).parts(1.0)
    rows = model._statistics.kept.sample(n).rows
    for i in (0, 20, 41):
        others = np.abs(X - rows[i]).max(axis=1) > 0
        basis = LandmarkBasis(kernel, X[others])
        without = KernelScatter(basis).update(X[others], y[others])
        metric = np.linalg.inv(without.within_scatter() + ridge * n / others.sum() * np.eye(basis.rank))
        row = basis.coordinates(basis.values(rows[i : i + 1]))[0]
        between = (without.means[0] - without.means[1]) @ metric @ row
        wide = left_out.products[i, 0] - left_out.products[i, 1]
        centre = basis.coordinates(basis.values(X)).mean(axis=0)
        expected = between - (without.means[0] - without.means[1]) @ metric @ centre
        assert others.sum() == n - 1
        assert wide == pytest.approx(expected, rel=1e-3, abs=1e-3 * np.abs(left_out.products).max())


def harmed(X, harm, rng):
    """Return rows with columns that say nothing of the classes, in large units."""
    n = len(X)
    more = {
        "id": rng.permutation(n)[:, None] + 1e5,
        "timestamp": 1.6e9 + 3e7 * rng.random((n, 1)),
        "money": np.exp(rng.normal(8, 2, (n, 4))),
    }[harm]
    return np.hstack([X, more])


def ten_sets():
    sets = {
        load.__name__.removeprefix("load_"): load(return_X_y=True)
        for load in (load_iris, load_wine, load_breast_cancer)
    }
    X, y = load_digits(return_X_y=True)
    sets["digits"] = X[:600], y[:600]
    sets["moons"] = make_moons(400, noise=0.2, random_state=0)
    for seed, (n, d, classes) in enumerate([(300, 8, 2), (500, 12, 3), (600, 20, 4), (400, 40, 2), (800, 15, 5)]):
        made = make_classification(
            n, d, n_informative=6, n_classes=classes, class_sep=2.0, n_clusters_per_class=1, random_state=seed
        )
        sets[f"made {seed}"] = made
    return sets


SETS = ten_sets()


@pytest.mark.parametrize("harm", ["id", "timestamp", "money"])
@pytest.mark.parametrize("name", SETS)
def test_columns_in_large_units_do_not_hide_the_others(name, harm):
    X, y = SETS[name]
    rng = np.random.default_rng(0)
    train, test = train_test_split(np.arange(len(y)), test_size=0.5, random_state=0, stratify=y)
    # a column of noise costs something even to a model that knows the units of all columns: it is the reference
    noisy = np.hstack([X / X.std(axis=0).mean(), rng.normal(size=(len(X), 4 if harm == "money" else 1))])
    clean = KernelFisherDiscriminant().fit(noisy[train], y[train]).score(noisy[test], y[test])
    Z = harmed(X, harm, rng)
    model = KernelFisherDiscriminant().fit(Z[train], y[train])
    assert model.score(Z[test], y[test]) >= clean - 0.02 - 1 / len(test)
    assert model.scale_ is not None


def test_noise_columns_of_small_units_are_left_small():
    """Always dividing is wrong: five hundred columns of noise would be as large as nineteen that tell the classes."""
    rng = np.random.default_rng(0)
    X, y = make_classification(
        800, 19, n_informative=10, n_redundant=0, n_classes=3, n_clusters_per_class=1, class_sep=2.0, random_state=0
    )
    X = np.hstack([X, 1e-2 * rng.normal(size=(800, 500))])
    train, test = slice(0, 400), slice(400, None)
    scores = {
        scale: KernelFisherDiscriminant(scale=scale).fit(X[train], y[train]).score(X[test], y[test])
        for scale in ("auto", True, False)
    }
    assert scores[False] > scores[True] + 0.05
    assert scores["auto"] == scores[False]


def test_a_little_more_rows_than_landmarks_leave_enough_to_compare_scales_on():
    rng = np.random.default_rng(0)
    X, y = make_classification(
        1020, 24, n_informative=24, n_redundant=0, n_classes=2, n_clusters_per_class=2, class_sep=1.2, random_state=1
    )
    X = np.hstack([X, 0.3 * rng.normal(size=(1020, 1000))])
    train, test = slice(0, 510), slice(510, None)
    model = KernelFisherDiscriminant().fit(X[train], y[train])
    assert model.scale_ is None
    assert model.score(X[test], y[test]) == KernelFisherDiscriminant(scale=False).fit(X[train], y[train]).score(
        X[test], y[test]
    )


def test_the_reason_names_both_losses():
    X, y = wine()
    model = KernelFisherDiscriminant().fit(X, y)
    assert model.choice_.scaled
    unscaled, scaled = model.choice_.scales["unscaled"], model.choice_.scales["scaled"]
    assert scaled < unscaled
    divided, plain = "The columns are divided by their standard deviations: ", "The columns are taken as they are: "
    losses = (
        f"the selection loss on validation rows is {unscaled:.4f} as they are and {scaled:.4f} divided by their "
        "standard deviations."
    )
    assert model.scale_reason_ == divided + losses
    for kind in (KernelFisherDiscriminant, kampong.FisherDiscriminant):
        assert kind(scale=True).fit(X, y).scale_reason_ == f"{divided}scale=True was given."
        assert kind(scale=False).fit(X, y).scale_reason_ == f"{plain}scale=False was given."
    assert kampong.FisherDiscriminant().fit(X, y).scale_reason_.startswith(divided)
    assert kampong.FisherDiscriminant().fit(X / X.std(axis=0), y).scale_reason_.startswith(plain)


@pytest.mark.parametrize(
    "options",
    [
        {"gamma": 0.01},
        {"placement": "fourier", "landmarks": 200},
        {"landmarks": slice(None, None, 3)},
        {"kernel": lambda a, b: a @ b.T},
    ],
    ids=["number", "fourier", "rows", "callable"],
)
def test_where_nothing_is_compared_rows_are_taken_as_they_are(options):
    X, y = wine()
    X = X / X.max(axis=0)
    given = options.get("landmarks")
    if isinstance(given, slice):
        options = {"landmarks": X[given]}
    model = KernelFisherDiscriminant(**options).fit(X, y)
    assert model.scale_ is None
    assert model.scale_reason_ == "The columns are taken as they are: nothing was compared."
    scaled = KernelFisherDiscriminant(**options, scale=True).fit(X, y)
    np.testing.assert_allclose(scaled.scale_, (X[given] if isinstance(given, slice) else X).std(axis=0), rtol=1e-9)
    assert scaled.score(X, y) > 0.9


def test_several_labels_per_row_are_scaled_on_demand():
    X, y = wine()
    Y = np.eye(3, dtype=int)[y]
    assert KernelFisherDiscriminant().fit(X, Y).scale_ is None
    scaled = KernelFisherDiscriminant(scale=True).fit(X, Y)
    outside = KernelFisherDiscriminant(scale=False).fit(X / X.std(axis=0), Y)
    np.testing.assert_allclose(scaled.predict_proba(X), outside.predict_proba(X / X.std(axis=0)), atol=1e-8)
    assert np.mean(scaled.predict(X) == Y) > 0.95


def test_given_landmarks_give_the_units():
    X, y = wine()
    model = KernelFisherDiscriminant(landmarks=X[::3], scale=True).fit(X, y)
    np.testing.assert_allclose(model.scale_, X[::3].std(axis=0), rtol=1e-9)
    parts = [KernelFisherDiscriminant(landmarks=X[::3], scale=True).partial_fit(X[i::2], y[i::2]) for i in range(2)]
    np.testing.assert_allclose(parts[0].merge(parts[1]).eigenvalues_, model.eigenvalues_, rtol=1e-6)


def test_a_constant_column_has_the_unit_one():
    X, y = wine()
    X = np.hstack([X, np.full((len(X), 1), 7.0), np.zeros((len(X), 1)), np.full((len(X), 1), 1e-200)])
    for form in ("dense", "sparse"):
        model = KernelFisherDiscriminant(scale=True).fit(rows_in(form, X), y)
        assert model.scale_[-3:].tolist() == [1.0, 1.0, 1.0]
        plain = KernelFisherDiscriminant(scale=True).fit(rows_in(form, X[:, :-3]), y)
        found = model.predict_proba(rows_in(form, X))
        np.testing.assert_allclose(found, plain.predict_proba(rows_in(form, X[:, :-3])), atol=1e-6)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_weights_count_as_rows_and_their_unit_does_not_matter(form):
    X, y = wine()
    weights = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    times = weights.astype(int)
    given = KernelFisherDiscriminant(scale=True, gamma="mean")
    model = clone(given).fit(rows_in(form, X), y, sample_weight=weights)
    again = clone(given).fit(rows_in(form, np.repeat(X, times, axis=0)), np.repeat(y, times))
    np.testing.assert_allclose(model.scale_, again.scale_, rtol=1e-9)
    assert model.gamma_ == pytest.approx(again.gamma_, rel=1e-6)
    chosen = KernelFisherDiscriminant().fit(rows_in(form, X), y, sample_weight=weights)
    for factor in (1e-3, 1e3):
        units = KernelFisherDiscriminant().fit(rows_in(form, X), y, sample_weight=factor * weights)
        np.testing.assert_allclose(units.scale_, chosen.scale_, rtol=1e-9)
        assert units.gamma_ == pytest.approx(chosen.gamma_, rel=1e-6)
    moments = columns_of(rows_in(form, X), weights)
    np.testing.assert_allclose(moments.mean, np.average(X, axis=0, weights=weights), rtol=1e-12)
    assert moments.count == weights.sum()


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_every_copy_of_a_model_has_the_units(model, form, tmp_path):
    X, y = wine()
    rows = rows_in(form, X)
    model = clone(model).set_params(scale=True).fit(rows, y)
    expected = model.predict_proba(rows)
    model.save(tmp_path / "model")
    for copy in (kampong.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copy.scale_, model.scale_)
        np.testing.assert_array_equal(copy.predict_proba(rows), expected)
        assert copy.scale_reason_ == model.scale_reason_
    plain = model.to_sklearn()
    np.testing.assert_allclose(plain.predict_proba(rows), expected, atol=1e-9)
    if form == "sparse":
        np.testing.assert_allclose(model.to_sklearn(sparse=True).predict_proba(rows), expected, atol=1e-9)


def test_what_was_compared_is_saved(tmp_path):
    X, y = wine()
    model = KernelFisherDiscriminant().fit(X, y)
    model.save(tmp_path / "model")
    loaded = kampong.load(tmp_path / "model")
    assert loaded.scale_reason_ == model.scale_reason_
    assert loaded.choice_.scales == model.choice_.scales
    loaded.partial_fit(X, y)
    model.partial_fit(X, y)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_onnx_divides_as_well(model):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    from kampong.adapters.onnx import to_onnx

    X, y = wine()
    model = clone(model).set_params(scale=True).fit(X, y)
    session = runtime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {"X": X.astype(np.float32)})[1]
    expected = model.predict_proba(X.astype(np.float32).astype(np.float64))
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_parts_share_the_units_of_their_landmarks():
    X, y = wine()
    prepared = fit_landmarks(KernelFisherDiscriminant(landmarks=40), X[::2], y[::2])
    units = prepared._statistics.basis.kernel.units
    assert units is not None
    merged = merge_all(statistics_of(prepared, [(X[i::3], y[i::3])], number=i) for i in range(3))
    np.testing.assert_array_equal(merged.scale_, units)
    assert merged.score(X, y) > 0.97
    one, other = (
        KernelFisherDiscriminant(landmarks=X[:40], scale=scale, gamma=0.01).fit(X, y) for scale in (True, False)
    )
    with pytest.raises(ValueError, match="scale"):
        one.merge(other)
    given = LandmarkBasis(one._basis().kernel, X[:40])
    assert not given.same_as(LandmarkBasis(other._basis().kernel, X[:40]))


@pytest.mark.parametrize("scale", [2, "yes", None, np.ones(13)])
def test_other_scales_are_refused(scale):
    X, y = wine()
    for kind in (KernelFisherDiscriminant, KernelMarginSubspace):
        with pytest.raises(ValueError, match=f"{kind.__name__}: scale must be True, False or 'auto', and is"):
            kind(scale=scale).fit(X, y)


def test_float32_rows_are_divided_in_their_precision():
    X, y = wine()
    wide = KernelFisherDiscriminant(scale=True).fit(X, y)
    short = KernelFisherDiscriminant(scale=True).fit(X.astype(np.float32), y)
    assert short.transform(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(short.scale_, wide.scale_, rtol=1e-5)
    assert np.mean(short.predict(X.astype(np.float32)) == wide.predict(X)) > 0.99


def shuffled_sets():
    rng = np.random.default_rng(0)
    ties = rng.integers(0, 3, (900, 5)).astype(float)
    noisy = (ties[:, 0] + rng.integers(0, 2, 900)).astype(int)
    large = rng.normal(size=(3000, 4))
    return {
        "wine": wine(),
        "digits": tuple(part[:700] for part in load_digits(return_X_y=True)),
        "words": (wine()[0], np.array(["red", "white", "rosé"])[wine()[1]]),
        "ties": (ties, np.array(["b", "c", "a", "d"])[noisy]),  # copies of rows in several classes
        "large": (large, (np.square(large).sum(axis=1) > 3.5).astype(int)),  # more rows than landmarks and sample
    }


SHUFFLED = shuffled_sets()


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("name", SHUFFLED)
@pytest.mark.parametrize("options", [{}, {"landmarks": 60}], ids=["default", "landmarks"])
def test_the_order_of_the_rows_does_not_matter(name, form, options):
    X, y = SHUFFLED[name]
    if name in ("digits", "large") and not options:
        options = {"landmarks": 200}
    weights = np.random.default_rng(1).integers(1, 3, len(y)).astype(float)
    model = KernelFisherDiscriminant(**options).fit(rows_in(form, X), y, sample_weight=weights)
    order = np.random.default_rng(2).permutation(len(y))
    other = KernelFisherDiscriminant(**options).fit(rows_in(form, X[order]), y[order], sample_weight=weights[order])
    assert other.gamma_ == pytest.approx(model.gamma_, rel=1e-7)
    assert other.head_ == model.head_
    np.testing.assert_allclose(other.predict_proba(rows_in(form, X)), model.predict_proba(rows_in(form, X)), atol=1e-6)
