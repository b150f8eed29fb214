"""Dense whole numbers and halves are learnt as their floats are, bit for bit, and are never copied as a whole."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

from kampong import (
    FisherDiscriminant,
    InformationGain,
    InterClassScatter,
    KernelFisherDiscriminant,
    KernelMarginSubspace,
    MarginSubspace,
    MaximumMarginCriterion,
    SupervisedKampongMeasure,
)
from kampong.online import OnlineClassifier
from kampong.statistics import ClassMeans, ClassScatter
from kampong.statistics.all_rows import ClassRows
from kampong.statistics.reservoir import ClassReservoir

DTYPES = (bool, "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2")
WHOLE = (bool, "u1", "i8", "f2")
STREAMED = (
    FisherDiscriminant(),
    FisherDiscriminant(ridge=0.1, scale=True),
    FisherDiscriminant(ridge="rule", half_life="auto"),
    FisherDiscriminant(solver="reservoir"),
    FisherDiscriminant(head="hinge"),
    MarginSubspace(epsilon="auto"),
    InterClassScatter(head="best"),
    MaximumMarginCriterion(head="logistic"),
    SupervisedKampongMeasure(),
    KernelFisherDiscriminant(),
    KernelFisherDiscriminant(landmarks=20, placement="centres"),
    KernelFisherDiscriminant(landmarks=60, placement="fourier"),
    KernelMarginSubspace(kernel="polynomial", landmarks=30),
)
FITTED = (*STREAMED, FisherDiscriminant(solver="resolvent"), MarginSubspace(epsilon=0.5, solver="resolvent"))

pytestmark = pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")


def problem(dtype, *, n=150, d=12, order="C"):
    """Return rows of three classes in a dtype, as the floats that stand for them, and their labels."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    values = np.clip(np.rint(40 + 12 * rng.standard_normal((n, d)) + 25 * rng.standard_normal((3, d))[y]), 0, 120)
    values = values > 40 if dtype is bool else values
    X = np.asarray(values.astype(dtype), order=order)
    X.flags.writeable = False
    return X, X.astype(np.float32 if dtype == "f2" else np.float64), y


def weights_of(kind, n):
    """Return no weights, whole ones with zeros among them, or any."""
    rng = np.random.default_rng(1)
    return {"none": None, "whole": rng.integers(0, 4, n), "any": rng.exponential(size=n)}[kind]


def answers(model, X, rows, y, weights, *, stream):
    """Return what a model learnt from X says of rows, to the last bit."""
    model = clone(model)
    if stream:
        for part in (slice(0, 60), slice(60, 61), slice(61, len(y))):
            model.partial_fit(X[part], y[part], sample_weight=None if weights is None else weights[part])
    else:
        model.fit(X, y, sample_weight=weights)
    said = [model.transform(rows), model.predict_proba(rows), model.decision_function(rows), model.predict(rows)]
    return [*said, model.predict_log_proba(rows), *(v for v in model._statistics.to_state().values())]


def assert_same_bits(mine, theirs):
    for one, other in zip(mine, theirs, strict=True):
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dtype", [pytest.param(d, marks=() if d in WHOLE else pytest.mark.slow) for d in DTYPES])
@pytest.mark.parametrize("model", FITTED, ids=str)
def test_every_estimator_says_the_same_bits(model, dtype, stream):
    if stream and getattr(model, "solver", "") == "resolvent":
        pytest.skip("the solver of rows in memory")
    column_by_column = "C" if "Kernel" in str(model) else "F"  # BLAS may add kernel values of such rows otherwise
    for order, weighing in (("C", "whole"), (column_by_column, "none"), (column_by_column, "any")):
        X, floats, y = problem(dtype, order=order)
        weights = weights_of(weighing, len(y))
        mine, theirs = (answers(model, rows, rows, y, weights, stream=stream) for rows in (X, floats))
        assert_same_bits(mine, theirs)


@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize("kind", [ClassMeans, ClassScatter, ClassReservoir, ClassRows])
def test_many_blocks_sum_the_same_bits_in_either_order(kind, dtype):
    X, floats, y = problem(dtype, n=45_000, d=100)
    weights = weights_of("any", len(y))
    found = [kind(100).update(rows, y, weights) for rows in (X, floats, np.asfortranarray(X))]
    for other in found[1:]:
        assert_same_bits(list(found[0].to_state().values()), list(other.to_state().values()))
    if kind is not ClassMeans:
        block = np.eye(100)[:, :3]
        assert all(np.array_equal(found[0].within_times(block), other.within_times(block)) for other in found[1:])


