"""From statistics to directions to a class: criteria, solvers, the choice of a parameter, heads and the estimators."""

from kampong.subspace.criteria import CriterionWarning, FisherCriterion, MarginCriterion
from kampong.subspace.estimators import (
    FisherDiscriminant,
    InterClassScatter,
    MarginSubspace,
    MaximumMarginCriterion,
    SupervisedKampongMeasure,
)
from kampong.subspace.solvers import solve

__all__ = [
    "CriterionWarning",
    "FisherCriterion",
    "FisherDiscriminant",
    "InterClassScatter",
    "MarginCriterion",
    "MarginSubspace",
    "MaximumMarginCriterion",
    "SupervisedKampongMeasure",
    "solve",
]
