"""The contract: streams, adapters, reports and the command line ask a model nothing else, and every model keeps it."""

import ast
import importlib
import inspect
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import IncrementalPCA
from sklearn.linear_model import Perceptron, SGDClassifier
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.svm import SVC

import kampong
from kampong import contract, registry
from kampong.contract import StreamModel, stream_model
from kampong.estimators.stream_model import FisherModel, KernelModel, SubspaceModel

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "kampong"

OURS = [
    kind
    for kind in (getattr(registry, name) for name in registry.__all__)
    if isinstance(kind, type) and hasattr(kind, "partial_fit")
]
OTHERS = [SGDClassifier(shuffle=False), Perceptron(shuffle=False), GaussianNB(), MultinomialNB(), IncrementalPCA(2)]

GUARDED = {("adapters/onnx.py", "skl2onnx._parse")}
"""Private modules of other packages that are imported where an error says what to do if they are gone."""


def trees_of(**files):
    return {Path(f"{name}.py"): ast.parse(text) for name, text in files.items()}


@pytest.fixture
def counts(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.counts")


@pytest.fixture
def sources():
    return {path.relative_to(SOURCE): ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}


def test_nobody_reaches_into_a_model_from_outside(counts, sources):
    assert counts.reaches(sources) == []


def test_nobody_asks_a_model_whether_it_has_a_member(counts, sources):
    assert counts.asks(sources) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f(model): return model._statistics", 1),
        ("def f(model): model._statistics = 3", 1),
        ("def f(run): return run.model._known()", 1),
        ("def f(model): return getattr(model, '_statistics', None)", 1),
        ("def f(model): return model.classes_", 0),
        ("class A:\n    def f(self): return self._own", 0),
    ],
)
def test_the_scan_sees_a_private_reach(counts, text, found):
    assert len(counts.reaches(trees_of(cli=text))) == found
    assert counts.reaches(trees_of(estimators=text)) == []  # at home


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f(model): return hasattr(model, 'freeze')", 1),
        ("def f(run): return hasattr(run.model, 'freeze')", 1),
        ("def f(X): return hasattr(X, 'columns')", 0),
    ],
)
def test_the_scan_sees_a_question(counts, text, found):
    assert len(counts.asks(trees_of(merging=text))) == found


def test_no_private_module_of_another_package_is_imported_without_a_guard(sources):
    found = {
        (str(path), node.module)
        for path, tree in sources.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith("kampong")
        if any(part.startswith("_") and not part.startswith("__") for part in node.module.split("."))
    }
    assert found == GUARDED


# Every model keeps the contract.


def members_of(kind):
    return {name: member for name, member in vars(kind).items() if not name.startswith("_")}


@pytest.mark.parametrize("kind", [contract.PartialFitModel, SubspaceModel, FisherModel, KernelModel])
def test_every_model_has_the_members_of_the_contract_with_the_same_arguments(kind):
    for name, member in members_of(StreamModel).items():
        assert hasattr(kind, name) or name == "estimator", name
        assert member.__doc__, name
        if inspect.isfunction(member):
            mine, theirs = (inspect.signature(one).parameters for one in (getattr(kind, name), member))
            assert [(one.name, one.kind, one.default) for one in mine.values()] == [
                (one.name, one.kind, one.default) for one in theirs.values()
            ], name


def test_which_class_stands_behind_which_estimator():
    expected = {
        kampong.MarginSubspace: SubspaceModel,
        kampong.FisherDiscriminant: FisherModel,
        kampong.KernelFisherDiscriminant: KernelModel,
        kampong.MinOverClassifier: contract.PartialFitModel,
        SGDClassifier: contract.PartialFitModel,
    }
    assert {kind: type(stream_model(kind())) for kind in expected} == expected


@pytest.mark.parametrize("estimator", [*[kind() for kind in OURS], *OTHERS], ids=lambda one: type(one).__name__)
def test_learning_through_the_contract_is_partial_fit(estimator):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = np.abs(rng.normal(size=(90, 4)) + 3 * np.eye(3, 4)[y])
    model, plain = stream_model(clone(estimator)), clone(estimator)
    assert not model.fitted
    assert model.classes in ([], None)
    takes = "classes" in inspect.signature(plain.partial_fit).parameters
    for start in (0, 45):
        batch = X[start : start + 45], y[start : start + 45]
        assert model.predict_then_learn(*batch, classes=[0, 1, 2]) is None
        plain.partial_fit(*batch, **({"classes": [0, 1, 2]} if takes else {}))
    assert model.fitted
    assert model.classes in ([0, 1, 2], None)
    assert model.width == (len(plain.landmarks_) if model.can.landmarks else 4)
    found, able = model.answer(X), (hasattr(plain, "transform"), hasattr(plain, "predict"))
    assert (model.can.transform, model.can.predict) == able
    for points, act in zip(found, ("transform", "predict"), strict=True):
        if hasattr(plain, act):
            np.testing.assert_array_equal(points, getattr(plain, act)(X))
        else:
            assert points is None


