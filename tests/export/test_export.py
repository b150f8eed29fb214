"""`to_sklearn`: plain scikit-learn that answers the same to 1e-12, in probabilities too, and without kampong."""

import functools
import pickle
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import sparse, special
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import Pipeline

from kampong import (
    CoreVectorClassifier,
    FisherDiscriminant,
    InterClassScatter,
    KernelFisherDiscriminant,
    KernelMarginSubspace,
    MarginSubspace,
    MaximumMarginCriterion,
    MaximumMarginDiscriminant,
    MaxMinOverClassifier,
    SupervisedKampongMeasure,
)
from kampong.export.linear_steps import log_softmax_steps
from kampong.heads import HEADS, Head, LinearHead
from own_heads import OURS

pytestmark = pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")

SETS = {"iris": load_iris, "wine": load_wine, "cancer": load_breast_cancer, "digits": load_digits}


@functools.cache
def rows_of(name):
    return SETS[name](return_X_y=True)


def same(model, plain, X, within=1e-12):
    np.testing.assert_allclose(plain.predict_proba(X), model.predict_proba(X), rtol=0, atol=within)
    mine, theirs = model.predict(X), plain.predict(X)
    assert type(theirs) is np.ndarray
    assert theirs.dtype.kind == mine.dtype.kind
    np.testing.assert_array_equal(theirs, mine)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("head", ["auto", *OURS])
def test_every_head_with_its_calibration(name, head):
    X, y = rows_of(name)
    model = FisherDiscriminant(head=head).fit(X, y)
    plain = model.to_sklearn()
    assert head in ("auto", model.head_)
    same(model, plain, X)
    same(model, plain, X + np.random.default_rng(0).normal(scale=3 * X.std(axis=0), size=X.shape))  # rows far away
    assert not any(type(step).__module__.startswith("kampong") for _, step in plain.steps)


LINEAR = [
    MarginSubspace(2, epsilon="auto"),
    InterClassScatter(),
    InterClassScatter(head="nearest_mean"),
    MaximumMarginCriterion(2),
    SupervisedKampongMeasure(2, a=2.0),
    FisherDiscriminant(ridge=0.1),
    FisherDiscriminant(priors="uniform"),
    FisherDiscriminant(priors=[0.0, 0.2, 0.8]),
    FisherDiscriminant(priors=[0.0, 0.2, 0.8], ridge=1.0),
    FisherDiscriminant(priors=[0.0, 0.2, 0.8], head="quadratic"),
]


@pytest.mark.parametrize("model", LINEAR, ids=str)
def test_every_linear_estimator(model):
    X, y = rows_of("wine")
    model.fit(X, np.array(["red", "white", "rosé"])[y])
    same(model, model.to_sklearn(), X)


def test_a_class_that_never_came_keeps_its_column():
    X, y = rows_of("wine")
    for head in OURS:
        model = FisherDiscriminant(head=head).partial_fit(X, y, classes=[-1, 0, 1, 2])
        plain = model.to_sklearn()
        same(model, plain, X)
        assert not plain.predict_proba(X)[:, 0].any()
    model = FisherDiscriminant().partial_fit(X[y < 2], y[y < 2], classes=[0, 1, 2])
    same(model, model.to_sklearn(), X)


@pytest.mark.parametrize("estimator", [FisherDiscriminant(), MarginSubspace(epsilon=0.1), InterClassScatter()])
def test_several_labels_a_row(estimator):
    X, y = rows_of("digits")
    Y = np.stack([y % 2 == 0, y < 4, y > 7, np.ones(len(y), dtype=bool), np.zeros(len(y), dtype=bool)], axis=1)
    model = estimator.fit(X, Y.astype(int))
    plain = model.to_sklearn()
    same(model, plain, X)
    assert plain.predict(X)[:, 3].all()
    assert not plain.predict(X)[:, 4].any()


def text():
    words = {"wine": "grape cellar bottle red", "sea": "ship wave salt sail", "law": "judge court claim paper"}
    rng = np.random.default_rng(3)
    common = ["the", "of", "and", "a", "with", "for", "on", "at"]
    kinds = rng.choice(list(words), 300)
    lines = [" ".join([*rng.choice(words[kind].split(), 3), *rng.choice(common, 8)]) for kind in kinds]
    return TfidfVectorizer().fit_transform(lines), kinds


