"""Labels whose type changes during a stream: compared exactly, or refused; never two equal classes."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kampong
from kampong import FisherDiscriminant, InformationGain, InterClassScatter, MarginRecursion, MaxMinOverClassifier
from kampong.data.labels import codes_among
from kampong.statistics import ClassMeans
from problems import at_most, seeds

BIG = 2**53

MIXES = {
    "int8": np.array([1, 2], dtype=np.int8),
    "int32": np.array([2, 3], dtype=np.int32),
    "int64": np.array([1, 4]),
    "uint8": np.array([1, 2], dtype=np.uint8),
    "uint64": np.array([2, 3], dtype=np.uint64),
    "float32": np.array([1.0, 2.0], dtype=np.float32),
    "float64": np.array([2.0, 3.0]),
    "longdouble": np.array([1.0, 5.0], dtype=np.longdouble),
    "above 2**53": np.array([BIG, BIG + 1]),
    "above 2**53, float": np.array([float(BIG), float(BIG + 2)]),
    "above 2**53, uint64": np.array([BIG + 1, BIG + 3], dtype=np.uint64),
    "above 2**63": np.array([2**63, 2**64 - 1], dtype=np.uint64),
    "negative": np.array([-1, -(2**62) - 1]),
    "booleans": np.array([True, False]),
    "strings": np.array(["1", "2"]),
    "bytes": np.array([b"1", b"3"]),
    "objects": np.array([1, 2.0], dtype=object),
    "scalars": np.array([np.int64(BIG + 1), np.float64(3.0)], dtype=object),
    "object strings": np.array(["1", np.str_("4")], dtype=object),
    "object booleans": np.array([True, np.False_], dtype=object),
}


def refusal(call, *arguments):
    """Return why a call was refused, "" where it was not."""
    try:
        call(*arguments)
    except ValueError as error:
        return str(error)
    return ""


def distinct(classes):
    """Check that no two classes are equal, as Python compares them: exactly."""
    values = classes.tolist()
    assert len(set(values)) == len(values) == len(np.unique(classes))


@pytest.mark.parametrize("later", MIXES)
@pytest.mark.parametrize("first", MIXES)
def test_every_mix_of_label_types_is_exact_or_refused(first, later):
    X = np.array([[0.0, 1.0], [2.0, 1.0]])
    means = ClassMeans(2).update(X, MIXES[first])
    before = means.to_arrays()
    said = refusal(means.update, X + 1, MIXES[later])
    if said:
        assert re.search(r"cannot be compared exactly.*Use one integer dtype|Use one kind of label", said)
        after = means.to_arrays()
        assert all(np.array_equal(before[name], after[name]) for name in before)
    else:
        given = [*MIXES[first].tolist(), *MIXES[later].tolist()]
        given = [value.item() if isinstance(value, np.generic) else value for value in given]
        given = [value.decode() if isinstance(value, bytes) else value for value in given]
        assert set(means.classes.tolist()) == set(given)  # exact: Python compares int with float without rounding
        assert dict(zip(means.classes.tolist(), means.counts.tolist(), strict=True)) == {
            value: float(sum(other == value for other in given)) for value in given
        }
    distinct(means.classes)
    back = ClassMeans.from_arrays(means.to_arrays())
    assert back.classes.dtype == means.classes.dtype
    assert back.classes.tolist() == means.classes.tolist()


@settings(max_examples=at_most(60))
@given(seed=seeds, order=st.permutations(sorted(MIXES)))
def test_no_stream_of_labels_leaves_a_class_twice_or_a_model_that_cannot_be_opened(seed, order):
    rng = np.random.default_rng(seed)
    means, other = ClassMeans(2), ClassMeans(2)
    for number, name in enumerate(order):
        target = other if number % 3 == 2 else means
        refusal(target.update, rng.standard_normal((2, 2)), MIXES[name])
    said = refusal(means.merge, other)
    assert not said or re.search("cannot be compared exactly|one kind of label", said)
    means = means if said else means.merge(other)
    distinct(means.classes)
    assert ClassMeans.from_arrays(means.to_arrays()).classes.tolist() == means.classes.tolist()


@pytest.mark.parametrize(
    "model",
    [FisherDiscriminant(), InterClassScatter(), MarginRecursion(1), InformationGain(2)],
    ids=lambda m: str(m)[:9],
)
@pytest.mark.parametrize(
    ("first", "later"), list(itertools.permutations(["above 2**53", "above 2**53, float", "uint64"], 2))
)
def test_estimators_keep_classes_apart_and_can_be_saved(model, first, later):
    from sklearn.base import clone

    rng = np.random.default_rng(0)
    model = clone(model)
    X = np.abs(rng.standard_normal((8, 3)))
    model.partial_fit(X, np.tile(MIXES[first], 4))
    said = refusal(model.partial_fit, X + 1, np.tile(MIXES[later], 4))
    assert not said or "cannot be compared exactly" in said
    distinct(model.classes_)
    again = kampong.from_bytes(model.to_bytes())
    assert again.classes_.tolist() == model.classes_.tolist()


def test_a_margin_tells_large_labels_apart():
    """float64 holds one of the two, so a comparison of arrays would take them for each other."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((6, 2)) - 5, rng.standard_normal((6, 2)) + 5])
    y = np.repeat([BIG, BIG + 1], 6)
    model = MaxMinOverClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match="is not among the classes"):
        model.partial_fit(X[:2], np.array([float(BIG + 2), float(BIG)]))
    assert codes_among(np.array([BIG, BIG + 1]), np.array([float(BIG), float(BIG + 2)])).tolist() == [0, -1]
    assert codes_among(np.array([BIG, BIG + 1]), np.array([BIG + 1, BIG], dtype=np.uint64)).tolist() == [1, 0]


def test_true_is_not_one():
    X = np.array([[0.0, 1.0], [2.0, 1.0]])
    for first, later in ([np.array([0, 1]), np.array([True, False])], [np.array([True, False]), np.array([0, 1])]):
        with pytest.raises(ValueError, match="Use one kind of label throughout the stream"):
            ClassMeans(2).update(X, first).update(X, later)
    with pytest.raises(ValueError, match="Use one kind of label"):
        ClassMeans(2).update(X, np.array([1, True], dtype=object))


def test_one_long_label_beside_many_is_refused_when_it_comes():
    """As strings of one width they would take a thousand times their own memory."""
    X = np.zeros((1001, 1))
    labels = np.array([*map(str, range(1000)), "x" * 100_000], dtype=object)
    means = ClassMeans(1).update(X, labels)  # objects have no width
    assert ClassMeans.from_arrays(means.to_arrays()).classes.tolist() == means.classes.tolist()
    with pytest.raises(ValueError, match=r"1001 classes, and one label of 100,000 characters.*Use shorter labels"):
        ClassMeans(1).update(X[:1000], labels[:1000].astype(str)).update(X[:1], np.array(["x" * 100_000]))
