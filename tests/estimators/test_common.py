"""scikit-learn's own checks, for every estimator."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from kampong import (
    CriterionSubspace,
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
    CriterionSubspace(),
    CriterionSubspace(criterion="margin", parameter=0.25),
]


RELATIVE = (
    "Where the ridge is chosen, weights compare rows, so that their scale does not matter: a row of weight 2 is one "
    "row for the choice. With a given ridge a weight of 2 is the row twice, as FisherDiscriminant(ridge=0.0) shows. "
    "No rule has both (docs/decisions/19_weights_compare_rows.md)."
)


def expected(estimator):
    given = estimator.get_params()
    chooses = "auto" in (given.get("ridge"), given.get("parameter"))
    kinds = ("dense", "sparse") if chooses else ()
    return {f"check_sample_weight_equivalence_on_{kind}_data": RELATIVE for kind in kinds}


# The checks fit random labels, where no direction deserves its name, and say so in a warning.
@pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