def test_sparse_text():
    X, y = text()
    for estimator in (FisherDiscriminant(), FisherDiscriminant(solver="resolvent", ridge=0.01), InterClassScatter()):
        model = estimator.fit(X, y)
        same(model, model.to_sklearn(), X)
        same(model, model.to_sklearn(sparse=True), X)
        same(model, model.to_sklearn(sparse=False), X.toarray())
    with pytest.raises(ValueError, match="sparse"):
        model.to_sklearn(sparse=False).predict(X)


def modules(step):
    """Return where everything in a pipeline comes from."""
    found = {type(step).__module__.partition(".")[0]}
    inner = [
        *getattr(step, "steps", ()),
        *getattr(step, "transformer_list", ()),
        *(getattr(step, "estimators", ()) or ()),
    ]
    parts = [part for _, part in inner if not isinstance(part, str)] + list(getattr(step, "estimators_", ()))
    if hasattr(step, "func") and not isinstance(step.func, np.ufunc):
        found.add(getattr(step.func, "__module__", type(step.func).__module__).partition(".")[0])
    return found.union(*(modules(part) for part in parts))


EXPORTED = [
    *(kind(head=head) for kind in (FisherDiscriminant, MarginSubspace, InterClassScatter) for head in ["auto", *OURS]),
    *(kind(head=head, landmarks=30) for kind in (KernelFisherDiscriminant, KernelMarginSubspace) for head in OURS),
    KernelFisherDiscriminant(landmarks="fourier"),
    KernelFisherDiscriminant(landmarks=30, kernel="polynomial"),
]


@pytest.mark.parametrize("model", EXPORTED, ids=str)
def test_skops_trusts_every_type(model):
    skops = pytest.importorskip("skops.io", reason="skops is not installed")
    X, y = rows_of("iris")
    X = X + 1e4  # a mean far from zero, for which sparse rows are made dense
    plain = clone(model).fit(X, y).to_sklearn()
    kept = skops.dumps(plain)
    assert skops.get_untrusted_types(data=kept) == []
    np.testing.assert_array_equal(skops.loads(kept).predict(sparse.csr_array(X)), plain.predict(X))


def test_probabilities_are_exact_where_scores_are_large_and_where_they_underflow():
    rng = np.random.default_rng(0)
    scores = np.concatenate([10.0**power * rng.standard_normal((50, 4)) for power in range(-3, 6)])
    scores[0], scores[1] = [0.0, -1e-16, -800.0, -1e5], [1e5, 1e5 + 1e-11, 0.0, 3.0]
    for count in (2, 3, 4):
        given = scores[:, :count]
        with np.errstate(all="raise", under="ignore"):
            found = Pipeline(log_softmax_steps(count)).transform(given)
        expected = special.log_softmax(given, axis=1)
        assert found.max() <= 0.0
        np.testing.assert_allclose(found, expected, rtol=1e-14, atol=0 if count == 2 else 1e-15)
        certain = expected > -1e-6  # there the root of the tail enlarges what is lost
        np.testing.assert_array_equal(found[certain], expected[certain])


