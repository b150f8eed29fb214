"""The Kampong measure with weights of one's own, against the paper's double sum and its own constraints."""

import numpy as np
import pytest
from reproduction._weights import WeightedKampongMeasure, paper_weights, violations
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

from kampong import CriterionWarning, SupervisedKampongMeasure


class Normalised:
    """The paper's weights with lines of sum 1; a class, so that its name has no address in it."""

    def __call__(self, priors):
        matrix = paper_weights(2.0)(priors)
        return matrix / matrix.sum(axis=1, keepdims=True)

    def __repr__(self):
        return "Normalised()"


normalised = Normalised()


@pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")
@parametrize_with_checks([WeightedKampongMeasure(1, weights=normalised)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def double_sum(X, y, weights):
    """Return S_c by its definition: a sum over rows and classes."""
    labels = np.unique(y)
    means = [X[y == label].mean(axis=0) for label in labels]
    result = np.zeros((X.shape[1], X.shape[1]))
    for row, own in zip(X, np.searchsorted(labels, y), strict=True):
        for j, mean in enumerate(means):
            sign = -1.0 if j == own else 1.0
            result += sign * weights[own, j] * np.outer(row - mean, row - mean) / len(X)
    return result


@pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")
@pytest.mark.parametrize("weights", [paper_weights(3.0), normalised, lambda p: np.outer(1 / p, p) + 3 * np.eye(len(p))])
def test_the_criterion_is_the_papers_double_sum(weights):
    X, y = load_iris(return_X_y=True)
    X, y = X[:120], np.array(["a", "b", "c"])[y[:120]]
    model = WeightedKampongMeasure(2, weights=weights).fit(X, y)
    expected = double_sum(X, y, model.weights_)
    np.testing.assert_allclose(model.criterion_, expected, atol=1e-12)
    values = np.linalg.eigvalsh(expected)[::-1]
    np.testing.assert_allclose(model.eigenvalues_, values[:2], atol=1e-10)
    np.testing.assert_allclose(expected @ model.components_.T, model.components_.T * values[:2], atol=1e-9)


@pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")
def test_the_papers_weights_give_the_papers_directions():
    X, y = load_iris(return_X_y=True)
    X, y = X[:130], y[:130]
    ours = WeightedKampongMeasure(2, weights=paper_weights(2.0)).fit(X, y)
    peer = SupervisedKampongMeasure(2, a=2.0).fit(X, y)
    np.testing.assert_allclose(ours.components_, peer.components_, atol=1e-8)
    np.testing.assert_allclose(ours.eigenvalues_, 2 * peer.eigenvalues_, atol=1e-8)


def test_the_constraints_are_checked_one_by_one():
    priors = np.array([0.2, 0.3, 0.5])
    good = np.array([[0.70, 0.10, 0.20], [0.15, 0.60, 0.25], [0.20, 0.25, 0.55]])
    assert violations(good, priors) == []
    cases = {
        "(a)": [[0.70, 0.20, 0.10], [0.15, 0.60, 0.25], [0.20, 0.25, 0.55]],
        "(b)": [[0.55, 0.20, 0.25], [0.15, 0.60, 0.25], [0.10, 0.20, 0.70]],
        "(c)": [[0.90, 0.10, 0.20], [0.15, 0.60, 0.25], [0.20, 0.25, 0.55]],
        "(d)": [[0.70, 0.10, 0.20], [0.15, 0.60, 0.25], [0.25, 0.30, 0.45]],
    }
    for letter, weights in cases.items():
        assert [text[:3] for text in violations(np.array(weights), priors)] == [letter]


def test_the_papers_own_weights_miss_its_third_constraint_unless_the_classes_are_of_one_size():
    equal, unequal = np.full(3, 1 / 3), np.array([0.2, 0.3, 0.5])
    assert violations(paper_weights(2.0)(equal), equal) == []
    assert [text[:3] for text in violations(paper_weights(2.0)(unequal), unequal)] == ["(c)"]
    X, y = load_iris(return_X_y=True)
    with pytest.warns(CriterionWarning, match=r"the weights miss \(c\)"):
        WeightedKampongMeasure(2, weights=paper_weights(2.0)).fit(X[:130], y[:130])


def test_bad_weights_are_named():
    X, y = load_iris(return_X_y=True)
    for weights, shape in ((np.ones((2, 2)), r"\(2, 2\)"), (lambda p: -np.ones((3, 3)), r"\(3, 3\)")):
        with pytest.raises(
            ValueError, match=rf"weights must be a 3 × 3 matrix of finite numbers ≥ 0.*got shape {shape}"
        ):
            WeightedKampongMeasure(weights=weights).fit(X, y)
    with pytest.raises(ValueError, match=r"X has 3000 features; .* Use SupervisedKampongMeasure"):
        WeightedKampongMeasure(weights=np.eye(2)).fit(np.random.default_rng(0).normal(size=(4, 3000)), [0, 1, 0, 1])
