"""Models in checkpoints: a loaded model is the saved one, bit for bit, and goes on as if nothing had happened."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

import kampong
from kampong import (
    CandidCovarianceFreePCA,
    CoreVectorClassifier,
    CriterionSubspace,
    FisherDiscriminant,
    InformationGain,
    InterClassScatter,
    KernelFisherDiscriminant,
    KernelMarginSubspace,
    MarginRecursion,
    MarginSubspace,
    MaximumMarginCriterion,
    MaximumMarginDiscriminant,
    MaxMinOverClassifier,
    MinOverClassifier,
    SupervisedKampongMeasure,
    WeighedDiscriminant,
)
from kampong.files import CheckpointError, load, pack, read, save, saved_models, unpack, write
from problems import at_most, cut, problem, seeds

pytestmark = pytest.mark.filterwarnings(
    "ignore::kampong.CriterionWarning",
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:.*far less accurate where classes overlap:RuntimeWarning",
)

X, Y = load_iris(return_X_y=True)
WORDS = np.array(["setosa", "Versicolor \N{SNOWMAN}", ""])
READINGS = ("transform", "predict", "predict_proba", "decision_function")
ATTRIBUTES = (
    "components_",
    "eigenvalues_",
    "classes_",
    "class_counts_",
    "class_means_",
    "scores_",
    "theta_",
    "counts_",
)

STREAMS = {
    "margin": MarginSubspace(epsilon=0.1),
    "margin, auto": MarginSubspace(epsilon="auto", reservoir_bytes=2000),
    "means": InterClassScatter(),
    "means, gaussian": InterClassScatter(head="gaussian", decay=0.9),
    "decay": MaximumMarginCriterion(decay=0.95, head="nearest_mean"),
    "half-life": SupervisedKampongMeasure(half_life=20.0),
    "sample": MarginSubspace(epsilon=0.1, solver="reservoir", reservoir_bytes=2000, random_state=3),
    "sample, decay": FisherDiscriminant(ridge=0.1, solver="reservoir", reservoir_bytes=3000, half_life=30.0),
    "fisher": FisherDiscriminant(ridge=0.5),
    "fisher, auto": FisherDiscriminant(),
    "recursion": MarginRecursion(2),
    "recursion, distance": MarginRecursion.kampong(2, amnesia=1.0),
    "principal": CandidCovarianceFreePCA(2),
    "information": InformationGain(2),
    "core vectors, stream": CoreVectorClassifier(max_stored_rows=25),
    "core vectors, probabilities": CoreVectorClassifier(loss="hinge", max_stored_rows=40, probability=True),
    "minover": MinOverClassifier(max_iter=200),
    "maxminover": MaxMinOverClassifier(walk="paper", bias="exact", max_iter=100, kernel="linear"),
}
FITS = {
    **STREAMS,
    "resolvent": MarginSubspace(epsilon=0.1, solver="resolvent"),
    "resolvent, auto": FisherDiscriminant(ridge="auto", solver="resolvent"),
    "soft": MaxMinOverClassifier(0.3, random_state=np.random.RandomState(5)),
    "warm": MinOverClassifier(warm_start=True, max_iter=20, kernel="polynomial", degree=2, coef0=1.0),
    "core vectors": CoreVectorClassifier(C=10.0, warm_start=True, gamma="scale"),
    "core vectors, linear": CoreVectorClassifier(kernel="linear", max_iter=1000),
    "margin features": MaximumMarginDiscriminant(2, gamma=0.5),
    "margin features, linear": MaximumMarginDiscriminant(kernel="linear", warm_start=True),
    "kernel Fisher": KernelFisherDiscriminant(landmarks=9, random_state=3),
    "kernel margin": KernelMarginSubspace(2, epsilon=0.01, landmarks=9, gamma=0.3),
    "laplacian": KernelFisherDiscriminant(landmarks=9, kernel="laplacian", scale=True),
    "laplacian waves": KernelMarginSubspace(2, epsilon=0.01, landmarks=8, kernel="laplacian", placement="fourier"),
    "weighed": WeighedDiscriminant(),
    "any criterion": CriterionSubspace(criterion="margin", parameter=0.1),
}
LABELS = {
    "integers": lambda codes: codes - 1,
    "small integers": lambda codes: codes.astype(np.int8),
    "large integers": lambda codes: codes.astype(np.uint64) + np.uint64(2**63),
    "strings": lambda codes: WORDS[codes % 3],
    "objects": lambda codes: WORDS[codes % 3].astype(object),
    "booleans": lambda codes: codes > 0,
    "whole floats": lambda codes: codes.astype(np.float32) * 2.0,
}
ROWS = {
    "dense": lambda X: X,
    "columns first": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "csr_array": lambda X: sparse.csr_array(np.where(X > 0.5, X, 0.0)),
    "csr_matrix": lambda X: sparse.csr_matrix(np.where(X > 0.5, X, 0.0)),
}


def bits(value):
    """Return all there is to an array, or to what holds arrays."""
    if sparse.issparse(value):
        value = value.tocsr()
        return type(value).__name__, value.shape, bits(value.data), bits(value.indices), bits(value.indptr)
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        content = value.tolist() if value.dtype.kind == "O" else value.tobytes()
        return value.dtype.str, value.shape, content
    return value


def readings(model, X):
    """Return the bits of everything that a model says; what it refuses to say counts too."""
    found = {}
    for name in (*READINGS, *ATTRIBUTES):
        try:
            value = getattr(model, name)
            found[name] = bits(value(X) if name in READINGS else value)
        except (AttributeError, NotFittedError, ValueError) as error:
            found[name] = type(error).__name__
    return found


def same(model, other, X):
    for one in (model, other):
        one._before_save()  # as whoever saves them
    assert sorted(vars(model)) == sorted(vars(other))
    assert [bits(part) for part in pack(model)] == [bits(part) for part in pack(other)]
    assert readings(model, X) == readings(other, X)


def again(model, path):
    """Return the model from its file, which a second file repeats byte by byte."""
    model.save(path)
    content = path.read_bytes()
    result = load(path)
    save(result, path)
    assert path.read_bytes() == content
    return result


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Return a path that all examples of a test may write to."""
    return tmp_path_factory.mktemp("models") / "model"


