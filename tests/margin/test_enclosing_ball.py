"""The ball vector machine against its rule in explicit vectors, and the geometry that it promises."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

import reference_margin as reference
from kampong.margin import CoreVectorClassifier

GAMMA, C = 0.3, 5.0


def problem(seed, n=60, classes=2):
    X, y = make_classification(
        n, 4, n_informative=4, n_redundant=0, n_classes=classes, n_clusters_per_class=1, random_state=seed
    )
    return X, y, np.exp(-GAMMA * cdist(X, X, "sqeuclidean"))


def patterns(K, signs):
    """Return vectors whose products are those of the patterns of squared slack."""
    return reference.factor(np.outer(signs, signs) * (K + 1.0) + np.eye(len(K)) / C)


def weights(model, n, number=0):
    alpha = np.zeros(n)
    alpha[model.support_] = np.abs(model.dual_coef_[number])
    return alpha / alpha.sum()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("steps", [1, 7, 10_000])
def test_the_steps_are_those_of_the_paper(seed, steps):
    X, y, K = problem(seed)
    Z = patterns(K, np.where(y == 1, 1.0, -1.0))
    c, alpha = reference.ball_vector_machine(Z, 0.02, steps)
    model = CoreVectorClassifier(C, gamma=GAMMA, criterion="ball", tol=0.02, max_iter=steps).fit(X, y)
    np.testing.assert_allclose(weights(model, len(y)), alpha, atol=1e-9)
    assert model.status_.tolist() == ["steps" if steps < 10_000 else "converged"]
    expected = (c @ c - (Z @ c).min()) / (c @ c)
    np.testing.assert_allclose(model.dual_gap_, [expected], rtol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("epsilon", [0.1, 0.01])
def test_all_patterns_are_in_the_ball_and_half_the_margin_is_certain(classes, epsilon):
    X, y, K = problem(7, 150, classes)
    model = CoreVectorClassifier(C, gamma=GAMMA, criterion="ball", tol=epsilon, cache_size=0.05).fit(X, y)
    for number, label in enumerate([1] if classes == 2 else range(classes)):
        Z = patterns(K, np.where(y == label, 1.0, -1.0))
        c, squared = weights(model, len(y), number) @ Z, 2.0 + 1.0 / C
        assert np.linalg.norm(Z - c, axis=1).max() <= (1 + epsilon) * np.sqrt(squared) * (1 + 1e-9)
        # ‖c − z‖² ≤ (1 + ε)² r² says c · z ≥ ‖c‖²/2 − (ε + ε²/2) r²
        assert (Z @ c).min() >= c @ c / 2 - (epsilon + epsilon**2 / 2) * squared - 1e-9


def test_a_small_epsilon_classifies_as_the_best_margin_does():
    X, y, _ = problem(11, 400)
    ball = CoreVectorClassifier(C, gamma=GAMMA, criterion="ball", tol=1e-4, max_iter=20_000)
    with pytest.warns(ConvergenceWarning, match="all points are in the ball of 1 \\+ 0.0001 times the radius"):
        ball.fit(X[:200], y[:200])
    best = CoreVectorClassifier(C, gamma=GAMMA, tol=1e-4).fit(X[:200], y[:200])
    assert ball.score(X[200:], y[200:]) > best.score(X[200:], y[200:]) - 0.05


def test_refusals():
    X, y, _ = problem(0)
    with pytest.raises(ValueError, match=r"criterion='ball' needs a kernel with k\(x, x\) the same for all x"):
        CoreVectorClassifier(kernel="linear", criterion="ball").fit(X, y)
    with pytest.raises(ValueError, match="criterion='ball' needs the same weight for all rows"):
        CoreVectorClassifier(criterion="ball").fit(X, y, np.arange(60) + 1.0)
    with pytest.raises(ValueError, match="criterion='ball' is a rule of the squared slack"):
        CoreVectorClassifier(criterion="ball", loss="hinge").fit(X, y)
