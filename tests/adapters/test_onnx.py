"""ONNX: onnxruntime gives float32 rows the labels and probabilities that they get here."""

import functools

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kampong import (
    CoreVectorClassifier,
    FisherDiscriminant,
    InterClassScatter,
    KernelFisherDiscriminant,
    KernelMarginSubspace,
    MarginSubspace,
    MaximumMarginCriterion,
    MaximumMarginDiscriminant,
    SupervisedKampongMeasure,
)
from own_heads import OURS

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")

to_onnx = pytest.importorskip("kampong.adapters.onnx").to_onnx

pytestmark = pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")

SETS = {"iris": load_iris, "cancer": load_breast_cancer, "digits": load_digits}


@functools.cache
def rows_of(name):
    return SETS[name](return_X_y=True)


def run(file, X):
    session = onnxruntime.InferenceSession(file.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"X": X.astype(np.float32)})


def same(model, X, within=1e-6, **options):
    """Compare with what the model says of the same float32 rows, computed in float64."""
    rows = X.astype(np.float32).astype(np.float64)
    labels, chances = run(to_onnx(model, **options), X)
    assert chances.dtype == np.float32
    wanted = model.predict_proba(rows)
    assert chances.shape == wanted.shape
    np.testing.assert_allclose(chances, wanted, rtol=0, atol=within)
    return float(np.mean(labels == model.predict(rows)))


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("head", ["auto", *OURS])
def test_every_head_with_its_calibration(name, head):
    X, y = rows_of(name)
    model = FisherDiscriminant(head=head).fit(X, y)
    assert same(model, X) == 1.0
    assert same(model, X + np.random.default_rng(0).normal(scale=3 * X.std(axis=0), size=X.shape)) == 1.0


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        MarginSubspace(2, epsilon="auto"),
        InterClassScatter(head="nearest_mean"),
        MaximumMarginCriterion(2),
        SupervisedKampongMeasure(2, a=2.0),
        FisherDiscriminant(ridge=0.1),
        FisherDiscriminant(priors="uniform"),
        FisherDiscriminant(priors=[0.0, 0.2, 0.8]),
        FisherDiscriminant(priors=[0.0, 0.2, 0.8], ridge=1.0),
    ],
    ids=str,
)
def test_every_linear_estimator(model, single):
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model.fit(X, np.array(["red", "white", "rosé"])[y])
    assert same(model, X, within=1e-5, single=single) == 1.0


@pytest.mark.parametrize("kind", [np.int64, np.int8, np.uint8, bool])
def test_labels_of_any_kind(kind):
    X, y = rows_of("cancer")
    assert same(FisherDiscriminant().fit(X, y.astype(kind)), X) == 1.0


@pytest.mark.parametrize("head", OURS)
def test_a_class_that_never_came_has_no_probability(head):
    X, y = rows_of("iris")
    model = FisherDiscriminant(head=head).partial_fit(X, y, classes=[-1, 0, 1, 2])
    assert same(model, X) == 1.0


@pytest.mark.parametrize("estimator", [FisherDiscriminant(), MarginSubspace(epsilon=0.1), InterClassScatter()])
def test_several_labels_a_row(estimator):
    X, y = rows_of("digits")
    Y = np.stack([y % 2 == 0, y < 4, y > 7, np.ones(len(y), dtype=bool), np.zeros(len(y), dtype=bool)], axis=1)
    assert same(estimator.fit(X, Y.astype(int)), X) == 1.0


@pytest.mark.parametrize(
    "model",
    [
        KernelFisherDiscriminant(landmarks=60),
        KernelFisherDiscriminant(landmarks=60, kernel="polynomial", degree=2, coef0=1.0),
        KernelFisherDiscriminant(landmarks=60, kernel="sigmoid", gamma=1e-3),
        KernelFisherDiscriminant(landmarks=60, kernel="linear"),
        KernelFisherDiscriminant(landmarks="fourier"),
        KernelMarginSubspace(landmarks=60, epsilon=0.01),
    ],
    ids=str,
)
def test_kernels_with_landmarks(model):
    X, y = rows_of("digits")
    assert same(model.fit(X, y), X, within=1e-5) == 1.0
    if isinstance(model, KernelFisherDiscriminant) and model.kernel == "rbf":
        Y = np.stack([y % 2 == 0, y < 4], axis=1).astype(int)
        assert same(model.fit(X, Y), X, within=1e-5) == 1.0


