"""Text among the rows, and labels that are missing or of several kinds: each message says where, and what to do."""

import numpy as np
import pytest

from kampong import (
    CoreVectorClassifier,
    FisherDiscriminant,
    InformationGain,
    KernelFisherDiscriminant,
    MarginRecursion,
    MaxMinOverClassifier,
)
from kampong.online import OnlineClassifier

ESTIMATORS = (
    CoreVectorClassifier,
    FisherDiscriminant,
    InformationGain,
    KernelFisherDiscriminant,
    MarginRecursion,
    MaxMinOverClassifier,
    OnlineClassifier,
)
ROWS = np.random.default_rng(0).normal(size=(12, 3))
LABELS = np.arange(12) % 2


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_column_of_text_is_named(kind):
    cells = ROWS.astype(object)
    cells[:, 1] = "3.5"
    cells[4:, 2] = "red"
    text = rf"{kind.__name__}: X holds text in column 2 \('red'\) .* needs numbers: encode .* `kampong learn`"
    with pytest.raises(ValueError, match=text):
        kind().fit(cells, LABELS)


def test_columns_of_a_table_are_named_and_texts_that_are_numbers_are_not():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(ROWS, columns=list("abc"))
    model = FisherDiscriminant().fit(table.astype(str), LABELS)
    np.testing.assert_allclose(model.decision_function(table), model.decision_function(table.astype(str)))
    wide = pandas.DataFrame({f"size {i}": ["small", "large"] * 6 for i in range(7)})
    with pytest.raises(ValueError, match=r"column 'size 0' \('small'\), .*'size 4' \('small'\) and 2 more"):
        FisherDiscriminant().fit(wide, LABELS)


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (["a", None] * 6, "y contains None of type NoneType; .* Drop the rows that have no label"),
        (["a", 1] * 6, "the label 1, a number, next to labels such as 'a', a string. Use one kind of label"),
        ([True, 1] * 6, "the label 1, a number, next to labels such as True, a boolean"),
        ([1.0, np.nan] * 6, "the missing label nan. Drop the rows"),
    ],
)
def test_labels_that_cannot_be_sorted_are_named(kind, labels, text):
    with pytest.raises(ValueError, match=text):
        kind().fit(ROWS, np.array(labels, dtype=object))


def test_missing_labels_of_a_table_are_counted():
    pandas = pytest.importorskip("pandas")
    labels = pandas.Series(["a", "b", None, "a"] * 3)
    with pytest.raises(ValueError, match=r"y has no label in 3 rows, first in row 2\. Drop these rows\."):
        FisherDiscriminant().fit(ROWS, labels)
    numbers = pandas.Series([1, 2, None, 1] * 3)
    with pytest.raises(ValueError, match="y has no label in 3 rows, first in row 2"):
        FisherDiscriminant().fit(ROWS, numbers)
