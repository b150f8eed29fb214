"""Numbers near the limits of floats: the answer of ordinary numbers, or a refusal that names the limits."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from fuzz.subjects import ESTIMATORS, rows
from kampong import FisherDiscriminant, InterClassScatter, MarginSubspace
from kampong.data.validation import check_weights
from kampong.statistics import ClassMeans

pytestmark = pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")
X, Y = rows()
LINEAR = {
    name: ESTIMATORS[name]
    for name in ("FisherDiscriminant", "FisherDiscriminant wide", "InterClassScatter", "MaximumMarginCriterion")
}


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("scale", [1e-140, 1e-60, 1e60, 1e140])
def test_units_do_not_matter(name, scale):
    expected = clone(LINEAR[name]).fit(X, Y).predict(X)
    assert np.array_equal(clone(LINEAR[name]).fit(scale * X, Y).predict(scale * X), expected)


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e30])
def test_units_do_not_matter_in_float32(name, scale):
    small = (scale * X).astype(np.float32)
    model = clone(LINEAR[name]).fit(small, Y)
    assert np.mean(model.predict(small) == clone(LINEAR[name]).fit(X, Y).predict(X)) > 0.9
    assert model.transform(small).dtype == np.float32
    assert np.isfinite(model.transform(small)).all()


@pytest.mark.parametrize(
    "name", ["FisherDiscriminant", "InterClassScatter", "CoreVectorClassifier", "MinOverClassifier"]
)
@pytest.mark.parametrize("scale", [1e-160, 1e-200, 1e-310])
def test_squares_that_vanish_are_refused(name, scale):
    with pytest.raises(ValueError, match=r"squares of X vanish .*must be above about 1e-145.*StandardScaler"):
        clone(ESTIMATORS[name]).fit(scale * X, Y).predict(scale * X)


def test_weights_have_limits():
    for weights in ([1.0, 1e-146], [1e146, 1.0]):
        with pytest.raises(ValueError, match=r"must lie in \[1e-145, 1e\+145\]"):
            check_weights(weights, 2)
    assert check_weights([0.0, 1e-145], 2).tolist() == [0.0, 1e-145]


@pytest.mark.parametrize("model", [FisherDiscriminant(), InterClassScatter(), MarginSubspace(epsilon=0.1)])
@pytest.mark.parametrize("tiny", [1e-145, 1e-80, 1e-20])
def test_a_tiny_weight_is_nearly_a_row_absent(model, tiny):
    weights = np.where(np.arange(len(Y)) % 7 == 0, tiny, 1.0)
    found = clone(model).fit(X, Y, sample_weight=weights)
    without = clone(model).fit(X[weights == 1], Y[weights == 1])
    assert np.allclose(found.class_means_, without.class_means_, atol=1e-12)
    assert np.allclose(found.predict_proba(X), without.predict_proba(X), atol=0.05)
    alone = clone(model).fit(X, Y, sample_weight=np.where(Y == 2, tiny, 1.0))
    assert np.isfinite(alone.decision_function(X)).all()
    chances = alone.predict_proba(X)[:, 2]
    assert chances.max() < 1.0 / len(Y)  # less than one of all rows
    assert not (alone.predict(X) == 2).any()


def test_a_class_that_decays_away_is_gone():
    means = ClassMeans(2).update(np.eye(2), [0, 1])
    for _ in range(40):
        means.update(np.eye(2)[:1], [0], decay=1e-9)
    assert means.counts.tolist() == [1.0 + 1e-9, 0.0]
    assert means.squares[1] == 0.0


def test_ageing_within_a_batch_ends_in_nothing():
    n = 4000
    big = np.tile(X, (n // len(X) + 1, 1))[:n]
    labels = np.tile(Y, n // len(Y) + 1)[:n]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FisherDiscriminant(half_life=1.5).partial_fit(big, labels)
        assert np.isfinite(model.decision_function(X)).all()
