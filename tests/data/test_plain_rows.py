"""Rows that skip scikit-learn's checks: whatever they are, the outcome is that of the checks."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from kampong import FisherDiscriminant
from kampong.data.validation import validate_batch, validate_rows, validated

RNG = np.random.default_rng(0)
ROWS, CLASSES = RNG.normal(size=(40, 3)), RNG.integers(0, 2, 40)


def read_only(rows):
    rows = rows.copy()
    rows.flags.writeable = False
    return rows


def framed(rows):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(rows, columns=list("abc"))


GIVEN = {
    "plain": lambda: ROWS,
    "float32": lambda: ROWS.astype(np.float32),
    "column by column": lambda: np.asfortranarray(ROWS),
    "every second row": lambda: ROWS[::2],
    "read-only": lambda: read_only(ROWS),
    "other bytes": lambda: ROWS.astype(">f8"),
    "whole numbers": lambda: (9 * ROWS).astype(np.int64),
    "a sum that overflows": lambda: np.full((3, 3), 1e308),
    "a sum that overflows in float32": lambda: np.full((3, 3), 3e38, dtype=np.float32),
    "NaN": lambda: np.array([[1.0, np.nan, 2.0]]),
    "infinity": lambda: np.array([[1.0, np.inf, 2.0]]),
    "both infinities": lambda: np.array([[-np.inf, np.inf, 2.0]]),
    "too wide": lambda: np.ones((2, 4)),
    "no row": lambda: np.ones((0, 3)),
    "one axis": lambda: np.ones(3),
    "three axes": lambda: np.ones((2, 3, 1)),
    "complex": lambda: ROWS.astype(complex),
    "a matrix": lambda: np.matrix(ROWS),
    "masked": lambda: np.ma.masked_array(ROWS, ROWS > 1),
    "a frame": lambda: framed(ROWS),
}


def outcome(call):
    """Return rows, or the error, and the warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = call()
        except (TypeError, ValueError) as error:
            found = (type(error).__name__, str(error))
    return found, [str(one.message) for one in told]


def same(first, second):
    np.testing.assert_array_equal(np.asarray(first[0]), np.asarray(second[0]))
    assert getattr(first[0], "dtype", None) == getattr(second[0], "dtype", None)
    assert first[1] == second[1]


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("named", [False, True], ids=["array", "frame"])
@pytest.mark.parametrize("name", GIVEN)
def test_rows_to_predict_pass_as_through_all_checks(name, named):
    model = FisherDiscriminant(ridge=0.1).fit(framed(ROWS) if named else ROWS, CLASSES)
    given = GIVEN[name]()
    same(outcome(lambda: validate_rows(model, given)), outcome(lambda: validated(model, given, reset=False)))


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("named", [False, True], ids=["array", "frame"])
@pytest.mark.parametrize("name", GIVEN)
def test_rows_to_learn_pass_as_through_all_checks(name, named):
    model = FisherDiscriminant(ridge=0.1).fit(framed(ROWS) if named else ROWS, CLASSES)
    given = GIVEN[name]()
    labels = np.zeros(len(given), dtype=np.int64)
    asked = {"reset": False, "ensure_all_finite": False, "multi_output": False}
    same(
        outcome(lambda: validate_batch(model, given, labels, reset=False)[0]),
        outcome(lambda: validated(model, given, labels, **asked)[0]),
    )


@pytest.mark.filterwarnings("ignore:invalid value encountered in reduce")  # by scikit-learn's own check
@pytest.mark.parametrize("name", ["NaN", "infinity", "both infinities"])
def test_rows_that_are_not_finite_are_not_learnt(name):
    model = FisherDiscriminant(ridge=0.1).fit(ROWS, CLASSES)
    before = clone(model).fit(ROWS, CLASSES).class_means_
    with pytest.raises(ValueError, match="Input X contains"):
        model.partial_fit(GIVEN[name](), [0])
    np.testing.assert_array_equal(model.class_means_, before)