@pytest.mark.parametrize("estimator", OTHERS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda one: one.predictor(), "cannot be frozen: it has no predictor apart from its state."),
        (lambda one: one.move_columns(np.arange(4), 5), "cannot gain or move columns after its first batch."),
        (lambda one: one.merge(one), "cannot be merged: two of its models are not the model of all rows."),
        (lambda one: one.unlearn(np.zeros((1, 4)), np.zeros(1)), "cannot take rows out again."),
        (lambda one: one.copy(), "cannot be solved beside a stream."),
    ],
)
def test_estimators_of_other_people_say_what_they_cannot_do(estimator, act, said):
    with pytest.raises(TypeError) as error:
        act(stream_model(estimator))
    name = type(estimator).__name__
    assert str(error.value) == f"{name} {said} Use FisherDiscriminant or another subspace of kampong."


def test_an_estimator_without_partial_fit_cannot_learn():
    model = stream_model(SVC())
    assert not model.can.learn
    with pytest.raises(TypeError, match="SVC cannot learn a stream: it has no partial_fit"):
        model.learn(np.zeros((2, 1)), np.array([0, 1]))


def test_an_announced_width_counts_before_the_columns_come():
    model = stream_model(kampong.FisherDiscriminant())
    assert model.width == 0
    model.expect_width(9000)
    assert model.width == 9000
    model.learn(np.eye(4), np.array([0, 1, 0, 1]))
    assert model.width == 9000


def test_kernel_models_are_as_wide_as_their_landmarks():
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    model = stream_model(kampong.KernelFisherDiscriminant(landmarks=17))
    model.learn(X, y)
    assert model.width == len(model.estimator.landmarks_) <= 17
    blank = model.blank(seed=5)
    assert not blank.fitted
    assert blank.width == model.width


def test_a_copy_is_not_changed_by_later_rows():
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    model = stream_model(kampong.FisherDiscriminant(ridge=0.1))
    model.learn(X[:30], y[:30])
    copied, before = model.copy(), model.estimator.state_digest()
    model.learn(X[30:], y[30:])
    assert copied.estimator.state_digest() == before != model.estimator.state_digest()


# In a stream.


@pytest.fixture
def points(tmp_path):
    pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
    pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")
    write = importlib.import_module("stream_problems").write_points
    write(tmp_path / "a.csv", rows=300)
    return str(tmp_path / "a.csv")


@pytest.mark.parametrize("estimator", OTHERS[:3], ids=lambda one: type(one).__name__)
def test_scikit_learns_estimators_learn_a_stream(points, estimator):
    from kampong.streaming import learn

    run = learn(points, clone(estimator), label="kind", classes=["a", "b", "c"])
    rows = [line.split(",") for line in Path(points).read_text().splitlines()[1:]]
    X, y = np.array([row[:4] for row in rows], dtype=float), np.array([row[4] for row in rows])
    expected = clone(estimator).partial_fit(X, y, classes=["a", "b", "c"])  # row after row, so batches do not matter
    np.testing.assert_array_equal(run.model.predict(X), expected.predict(X))
    assert (run.counters.rows, run.finished) == (300, True)


@pytest.mark.parametrize(
    ("estimator", "options", "said"),
    [
        (SVC(), {}, "a SVC has no partial_fit, so it cannot learn a stream."),
        (SGDClassifier(), {"model_file": "m"}, "m: a SGDClassifier cannot be saved in a model file"),
        (SGDClassifier(), {}, "Declare all classes that may come: classes=[…] in learn, or --classes"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(points, monkeypatch, tmp_path, estimator, options, said):
    from kampong.streaming import learn
    from kampong.streaming.errors import StreamError

    monkeypatch.chdir(tmp_path)
    with pytest.raises(StreamError) as error:
        learn(points, estimator, label="kind", **options)
    assert said in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_models_that_cannot_be_merged_say_so(points, tmp_path):
    from kampong.streaming import learn
    from kampong.streaming.errors import StreamError
    from kampong.streaming.inspection import merge_files

    names = [str(tmp_path / name) for name in ("one", "two")]
    for name in names:
        learn(points, kampong.MaximumMarginDiscriminant(tol=0.5), label="kind", model_file=name)
    with pytest.raises(StreamError, match="MaximumMarginDiscriminant cannot be merged: two of its models"):
        merge_files(names, str(tmp_path / "both"))
