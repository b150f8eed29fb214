"""The linear estimators on which every law of theirs is tried."""

import pytest

from kampong import (
    FisherDiscriminant,
    InterClassScatter,
    MarginSubspace,
    MaximumMarginCriterion,
    SupervisedKampongMeasure,
)

MODELS = [
    MarginSubspace(2, epsilon=0.2),
    InterClassScatter(),
    MaximumMarginCriterion(2),
    SupervisedKampongMeasure(2, a=1.2),
    FisherDiscriminant(),
    FisherDiscriminant(ridge=0.0),
    FisherDiscriminant(ridge="rule"),
    MarginSubspace(2, epsilon="auto"),
]
quiet = pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")
