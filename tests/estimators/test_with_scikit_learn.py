"""Estimators inside scikit-learn's own: selection, boosting, calibration, stacking, thresholds, metadata routing."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.ensemble import AdaBoostClassifier, StackingClassifier
from sklearn.feature_selection import RFE
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kampong import (
    CriterionSubspace,
    FisherDiscriminant,
    InformationGain,
    InterClassScatter,
    KernelFisherDiscriminant,
    KernelMarginSubspace,
    MarginSubspace,
)

X, Y = load_iris(return_X_y=True)
WEIGHTED = [
    FisherDiscriminant(ridge=0.1),
    MarginSubspace(),
    InterClassScatter(),
    CriterionSubspace(parameter=0.1),
    KernelFisherDiscriminant(ridge=0.1, landmarks=X[::9], gamma=0.5, head="gaussian"),
    KernelMarginSubspace(landmarks=X[::9], gamma=0.5, head="gaussian"),
]


def test_features_are_eliminated_by_their_weights():
    rows, labels = make_classification(
        300, 12, n_informative=3, n_redundant=0, class_sep=3.0, shuffle=False, random_state=0
    )
    found = RFE(FisherDiscriminant(ridge=0.01, head="gaussian"), n_features_to_select=3).fit(rows, labels)
    assert np.flatnonzero(found.support_).tolist() == [0, 1, 2]
    assert found.score(rows, labels) > 0.8


@pytest.mark.parametrize("model", [FisherDiscriminant(ridge=0.1), InterClassScatter(head="gaussian")])
def test_boosting_gives_the_rows_that_were_wrong_more_weight(model):
    boosted = AdaBoostClassifier(estimator=model, n_estimators=3, random_state=0).fit(X, Y)
    weights = np.full(len(X), 1 / len(X))
    for number, found in enumerate(boosted.estimators_):
        expected = clone(model).fit(X, Y, sample_weight=weights)
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6, atol=1e-9)
        wrong = expected.predict(X) != Y
        error = weights @ wrong
        np.testing.assert_allclose(boosted.estimator_errors_[number], error)
        weights = weights * np.exp((np.log((1 - error) / error) + np.log(2)) * wrong)  # SAMME, three classes
        weights /= weights.sum()
    assert boosted.score(X, Y) > 0.9


def test_probabilities_are_calibrated_from_the_decision():
    rows, labels = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), FisherDiscriminant(ridge=0.0))
    calibrated = CalibratedClassifierCV(model, method="sigmoid", cv=3).fit(rows[::2], labels[::2])
    model.fit(rows[::2], labels[::2])
    raw = log_loss(labels[1::2], model.predict_proba(rows[1::2]))
    assert log_loss(labels[1::2], calibrated.predict_proba(rows[1::2])) < raw


def test_models_are_stacked():
    members = [("fisher", FisherDiscriminant(ridge=0.1)), ("kernel", KernelFisherDiscriminant(landmarks=20))]
    stacked = StackingClassifier(members, final_estimator=LogisticRegression(), cv=3).fit(X, Y)
    assert stacked.transform(X).shape == (150, 6)
    assert stacked.score(X, Y) > 0.95


def test_the_threshold_is_tuned_where_classes_are_rare():
    rows, labels = make_classification(400, 5, weights=[0.93], flip_y=0.05, random_state=0)
    model = FisherDiscriminant(ridge=0.1)
    tuned = TunedThresholdClassifierCV(model, scoring="balanced_accuracy", cv=3).fit(rows, labels)
    alone, found = clone(model).fit(rows, labels).predict(rows), tuned.predict(rows)
    recall = [(answers[labels == 1] == 1).mean() for answers in (alone, found)]
    assert tuned.best_threshold_ < 0.5
    assert recall[1] > recall[0]


@pytest.mark.parametrize("model", WEIGHTED, ids=lambda model: type(model).__name__)
def test_weights_are_routed_through_pipelines_and_cross_validation(model):
    weights = np.where(Y == 0, 0.0, 1.0 + Y)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = clone(model).set_fit_request(sample_weight=True)
        scoring = make_scorer(accuracy_score).set_score_request(sample_weight=True)
        routed = make_pipeline(StandardScaler(with_mean=False, with_std=False), asked)
        routed[0].set_fit_request(sample_weight=False)
        routed.fit(X, Y, sample_weight=weights)
        scores = cross_val_score(routed, X[50:], Y[50:], scoring=scoring, params={"sample_weight": weights[50:]}, cv=3)
        refused = make_pipeline(StandardScaler(), clone(model))
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError):
            refused.fit(X, Y, sample_weight=weights)
    direct = clone(model).fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(routed.predict_proba(X), direct.predict_proba(X), rtol=1e-9, atol=1e-12)
    assert direct.class_counts_[direct.classes_ == 0].sum() == 0.0
    assert scores.mean() > 0.8


@pytest.mark.parametrize(
    "model", WEIGHTED[:4], ids=lambda model: type(model).__name__
)  # weights of kernels are relative
def test_a_weight_of_two_is_the_row_twice(model):
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, len(X))
    weighted = clone(model).fit(X, Y, sample_weight=counts)
    twice = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts))
    np.testing.assert_allclose(weighted.predict_proba(X), twice.predict_proba(X), rtol=1e-6, atol=1e-9)


def test_weights_select_terms_too():
    counts = np.random.default_rng(0).integers(0, 4, len(X))
    above = X.mean(axis=0) < X
    weighted = InformationGain(n_features=2).fit(above, Y, sample_weight=counts)
    twice = InformationGain(n_features=2).fit(np.repeat(above, counts, axis=0), np.repeat(Y, counts))
    np.testing.assert_allclose(weighted.scores_, twice.scores_)


def test_a_tensor_that_cannot_be_read_here_is_refused():
    class Elsewhere:
        def __dlpack__(self, **_):
            raise BufferError("it lies on another device")

        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(ValueError, match=r"X is a tensor of .*Elsewhere.*cannot be read \(.*device.*to the processor"):
        FisherDiscriminant().fit(Elsewhere(), Y)


class OnlyArray:
    """Rows of another library, which numpy can read and nothing else is known of."""

    def __init__(self, rows):
        self.rows = rows

    def __array__(self, dtype=None, copy=None):
        return np.array(self.rows, dtype=dtype)

    def __len__(self):
        return len(self.rows)


class OnlyTensor:
    """Rows of another library that hands its memory over by DLPack alone."""

    def __init__(self, rows):
        self.rows = rows
        self.shape, self.dtype = rows.shape, "tensor.float64"

    def __dlpack__(self, **options):
        return self.rows.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.rows.__dlpack_device__()

    def __len__(self):
        return len(self.rows)


@pytest.mark.parametrize("kind", [OnlyArray, OnlyTensor])
@pytest.mark.parametrize("model", [FisherDiscriminant(ridge=0.1), KernelFisherDiscriminant(landmarks=20)])
def test_tensors_of_other_libraries_are_rows(kind, model):
    usual, other = clone(model).fit(X, Y), clone(model).fit(kind(X), kind(Y))
    np.testing.assert_array_equal(other.predict(kind(X)), usual.predict(X))
    weighted = clone(model).partial_fit(kind(X), kind(Y), sample_weight=kind(np.ones(len(X))))
    np.testing.assert_array_equal(weighted.transform(kind(X)), clone(model).partial_fit(X, Y).transform(X))
