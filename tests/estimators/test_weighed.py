"""The weighed estimator: its weights and mixture against formulas, and the contract of an estimator."""

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse, special
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.utils.estimator_checks import parametrize_with_checks

import kampong
from kampong import FisherDiscriminant, KernelFisherDiscriminant, WeighedDiscriminant
from kampong.estimators.kernel_subspace import KernelPredictor
from kampong.predictor import Predictor
from kampong.selection.losses import HeldOutLosses, evidence_weights

CANCER = load_breast_cancer(return_X_y=True)


def losses(values, weights=None, learnt=None):
    values = np.asarray(values, dtype=float)
    ones = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=float)
    zeros = np.zeros(len(values), dtype=int)
    return HeldOutLosses(values, zeros, ones, zeros if learnt is None else np.asarray(learnt))


def test_weights_are_those_of_bayes_rule():
    one, other = losses([0.1, 0.5, 0.3]), losses([0.2, 0.9, 0.1])
    np.testing.assert_allclose(evidence_weights([one, other]), special.softmax([-0.9, -1.2]))
    heavy = losses([0.1, 0.5, 0.3], [7.0, 7.0, 7.0]), losses([0.2, 0.9, 0.1], [7.0, 7.0, 7.0])
    np.testing.assert_allclose(evidence_weights(heavy), special.softmax([-0.9, -1.2]))  # their scale counts for nothing
    known = losses([0.1, 0.5, 0.3, 9.0], learnt=[0, 0, 0, 1])
    np.testing.assert_allclose(evidence_weights([known, other]), special.softmax([-0.9, -1.2]))


def test_fewer_validation_rows_are_no_advantage():
    many, few = losses([0.3] * 40), losses([0.4] * 10)
    np.testing.assert_allclose(evidence_weights([many, few]), special.softmax([-3.0, -4.0]))


def test_what_cannot_change_a_bit_has_no_weight():
    found = evidence_weights([losses([0.0] * 50), losses([1.0] * 50), losses([np.inf] + [0.0] * 49)])
    assert found.tolist() == [1.0, 0.0, 0.0]
    assert evidence_weights([None, None]).tolist() == [1.0, 0.0]
    assert evidence_weights([None, losses([0.1])]).tolist() == [0.0, 1.0]


def test_probabilities_are_the_weighted_mean_of_the_members():
    X, y = CANCER
    model = WeighedDiscriminant().fit(X[::2], y[::2])
    alone = {
        "linear": FisherDiscriminant().fit(X[::2], y[::2]),
        "rbf": KernelFisherDiscriminant(kernel="rbf").fit(X[::2], y[::2]),
        "laplacian": KernelFisherDiscriminant(kernel="laplacian", scale=True).fit(X[::2], y[::2]),
    }
    assert len([weight for weight in model.weights_.values() if weight > 0.01]) > 1
    expected = sum(weight * alone[name].predict_proba(X) for name, weight in model.weights_.items())
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-12)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(expected), atol=1e-9)
    assert (model.predict(X) == model.classes_[expected.argmax(axis=1)]).all()
    n = alone["rbf"].choice_.n_rows
    assert n == len(y[::2])
    wanted = special.softmax([-n * loss for loss in model.losses_.values()])
    np.testing.assert_allclose(list(model.weights_.values()), wanted, rtol=1e-6, atol=1e-12)


def test_one_member_that_carries_all_the_weight_answers_alone(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    y = (np.cos(3.0 * X[:, 0]) * np.cos(3.0 * X[:, 1]) > 0).astype(int)  # a chessboard: nothing for the linear member
    model = WeighedDiscriminant().fit(X, y)
    assert model.weights_["linear"] == 0.0
    asked, real = [], Predictor.log_probabilities

    def watched(self, rows):
        asked.append(type(self))
        return real(self, rows)

    monkeypatch.setattr(Predictor, "log_probabilities", watched)
    assert model.score(X, y) > 0.9
    assert set(asked) == {KernelPredictor}


def test_a_file_holds_all_members():
    X, y = load_wine(return_X_y=True)
    model = WeighedDiscriminant(priors=[0.2, 0.3, 0.5], random_state=3).fit(X, y)
    for loaded in (kampong.from_bytes(model.to_bytes()), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert (loaded.predict_proba(X) == model.predict_proba(X)).all()
        assert loaded.weights_ == model.weights_
        loaded.partial_fit(X[:50] + 0.01, y[:50])
        assert loaded.models_["rbf"].n_samples_seen_ == len(y) + 50
    assert not hasattr(kampong.from_bytes(WeighedDiscriminant().to_bytes()), "models_")


def test_a_stream_is_weighed_by_all_of_its_rows():
    X, y = CANCER
    model = WeighedDiscriminant()
    for first in range(0, len(y), 200):
        model.partial_fit(X[first : first + 200], y[first : first + 200], classes=[0, 1])
    alone = FisherDiscriminant().partial_fit(X[:200], y[:200], classes=[0, 1])
    alone.partial_fit(X[200:400], y[200:400]).partial_fit(X[400:], y[400:])
    assert (model.models_["linear"].predict_proba(X) == alone.predict_proba(X)).all()
    assert model.score(X, y) > 0.95


def test_priors_may_be_set_later():
    X, y = load_wine(return_X_y=True)
    shares = [0.2, 0.3, 0.5]
    expected = WeighedDiscriminant(priors=shares).fit(X, y)
    model = WeighedDiscriminant().fit(X, y).set_params(priors=shares)
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


def test_sparse_rows_and_those_of_single_precision():
    X, y = load_iris(return_X_y=True)
    model = WeighedDiscriminant().fit(X, y)
    assert model.predict_proba(X.astype(np.float32)).dtype == np.float32
    assert model.predict_log_proba(X.astype(np.float32)).dtype == np.float32
    assert WeighedDiscriminant().fit(sparse.csr_array(X), y).score(sparse.csr_array(X), y) > 0.95


def test_refused_rows_say_what_to_do():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"WeighedDiscriminant\.fit: y holds only one class"):
        WeighedDiscriminant().fit(X[:50], y[:50])
    with pytest.raises(ValueError, match="Use FisherDiscriminant for"):
        WeighedDiscriminant().fit(X, np.eye(3, dtype=int)[y])
    fitted = WeighedDiscriminant().fit(X, y)
    before = fitted.predict_proba(X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fitted.fit(X, y[:10])
    with pytest.raises(ValueError, match="4 features"):
        fitted.partial_fit(X[:, :2], y)
    assert (fitted.predict_proba(X) == before).all()


RELATIVE = "Weights compare rows where something is chosen (docs/decisions/19_weights_compare_rows.md)."


def expected(estimator):
    return {f"check_sample_weight_equivalence_on_{kind}_data": RELATIVE for kind in ("dense", "sparse")}


@pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")
@parametrize_with_checks([WeighedDiscriminant()], expected_failed_checks=expected)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
