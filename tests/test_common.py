"""scikit-learn's own checks, for every estimator, with no expected failure."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from kampong import (
    FisherDiscriminant,
    InterClassScatter,
    MarginSubspace,
    MaximumMarginCriterion,
    SupervisedKampongMeasure,
)

ESTIMATORS = [
    MarginSubspace(),
    InterClassScatter(),
    MaximumMarginCriterion(),
    SupervisedKampongMeasure(),
    FisherDiscriminant(),
    InterClassScatter(solver="scatter", head="gaussian"),
    MarginSubspace(epsilon=0.25, head="nearest_mean"),
    FisherDiscriminant(ridge=0.0),
]


# The checks fit random labels, where no direction deserves its name, and say so in a warning.
@pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