@pytest.mark.parametrize("model", [CoreVectorClassifier(), CoreVectorClassifier(kernel="linear")], ids=str)
@pytest.mark.parametrize("name", ["iris", "cancer"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_support_vectors(model, name):
    X, y = rows_of(name)
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32).astype(np.float64)
    labels, scores = run(to_onnx(model.fit(X, y)), X)
    np.testing.assert_array_equal(labels, model.predict(X))
    wanted = model.decision_function(X)
    np.testing.assert_allclose(scores[:, 1] if wanted.ndim == 1 else scores, wanted, rtol=1e-5, atol=1e-5)


def test_margin_features():
    X, y = rows_of("iris")
    X = X.astype(np.float32).astype(np.float64)
    model = MaximumMarginDiscriminant(2).fit(X, y)
    (points,) = run(to_onnx(model, transform=True), X)
    np.testing.assert_allclose(points, model.transform(X), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(run(to_onnx(model), X)[0], model.predict(X))


def test_coordinates():
    X, y = rows_of("digits")
    for model in (FisherDiscriminant(), KernelFisherDiscriminant(landmarks=50)):
        model.fit(X, y)
        (points,) = run(to_onnx(model, transform=True), X)
        np.testing.assert_allclose(points, model.transform(X), rtol=1e-5, atol=1e-5)


def test_pipelines_with_the_model_at_the_end_and_in_the_middle():
    X, y = rows_of("iris")
    last = make_pipeline(StandardScaler(), FisherDiscriminant()).fit(X, y)
    labels, chances = run(to_onnx(last), X)
    np.testing.assert_array_equal(labels, last.predict(X))
    np.testing.assert_allclose(chances, last.predict_proba(X), atol=1e-5)
    middle = make_pipeline(FisherDiscriminant(), LogisticRegression()).fit(X, y)
    labels, chances = run(to_onnx(middle), X)
    np.testing.assert_array_equal(labels, middle.predict(X))
    np.testing.assert_allclose(chances, middle.predict_proba(X), atol=1e-5)
    nearest = make_pipeline(FisherDiscriminant(), KNeighborsClassifier(1)).fit(X, y)
    np.testing.assert_array_equal(run(to_onnx(nearest), X)[0], nearest.predict(X))


def test_skl2onnx_converts_it_as_any_classifier():
    X, y = rows_of("iris")
    rows = X.astype(np.float32)
    model = FisherDiscriminant().fit(X, np.array(["a", "b", "c"])[y])
    session = onnxruntime.InferenceSession(
        skl2onnx.to_onnx(model, rows[:1]).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    labels, chances = session.run(None, {"X": rows})
    np.testing.assert_array_equal(labels, model.predict(rows.astype(np.float64)))
    assert set(chances[0]) == {"a", "b", "c"}
    double = skl2onnx.to_onnx(model, X[:1], options={"zipmap": False})
    session = onnxruntime.InferenceSession(double.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"X": X})[1], model.predict_proba(X), rtol=0, atol=1e-9)


def test_text():
    words = {"wine": "grape cellar bottle red", "sea": "ship wave salt sail", "law": "judge court claim paper"}
    rng = np.random.default_rng(3)
    common = ["the", "of", "and", "a", "with", "for", "on", "at"]
    kinds = rng.choice(list(words), 300)
    lines = [" ".join([*rng.choice(words[kind].split(), 2), *rng.choice(common, 8)]) for kind in kinds]
    X = TfidfVectorizer().fit_transform(lines)
    for estimator in (FisherDiscriminant(), FisherDiscriminant(solver="resolvent", ridge=0.01), InterClassScatter()):
        assert same(estimator.fit(X, kinds), X.toarray()) == 1.0


@pytest.mark.parametrize("name", ["letter", "satimage", "usps"])
def test_real_rows(real_data, name):
    X, y = real_data(name)
    model = FisherDiscriminant().fit(X, y)
    assert same(model, X, within=1e-5) >= 0.9999
    kernel = KernelFisherDiscriminant(landmarks=200, gamma="mean").fit(X[:4000], y[:4000])
    assert same(kernel, X[:4000], within=1e-5) >= 0.9999


def test_what_cannot_be_converted_is_named():
    X, y = rows_of("iris")
    with pytest.raises(TypeError, match=r"to_onnx takes a fitted classifier of kampong.*got LogisticRegression"):
        to_onnx(LogisticRegression(max_iter=1000).fit(X, y))

    def product(left, right):
        return left @ right.T

    model = KernelFisherDiscriminant(kernel=product, landmarks=4).fit(X, y)
    with pytest.raises(TypeError, match=r"KernelFisherDiscriminant as ONNX: a kernel that is callable"):
        to_onnx(model)
    drifting = FisherDiscriminant(half_life="auto").fit(X, y)
    with pytest.raises(TypeError, match=r"FisherDiscriminant as ONNX: half_life='auto' answers by a contest"):
        to_onnx(drifting)
    assert len(to_onnx(drifting, transform=True).graph.output) == 1


def test_a_release_of_skl2onnx_without_its_parser_is_named(monkeypatch):
    X, y = rows_of("iris")
    monkeypatch.delattr("skl2onnx._parse._parse_sklearn_classifier")
    with pytest.raises(
        ImportError, match=f"skl2onnx {skl2onnx.__version__} has no _parse_sklearn_classifier, .* Install"
    ):
        to_onnx(FisherDiscriminant(ridge=0.1).fit(X, y))
