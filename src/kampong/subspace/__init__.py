"""From statistics to directions to a class: criteria, solvers, the choice of a parameter, heads and the estimators."""

from kampong.subspace.any_criterion import CriterionSubspace
from kampong.subspace.criteria import CriterionWarning, FisherCriterion, MarginCriterion
from kampong.subspace.fisher import FisherDiscriminant
from kampong.subspace.margin import (
    InterClassScatter,
    MarginSubspace,
    MaximumMarginCriterion,
    SupervisedKampongMeasure,
)
from kampong.subspace.solvers import solve

__all__ = [
    "CriterionSubspace",
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