@pytest.mark.parametrize("dtype", WHOLE)
def test_several_labels_and_unlearning(dtype):
    X, floats, _ = problem(dtype)
    Y = np.random.default_rng(2).integers(0, 2, (len(X), 4))
    mine, theirs = (FisherDiscriminant().fit(rows, Y) for rows in (X, floats))
    assert np.array_equal(mine.predict_proba(X), theirs.predict_proba(floats))
    y = np.arange(len(X)) % 3
    mine, theirs = (FisherDiscriminant(ridge=0.1).partial_fit(rows, y) for rows in (X, floats))
    for model, rows in ((mine, X), (theirs, floats)):
        model.unlearn(rows[:20], y[:20])
    assert mine.to_bytes() == theirs.to_bytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("model", [OnlineClassifier(), OnlineClassifier(effort=2.0), InformationGain(4)], ids=str)
@pytest.mark.parametrize("width", [12, 1200], ids=["narrow", "wide"])
def test_what_is_no_subspace_says_the_same_bits(model, dtype, width):
    X, floats, y = (np.tile(rows, (1, width // 12)) if rows.ndim == 2 else rows for rows in problem(dtype, n=60))
    weights = np.random.default_rng(1).choice([0.0, 0.5, 2.0], len(y))
    mine, theirs = (clone(model).partial_fit(rows, y, sample_weight=weights) for rows in (X, floats))
    ask = "predict_proba" if hasattr(model, "predict_proba") else "transform"
    assert np.array_equal(getattr(mine, ask)(X), getattr(theirs, ask)(floats))
    assert mine.to_bytes() == theirs.to_bytes()
    assert mine.fit(X, y).to_bytes() == theirs.fit(floats, y).to_bytes()
    if isinstance(model, InformationGain):
        assert mine.unlearn(X[:9], y[:9]) == theirs.unlearn(floats[:9], y[:9])


def test_whole_numbers_past_the_digits_of_floats_count_as_their_floats():
    rng = np.random.default_rng(3)
    X, y = rng.integers(-(2**63), 2**63 - 1, (60, 4)), np.arange(60) % 2
    mine, theirs = (FisherDiscriminant().fit(rows, y) for rows in (X, X.astype(float)))
    assert np.array_equal(mine.predict_proba(X), theirs.predict_proba(X.astype(float)))


CHILD = """
import warnings
import numpy as np
from {room} import {name}
warnings.simplefilter("ignore")
def peak():  # not getrusage, which counts the parent before the exec
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
rng = np.random.default_rng(0)
y = np.arange({n}) % 3
X = rng.integers(0, 200, ({n}, 256), dtype=np.uint8)
X[:, 0] += (20 * y).astype(np.uint8)
half = {n} // 2
model = {model}.fit(X[:half], y[:half])  # compiles, and takes what does not grow with the rows
if hasattr(model, "predict"):
    model.predict(X[:half])
before = peak()
model.{call}
print((peak() - before) / X[half:].nbytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize(
    ("model", "call"),
    [
        ("FisherDiscriminant()", "fit(X, y)"),
        ("FisherDiscriminant()", "predict(X)"),
        ("InformationGain()", "fit(X, y)"),
        pytest.param("OnlineClassifier(effort=0.0)", "partial_fit(X, y)", marks=pytest.mark.slow),
        *(
            pytest.param(model, call, marks=pytest.mark.slow)
            for model in ("MarginSubspace(epsilon=0.5)", "KernelFisherDiscriminant(landmarks=64)")
            for call in ("fit(X, y)", "partial_fit(X, y)", "transform(X)", "predict(X)")
        ),
    ],
)
def test_memory_does_not_grow_by_copies_of_the_rows(model, call):
    name = model.split("(")[0]
    room = "kampong.online" if name == "OnlineClassifier" else "kampong"
    code = CHILD.format(room=room, name=name, model=model, call=call, n=160_000)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 4.0  # as floats they are eight times their size
