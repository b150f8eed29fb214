"""The units of a ridge, as the guide's table says them: which numbers follow the scale of the rows."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from kampong import CriterionSubspace, FisherDiscriminant, KernelFisherDiscriminant, MarginSubspace

X, Y = load_iris(return_X_y=True)
SHARE = 0.02


def kernel_model(ridge, **parameters):
    return KernelFisherDiscriminant(ridge=ridge, head="gaussian", scale=False, landmarks=X[::5], **parameters)


@pytest.mark.parametrize(
    ("make", "power"),
    [
        (lambda ridge, unit: FisherDiscriminant(ridge=ridge), 2),
        (lambda ridge, unit: FisherDiscriminant(ridge=ridge, scale=True), 0),
        (lambda ridge, unit: FisherDiscriminant(ridge=ridge, half_life=40.0), 2),
        (lambda ridge, unit: CriterionSubspace(criterion="fisher", parameter=ridge), 2),
        (lambda ridge, unit: MarginSubspace(epsilon=ridge), 0),
        (
            lambda ridge, unit: KernelFisherDiscriminant(
                ridge=ridge, head="gaussian", kernel="linear", scale=False, landmarks=unit * X[::5]
            ),
            0,
        ),
    ],
    ids=["fisher", "fisher scaled", "fisher stream", "criterion", "margin", "kernel"],
)
def test_a_ridge_has_the_unit_of_the_table(make, power):
    expected = make(0.3, 1.0).fit(X, Y).predict_proba(X)
    found = make(0.3 * 10.0**power, 10.0).fit(10.0 * X, Y).predict_proba(10.0 * X)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    other = make(0.3 * 10.0 ** (2 - power), 10.0).fit(10.0 * X, Y).predict_proba(10.0 * X)
    assert np.abs(other - expected).max() > 1e-3


@pytest.mark.parametrize("gamma", [0.05, 1.0])
def test_the_ridge_in_use_is_the_given_part_of_the_trace(gamma):
    model = kernel_model(SHARE, gamma=gamma).fit(X, Y)
    assert model.ridge_ == pytest.approx(SHARE * model._statistics.within_trace)
    assert FisherDiscriminant(ridge=0.3).fit(X, Y).ridge_ == 0.3


@pytest.mark.parametrize("make", [lambda: FisherDiscriminant(ridge=0.3), lambda: kernel_model(SHARE, gamma=0.5)])
def test_no_ridge_depends_on_the_number_of_rows(make):
    once, twice = make().fit(X, Y), make().fit(np.tile(X, (2, 1)), np.tile(Y, 2))
    assert twice.ridge_ == pytest.approx(once.ridge_)
    np.testing.assert_allclose(twice.components_, once.components_, atol=1e-6)


def test_the_criterion_by_name_takes_the_ridge_of_the_estimator():
    named = CriterionSubspace(criterion="fisher", parameter=0.3).fit(X, Y)
    np.testing.assert_allclose(named.components_, FisherDiscriminant(ridge=0.3).fit(X, Y).components_, atol=1e-9)
