"""Models in files that lie under a right digest: refused before a compiled loop could be led out of bounds."""

import contextlib
import copy
import functools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_iris

from kampong import (
    CoreVectorClassifier,
    FisherDiscriminant,
    InformationGain,
    InterClassScatter,
    MarginRecursion,
    MarginSubspace,
    MaxMinOverClassifier,
)
from kampong.files import CheckpointError, load, pack, read, unpack, write
from problems import at_most

pytestmark = pytest.mark.filterwarnings(
    "ignore::kampong.CriterionWarning", "ignore::sklearn.exceptions.ConvergenceWarning"
)

X, Y = load_iris(return_X_y=True)
WORDS = np.array(["setosa", "versicolor", "virginica"])


@functools.cache
def packed(kind):
    """Fit a small model once; return its arrays and facts."""
    made = {
        "scatter": lambda: MarginSubspace(epsilon=0.1).fit(X, Y),
        "sample": lambda: MarginSubspace(epsilon=0.1, solver="reservoir", reservoir_bytes=9000).partial_fit(
            sparse.csr_array(X), Y
        ),
        "both": lambda: MarginSubspace(epsilon="auto").partial_fit(X, WORDS[Y]),
        "resolvent": lambda: FisherDiscriminant(ridge="auto", solver="resolvent").fit(X, Y),
        "means": lambda: InterClassScatter().fit(X, Y),
        "recursion": lambda: MarginRecursion(2).fit(X, Y),
        "information": lambda: InformationGain(2).fit(X, Y),
        "support": lambda: MaxMinOverClassifier(walk="paper", max_iter=50).fit(sparse.csr_array(X), WORDS[Y]),
        "core": lambda: CoreVectorClassifier().fit(X, Y),
        "core stream": lambda: CoreVectorClassifier(loss="hinge", probability=True, max_stored_rows=90).partial_fit(
            X, Y
        ),
    }
    return pack(made[kind]())


def small(kind):
    """Return a small fitted model, as arrays and facts that may be changed."""
    arrays, facts = packed(kind)
    return {name: array.copy() for name, array in arrays.items()}, copy.deepcopy(facts)


STATISTICS = "model.learnt.statistics."


def change(name, value):
    return lambda arrays, facts: arrays.__setitem__(name, value(arrays[name]))


def tell(value, *where):
    def lie(arrays, facts):
        for key in where[:-1]:
            facts = facts[key]
        facts[where[-1]] = value

    return lie


def at(position, value):
    def put(array):
        array = array.copy()
        array.flat[position] = value
        return array

    return put


def lines(text):
    return lambda _: np.frombuffer(text, dtype=np.uint8)