def test_every_estimator_can_be_saved():
    public = [getattr(kampong, name) for name in kampong.__all__]
    estimators = [item for item in public if isinstance(item, type) and issubclass(item, BaseEstimator)]
    contest = {"OnlineClassifier"}  # public in kampong.online, and saved in its own tests
    assert {item.__name__ for item in estimators} | contest == set(saved_models.CLASSES)
    assert {type(model) for model in FITS.values()} == set(estimators)


@pytest.mark.parametrize("name", FITS)
def test_an_unfitted_model_keeps_its_parameters(path, name):
    model = again(FITS[name], path)
    mine, theirs = model.get_params(), FITS[name].get_params()
    if name == "soft":  # generators are equal by their state
        states = [values.pop("random_state").get_state(legacy=False) for values in (mine, theirs)]
        assert bits(states[0]) == bits(states[1])
    assert mine == theirs
    assert sorted(vars(model)) == sorted(vars(FITS[name]))


@settings(max_examples=at_most(6))
@pytest.mark.parametrize("name", FITS)
@given(seed=seeds, rows=st.sampled_from(sorted(ROWS)), labels=st.sampled_from(sorted(LABELS)), read=st.booleans())
def test_a_fitted_model_comes_back(path, name, seed, rows, labels, read):
    X, codes = problem(seed)
    X, y = ROWS[rows](X), LABELS[labels](codes)
    model = copy.deepcopy(FITS[name]).fit(X, y)
    if read:
        readings(model, X)
    same(again(model, path), model, X)
    same(again(model, path).fit(X, y), model.fit(X, y), X)  # from a warm start, where there is one


def learn(model, X, y, weights, classes):
    """Give a batch to a model in the form it takes."""
    if isinstance(model, CandidCovarianceFreePCA):
        return model.partial_fit(X)
    if isinstance(model, MarginRecursion | MinOverClassifier | MaxMinOverClassifier):
        return model.partial_fit(X, y, classes)
    return model.partial_fit(X, y, classes, sample_weight=weights)


@settings(max_examples=at_most(8))
@pytest.mark.parametrize("name", STREAMS)
@given(
    seed=seeds,
    rows=st.sampled_from(sorted(ROWS)),
    labels=st.sampled_from(sorted(LABELS)),
    late=st.booleans(),
    weighted=st.booleans(),
    read=st.booleans(),
)
def test_a_stream_goes_on_as_if_nothing_had_happened(path, name, seed, rows, labels, late, weighted, read):
    rng = np.random.default_rng(seed)
    X, codes = problem(rng.integers(2**32), rows=80)
    if late:
        order = np.argsort(codes, kind="stable")
        X, codes = X[order], codes[order]
    y = LABELS[labels](codes)
    weights = rng.integers(0, 3, len(y)) * rng.random(len(y)) if weighted else np.ones(len(y))
    classes = np.unique(y) if not late or "minover" in name or "core" in name else None
    whole, saved = copy.deepcopy(STREAMS[name]), copy.deepcopy(STREAMS[name])
    batches = cut(rng, len(y))
    stop = rng.integers(0, len(batches) + 1)
    loaded = again(saved, path)
    for place, batch in enumerate(batches):
        part = ROWS[rows](X[batch]), y[batch], weights[batch], classes
        for model in (whole, saved, loaded):
            learn(model, *part)
        if read:
            readings(saved, part[0])
        if place in (stop - 1, stop):
            loaded = again(saved, path)
    for model in (saved, loaded):
        same(model, whole, ROWS[rows](X))
    try:
        merged = whole.merge(whole)
    except (AttributeError, TypeError, NotFittedError):
        return
    same(loaded.merge(again(saved, path)), merged, ROWS[rows](X))