@pytest.mark.parametrize("fitted_on", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("model", EXPORTED, ids=str)
def test_every_head_takes_dense_and_sparse_rows(model, fitted_on):
    X, y = rows_of("wine")  # a column of 750 beside one of 0.3: the mean is far from zero
    X = np.where(np.abs(X) < np.median(X, axis=0), 0.0, X)
    if "ernel" in type(model).__name__:
        X = X / np.abs(X).max(axis=0)
    model = clone(model).fit(fitted_on(X), y)
    plain = model.to_sklearn()
    assert modules(plain) <= {"sklearn", "numpy", "scipy", "functools", "operator"}
    within = 1e-10 if "ernel" in type(model).__name__ else 1e-11
    for rows in (X, sparse.csr_array(X), sparse.csr_matrix(X), sparse.csr_array(X.astype(np.float32))):
        again = rows.astype(np.float64) if rows.dtype == np.float32 else rows
        assert plain.predict_proba(rows).shape == (len(X), 3)
        same(model, plain, again, within)
    np.testing.assert_allclose(plain.predict_proba(sparse.csr_array(X)), plain.predict_proba(X), rtol=0, atol=within)


def test_rows_far_from_zero_keep_their_digits():
    X, y = rows_of("iris")
    far = X + 1e7
    model = FisherDiscriminant(ridge=0.1).fit(far, y)
    plain = model.to_sklearn()
    assert [name for name, _ in plain.steps[:3]] == ["rows", "dense", "centre"]
    assert model.to_sklearn(sparse=False).steps[0][0] == "centre"
    same(model, plain, far)
    assert abs(model.to_sklearn(sparse=True).predict_proba(far) - model.predict_proba(far)).max() > 1e-12


KERNELS = [
    KernelFisherDiscriminant(landmarks=60),
    KernelFisherDiscriminant(landmarks=60, head="mixture"),
    KernelFisherDiscriminant(landmarks=60, kernel="polynomial", degree=2),
    KernelFisherDiscriminant(landmarks=60, kernel="polynomial", degree=2.5, coef0=1.0),
    KernelFisherDiscriminant(landmarks=60, kernel="linear"),
    KernelFisherDiscriminant(landmarks="fourier"),
    KernelMarginSubspace(landmarks=60, epsilon=0.01),
]


@pytest.mark.parametrize("model", KERNELS, ids=str)
@pytest.mark.parametrize("name", ["iris", "digits"])
def test_kernels(model, name):
    X, y = rows_of(name)
    X = X / np.abs(X).max()
    model.fit(X, y)
    # coordinates multiply the rounding of kernel values by the condition of the landmarks
    basis = model._statistics.basis
    condition = np.linalg.cond(basis.root) if hasattr(basis, "root") else 1.0
    within = max(1e-11, 100 * np.finfo(float).eps * condition)
    same(model, model.to_sklearn(), X, within=within)
    rows = sparse.csr_array(X)
    same(model, model.to_sklearn(sparse=True), rows, within=10 * within)


def test_kernels_with_several_labels_a_row():
    X, y = rows_of("digits")
    Y = np.stack([y % 2 == 0, y < 4, y > 7], axis=1).astype(int)
    model = KernelFisherDiscriminant(landmarks=60).fit(X, Y)
    same(model, model.to_sklearn(), X, within=1e-11)


@pytest.mark.parametrize(
    "model",
    [
        CoreVectorClassifier(),
        CoreVectorClassifier(kernel="linear"),
        MaxMinOverClassifier(nu=0.3),
        MaximumMarginDiscriminant(2),
        MaximumMarginDiscriminant(2, kernel="polynomial"),
        MaximumMarginDiscriminant(2, kernel="linear"),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["iris", "cancer"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_support_vectors(model, name):
    X, y = rows_of(name)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model.fit(X, y)
    plain = model.to_sklearn()
    np.testing.assert_array_equal(plain.predict(X), model.predict(X))
    scores = model.decision_function(X)
    np.testing.assert_allclose(plain.decision_function(X), scores, rtol=0, atol=1e-11 * np.abs(scores).max())
    if hasattr(model, "transform"):
        points = model.transform(X)
        np.testing.assert_allclose(plain[:-1].transform(X), points, rtol=0, atol=1e-11 * np.abs(points).max())


def test_the_first_steps_are_transform():
    X, y = rows_of("digits")
    model = FisherDiscriminant().fit(X, y)
    points = model.to_sklearn().named_steps["directions"].transform(X)
    np.testing.assert_allclose(points[:, : len(model.components_)], model.transform(X), rtol=0, atol=1e-12)


def test_an_uncalibrated_quadratic_head_is_scikit_learns_own():
    X, y = rows_of("wine")
    model = FisherDiscriminant(head="quadratic").fit(X, y)
    known = model.freeze()
    model._predictor = replace(known, head=replace(known.head, sharpness=1.0, tail=0.0))
    plain = model.to_sklearn()
    assert type(plain[-1]) is QuadraticDiscriminantAnalysis
    same(model, plain, X)


def test_names_come_along():
    X, y = load_wine(return_X_y=True, as_frame=True)
    for model in (FisherDiscriminant(), KernelFisherDiscriminant(landmarks=20), MaximumMarginDiscriminant()):
        plain = model.fit(X, y).to_sklearn()
        assert plain.feature_names_in_.tolist() == X.columns.tolist()
        np.testing.assert_array_equal(plain.predict(X), model.predict(X))
        with pytest.raises(ValueError, match="feature names"):
            plain.predict(X[X.columns[::-1]])


HIDDEN = """
import pickle, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "kampong":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
with open(sys.argv[1], "rb") as file:
    cases = pickle.load(file)
print(max(abs(plain.predict_proba(X) - chances).max() for plain, X, chances in cases))
assert not [name for name in sys.modules if name.startswith("kampong")]
"""


def test_it_answers_where_kampong_is_not_installed(tmp_path):
    X, y = rows_of("digits")
    X, y = X[:400], y[:400]
    Y = np.stack([y % 2 == 0, y < 4], axis=1).astype(int)
    models = [FisherDiscriminant(head=head).fit(X, y) for head in OURS]
    models += [FisherDiscriminant().fit(X, Y), KernelFisherDiscriminant(landmarks=50).fit(X, y)]
    models += [KernelFisherDiscriminant(landmarks="fourier").fit(X, y)]
    cases = [(model.to_sklearn(), X, model.predict_proba(X)) for model in models]
    path = tmp_path / "plain.pickle"
    path.write_bytes(pickle.dumps(cases))
    assert b"kampong" not in path.read_bytes()
    found = subprocess.run([sys.executable, "-c", HIDDEN, str(path)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert float(found.stdout) < 1e-11


def test_what_cannot_be_translated_is_named():
    X, y = rows_of("iris")
    with pytest.raises(NotFittedError, match="FisherDiscriminant"):
        FisherDiscriminant().to_sklearn()
    with pytest.raises(TypeError, match=r"CoreVectorClassifier.to_sklearn: its kernel is precomputed.*kernel by name"):
        CoreVectorClassifier(kernel="precomputed").fit(X @ X.T, y).to_sklearn()

    def product(left, right):
        return left @ right.T

    model = KernelFisherDiscriminant(kernel=product, landmarks=4).fit(X, y)
    with pytest.raises(TypeError, match=r"KernelFisherDiscriminant.to_sklearn: its kernel is a function.*by name"):
        model.to_sklearn()


def test_a_head_of_ones_own():
    before = dict(HEADS)

    @dataclass(frozen=True)
    class Tilted(LinearHead):
        name = "tilted"

        @classmethod
        def build(cls, inside):
            return cls(False, inside.means, np.zeros(len(inside.means)))

    @dataclass(frozen=True)
    class Curved(Head):
        name = "curved"

        @classmethod
        def build(cls, inside):
            return cls(False)

        def scores(self, points):
            return np.hstack([points, points[:, :1]]) ** 3

    try:
        X, y = rows_of("iris")
        linear = FisherDiscriminant(head="tilted", ridge=1.0).fit(X, y)
        same(linear, linear.to_sklearn(), X)  # what is linear needs no translation of its own
        with pytest.raises(TypeError, match=r"FisherDiscriminant.to_sklearn: head='curved' has no translation"):
            FisherDiscriminant(head="curved", ridge=1.0).fit(X, y).to_sklearn()
    finally:
        for name in HEADS.keys() - before.keys():
            del HEADS[name]


@pytest.mark.parametrize(
    "model", [FisherDiscriminant(ridge=1.0), KernelFisherDiscriminant(landmarks=20), CoreVectorClassifier()]
)
def test_the_model_shares_no_array_with_it(model):
    X, y = rows_of("iris")
    before = model.fit(X, y).decision_function(X)
    for _, step in model.to_sklearn().steps:
        for value in vars(step).values():
            if isinstance(value, np.ndarray) and value.dtype == np.float64:
                value[...] = 7.0
    model = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(model.decision_function(X), before)