LIES = {
    "unknown class": ("means", tell("os.system", "model", "class")),
    "a class that is no estimator": ("means", tell("solve", "model", "class")),
    "a private class": ("means", tell("_discriminant", "model", "class")),
    "a class that is no text": ("means", tell(["MarginSubspace"], "model", "class")),
    "another class": ("means", tell("MarginRecursion", "model", "class")),
    "unknown parameter": ("means", tell(1, "model", "parameters", "__class__")),
    "parameter of the wrong type": ("means", tell("much", "model", "parameters", "decay")),
    "parameter that is a list": ("means", tell([1], "model", "parameters", "n_components")),
    "parameter that is an object": ("means", tell({"a": 1}, "model", "parameters", "n_components")),
    "generator out of range": ("core", tell({"random_state": [[0], 1, 0, 0.0]}, "model", "parameters", "random_state")),
    "parameters that are a list": ("means", tell([], "model", "parameters")),
    "no model": ("means", tell(None, "model")),
    "model with more": ("means", tell(1, "model", "more")),
    "state that is a list": ("means", tell([], "model", "state")),
    "unknown container": ("means", tell("os", "model", "output")),
    "container that is a list": ("means", tell(["pandas"], "model", "output")),
    "fitted is a number": ("means", tell(1, "model", "fitted")),
    "fitted is denied": ("means", tell(False, "model", "fitted")),
    "an array more": ("means", lambda arrays, facts: arrays.update({"model.learnt.more": np.zeros(1)})),
    "a stranger": ("means", lambda arrays, facts: arrays.update(stranger=np.zeros(1))),
    "an array missing": ("means", lambda arrays, facts: arrays.pop(STATISTICS + "means")),
    "a fact more": ("means", tell(1, "model", "state", "learnt.more")),
    "a fact missing": ("means", lambda arrays, facts: facts["model"]["state"].pop("learnt.statistics.kind")),
    "endless width": ("means", tell(2**39, "model", "state", "n_features_in_")),
    "width of true": ("means", tell(True, "model", "state", "n_features_in_")),
    "endless width of a recursion": ("recursion", tell(2**39, "model", "state", "n_features_in_")),
    "wrong dtype": ("means", change(STATISTICS + "means", lambda array: array.astype(np.float32))),
    "integers for floats": ("means", change(STATISTICS + "counts", lambda array: array.astype(np.int64))),
    "wrong shape": ("means", change(STATISTICS + "means", lambda array: array.T.copy())),
    "axes missing": ("means", change(STATISTICS + "means", np.ravel)),
    "NaN": ("means", change(STATISTICS + "means", at(5, np.nan))),
    "a mean whose square overflows": ("scatter", change(STATISTICS + "means", at(0, 1e300))),
    "infinity": ("scatter", change(STATISTICS + "scatter", at(3, np.inf))),
    "negative counts": ("means", change(STATISTICS + "counts", at(0, -1.0))),
    "negative squares": ("means", change(STATISTICS + "squares", at(0, -1.0))),
    "negative number of rows": ("means", change(STATISTICS + "form", at(1, -1))),
    "other width": ("means", change(STATISTICS + "form", at(0, 5))),
    "unknown form of labels": ("means", change(STATISTICS + "form", at(2, 2))),
    "several labels without their mean": (
        "means",
        lambda arrays, facts: arrays.update(
            {STATISTICS + "form": np.array([4, 150, 1]), STATISTICS + "row_weight": np.array(1.0)}
        ),
    ),
    "unknown statistics": ("means", tell("ClassRows", "model", "state", "learnt.statistics.kind")),
    "other statistics": ("means", tell("ClassScatter", "model", "state", "learnt.statistics.kind")),
    "a label twice": ("means", change(STATISTICS + "labels.values", lines(b"0\n1\n1"))),
    "labels of two kinds": ("means", change(STATISTICS + "labels.values", lines(b'0\n1\n"a"'))),
    "labels that are lists": ("means", change(STATISTICS + "labels.values", lines(b"0\n1\n[[]]"))),
    "labels that are NaN": ("means", change(STATISTICS + "labels.values", lines(b"0\n1\n1e999"))),
    "labels that are deep": ("means", change(STATISTICS + "labels.values", lines(b"[" * 200_000))),
    "labels that are no text": ("means", change(STATISTICS + "labels.values", lines(b"\xff\xff"))),
    "labels that overflow": ("means", change(STATISTICS + "labels.values", lines(b"0\n1\n" + b"9" * 30))),
    "labels of other dtype": ("means", tell("<U3", "model", "state", "learnt.statistics.labels.dtype")),
    "labels of a strange dtype": ("means", tell("i8,i8", "model", "state", "learnt.statistics.labels.dtype")),
    "labels of an endless dtype": ("means", tell("<U99999999", "model", "state", "learnt.statistics.labels.dtype")),
    "codes out of bounds": ("sample", change(STATISTICS + "sample_codes", at(0, 3))),
    "negative codes": ("sample", change(STATISTICS + "sample_codes", at(0, -1))),
    "columns out of bounds": ("sample", change(STATISTICS + "sample_indices", at(0, 4))),
    "negative columns": ("sample", change(STATISTICS + "sample_indices", at(0, -1))),
    "rows out of bounds": ("sample", change(STATISTICS + "sample_first", at(1, 10**6))),
    "row lengths": ("sample", change(STATISTICS + "sample_count", at(1, 3))),
    "row lengths that overflow": ("sample", change(STATISTICS + "sample_count", at(1, 2**62))),
    "label lengths": ("sample", change(STATISTICS + "sample_label_count", at(1, 2))),
    "a sample of dense rows": ("sample", change(STATISTICS + "sample_form", at(1, 0))),
    "a sample of no rows": ("sample", change(STATISTICS + "sample_form", at(1, -1))),
    "a budget of nothing": ("sample", change(STATISTICS + "sample_form", at(0, 0))),
    "negative weights": ("sample", change(STATISTICS + "sample_weights", at(0, -1.0))),
    "keys out of order": ("sample", change(STATISTICS + "sample_keys", at(0, 100.0))),
    "a clock that is NaN": ("sample", change(STATISTICS + "sample_clock", at(0, np.nan))),
    "sample beside a scatter": ("both", change(STATISTICS + "sample_data", lambda array: array[:-1])),
    "subspace of other width": (
        "resolvent",
        change("model.learnt.predictor.components", lambda array: array[:, :3].copy()),
    ),
    "head of other width": ("resolvent", change("model.learnt.predictor.head.weights", lambda array: array[:2].copy())),
    "head that is NaN": ("resolvent", change("model.learnt.predictor.head.offsets", at(0, np.nan))),
    "more classes than sums": ("recursion", tell(50, "model", "state", "learnt.recursion.n_classes")),
    "unknown rule": ("recursion", tell(3, "model", "state", "learnt.recursion.rule")),
    "a basis too small": ("recursion", change("model.learnt.recursion.basis", lambda array: array[:2].copy())),
    "a Gram matrix too small": ("recursion", change("model.learnt.recursion.gram", lambda array: array[:2, :2].copy())),
    "labels for fewer classes": ("recursion", change("model.learnt.labels.values", lines(b"0\n1"))),
    "negative presence": ("information", change("model.learnt.presence", at(0, -1.0))),
    "kernel that is a function": ("core", tell("callable", "model", "state", "learnt.kernel.name")),
    "columns of the kernel": (
        "core",
        lambda arrays, facts: arrays.update({"model.learnt.kernel.varying": np.array([9])}),
    ),
    "support out of bounds": ("support", change("model.learnt.support_vectors.indices", at(0, 10**6))),
    "support rows": ("support", change("model.learnt.support_vectors.indptr", at(1, 10**6))),
    "support rows backwards": (
        "support",
        change("model.learnt.support_vectors.indptr", at(2, 0)),
    ),
    "support weights": ("support", change("model.learnt.dual_coef_", at(0, np.inf))),
    "classes out of order": ("support", change("model.learnt.classes.values", lambda array: array[::-1].copy())),
    "stored numbers out of order": (
        "core stream",
        change("model.learnt.stored.numbers", lambda array: array[::-1].copy()),
    ),
    "stored rows without the support": ("core stream", change("model.learnt.support_", at(-1, 10**6))),
    "stored rows that count nothing": ("core stream", change("model.learnt.stored.counts", at(0, 0.0))),
    "stored rows that left before they came": ("core stream", tell(-1, "model", "state", "learnt.stored.n_left")),
    "held-out codes": ("core stream", change("model.learnt.held_out.codes", at(0, 3))),
    "a calibration that is NaN": ("core stream", change("model.learnt.calibration", at(1, np.nan))),
    "stored codes": ("support", change("model.learnt.stored.codes", at(0, 3))),
    "a stored row of another class": ("core stream", change("model.learnt.stored.codes", lambda array: 2 - array)),
    "a stored weight of another sign": ("core", change("model.learnt.stored.coefficients", np.negative)),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_refused(tmp_path, name):
    path = tmp_path / "model"
    kind, lie = LIES[name]
    arrays, facts = small(kind)
    unpack({name: array.copy() for name, array in arrays.items()}, copy.deepcopy(facts))
    lie(arrays, facts)
    write(path, arrays, facts)
    read(path)
    with pytest.raises(CheckpointError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "Restore a copy" in message
    assert len(message) < 1000


def test_a_file_of_another_version_says_so(tmp_path):
    path = tmp_path / "model"
    arrays, facts = small("means")
    facts["versions"]["kampong"] = "99.0"
    write(path, arrays, facts)
    load(path)
    facts["model"]["parameters"]["invented"] = 1
    write(path, arrays, facts)
    with pytest.raises(CheckpointError, match=r"invented.*kampong 99\.0.*load it with that version"):
        load(path)


def test_a_parameter_that_an_older_version_did_not_have_gets_its_default(tmp_path):
    path = tmp_path / "model"
    arrays, facts = small("means")
    del facts["model"]["parameters"]["reservoir_bytes"]
    write(path, arrays, facts)
    assert load(path).get_params() == InterClassScatter().get_params()


VALUES = st.sampled_from([np.nan, np.inf, -np.inf, -1, 0, 1, 2, 255, 2**31, -(2**63), 2**63 - 1, 1e300])
PLAIN = st.sampled_from([None, True, False, -1, 0, 1, 7, 2**40, 2**70, 0.5, -1e300, "", "auto", "csr_array", [], {}])


@pytest.mark.parametrize(
    "kind", ["scatter", "sample", "both", "resolvent", "recursion", "information", "support", "core", "core stream"]
)
@settings(max_examples=at_most(40))
@given(data=st.data())
def test_random_lies_are_refused_or_do_no_harm(kind, data):
    arrays, facts = small(kind)
    state = facts["model"]["state"]
    name = data.draw(st.sampled_from(sorted((*arrays, *state))))
    if name in state:
        state[name] = data.draw(PLAIN)
    else:
        array = arrays[name]
        how = data.draw(st.sampled_from(["value", "dtype", "longer", "shorter", "empty"]))
        if how == "value" and array.size:
            place = data.draw(st.integers(0, array.size - 1))
            value = data.draw(VALUES)
            if array.dtype.kind in "iu":
                info = np.iinfo(array.dtype)
                value = int(np.clip(np.nan_to_num(value), info.min, min(info.max, 2**63 - 513)))
            arrays[name] = at(place, value)(array)
        elif how == "dtype":
            with np.errstate(all="ignore"):
                arrays[name] = array.astype(data.draw(st.sampled_from([np.int8, np.uint8, np.int64, np.float32, bool])))
        elif how == "longer":
            arrays[name] = np.concatenate([np.atleast_1d(array), np.atleast_1d(array)])
        elif how == "shorter":
            arrays[name] = np.atleast_1d(array)[:-1]
        else:
            arrays[name] = array.ravel()[:0]
    try:
        model = unpack(arrays, facts)
    except CheckpointError:
        return
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("transform", "predict", "predict_proba", "decision_function"):
            with contextlib.suppress(AttributeError, ValueError, FloatingPointError):
                getattr(model, name)(X)