@given(seed=seeds, read=st.booleans())
@settings(max_examples=at_most(8))
def test_rows_with_several_labels_come_back(path, seed, read):
    rng = np.random.default_rng(seed)
    X, codes = problem(seed)
    y = (codes[:, None] == np.arange(3)) | (rng.random((len(X), 3)) < 0.2)
    for model in (
        MarginSubspace(epsilon=0.1),
        MarginSubspace(epsilon=0.1, solver="reservoir", reservoir_bytes=3000),
        InterClassScatter(),
        FisherDiscriminant(ridge=0.1, solver="resolvent"),
    ):
        model.fit(X, y.astype(int)) if model.solver != "reservoir" else model.partial_fit(X, y.astype(int))
        if read:
            readings(model, X)
        loaded = again(model, path)
        same(loaded, model, X)
        if model.solver != "resolvent":
            same(loaded.partial_fit(X, y.astype(int)), model.partial_fit(X, y.astype(int)), X)


def test_room_for_classes_to_come_leaves_no_trace(path):
    """Room for classes grows ahead of them; sums must not depend on it, and a file does not hold it."""
    rng = np.random.default_rng(0)
    for classes in range(10, 130, 8):
        X, y, weights = rng.normal(size=(2 * classes, 3)), np.arange(2 * classes) % classes, rng.random(2 * classes)
        early = y < classes - 1
        model = FisherDiscriminant(ridge=0.1).partial_fit(X[early], y[early], sample_weight=weights[early])
        model.partial_fit(X[~early], y[~early], sample_weight=weights[~early])
        same(again(model, path), model, X)
        same(again(model, path).partial_fit(X, y + 5), model.partial_fit(X, y + 5), X)
    for model in (MarginRecursion(2), InformationGain(2)):
        for first in range(0, len(y), 9):
            model.partial_fit(X[first : first + 9], y[first : first + 9])
        same(again(model, path), model, X)
        same(again(model, path).partial_fit(X, y + 50), model.partial_fit(X, y + 50), X)


def test_names_of_features_and_the_output_container_come_back(path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b \0", "", "été"])
    model = MarginSubspace(epsilon=0.1).fit(frame, Y).set_output(transform="pandas")
    loaded = again(model, path)
    assert loaded.feature_names_in_.tolist() == frame.columns.tolist()
    pandas.testing.assert_frame_equal(loaded.transform(frame), model.transform(frame), check_exact=True)
    with pytest.raises(ValueError, match="feature names"):
        loaded.transform(frame.rename(columns={"a": "z"}))


def test_labels_come_back_as_they_are(path):
    kinds = [
        np.array(["a", "a\0", "\ud800"], dtype=object),
        np.array([-(2**63), 0, 2**63 - 1]),
        np.array([2**64 - 1, 0, 1], dtype=np.uint64),
        np.array([0, 1, 2], dtype=">i4"),
    ]
    for kind in kinds:
        for model in (MarginSubspace(epsilon=0.1), InformationGain(2), MinOverClassifier(max_iter=50)):
            model.fit(X, kind[Y])
            loaded = again(model, path)
            assert bits(loaded.classes_) == bits(model.classes_)
            assert set(loaded.classes_.tolist()) == set(kind.tolist())


def test_a_model_that_was_saved_in_between_has_no_trace_of_it(path):
    model = MarginSubspace(epsilon=0.1).partial_fit(X[:75], Y[:75])
    arrays, facts = pack(model)
    before = bits(arrays)
    for other in (model, unpack({name: array.copy() for name, array in arrays.items()}, facts)):
        other.partial_fit(X, Y)
    assert bits(arrays) == before


def test_reading_leaves_no_trace_in_a_file(path):
    model = MaximumMarginCriterion(3).partial_fit(X, Y)
    model.save(path)
    before = path.read_bytes()
    with pytest.warns(kampong.CriterionWarning):
        readings(model, X)
    model.save(path)
    assert path.read_bytes() == before
    with pytest.warns(kampong.CriterionWarning):
        load(path).transform(X)


def test_what_cannot_be_saved_is_said(path):
    class Own(MarginSubspace):
        pass

    def kernel(a, b):
        return a @ b.T

    cases = [
        (MinOverClassifier(kernel=kernel), r"kernel=<function.*holds no code.*set_params"),
        (MarginSubspace(n_components=["two"]), "n_components=.*a list"),
        (MarginSubspace(decay="much"), "decay='much'"),
        (Own(), r"an? Own cannot be saved.*Register a class of your own with the decorator kampong.files.savable"),
        (BaseEstimator(), "a BaseEstimator cannot be saved"),
    ]
    for model, message in cases:
        with pytest.raises(CheckpointError, match=message):
            save(model, path.with_name("never"))
    model = MinOverClassifier(kernel=kernel).fit(X, Y)
    model.set_params(kernel="linear")
    with pytest.raises(CheckpointError, match="a kernel that is a function"):
        model.save(path.with_name("never"))
    assert not path.with_name("never").exists()


def test_others_may_put_their_arrays_and_facts_beside_a_model(path):
    model = InterClassScatter().fit(X, Y)
    arrays, facts = pack(model)
    write(path, {**arrays, "history.counts": np.arange(3)}, {**facts, "stream": {"offset": 17}})
    same(load(path), model, X)
    found, known = read(path)
    same(unpack(found, known), model, X)
    assert known["stream"] == {"offset": 17}
