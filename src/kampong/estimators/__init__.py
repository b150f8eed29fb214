"""The subspace estimators: Fisher, margin, any criterion, linear or on kernel values to landmarks."""

from kampong.criteria import FisherCriterion, MarginCriterion
from kampong.estimators.fisher import FisherDiscriminant
from kampong.estimators.kernel_fisher import KernelFisherDiscriminant, KernelMarginSubspace
from kampong.estimators.margin_criterion import (
    CriterionSubspace,
    InterClassScatter,
    MarginSubspace,
    MaximumMarginCriterion,
    SupervisedKampongMeasure,
)
from kampong.estimators.stream_model import SubspaceModel
from kampong.estimators.weighed import WeighedDiscriminant
from kampong.files.model_errors import CriterionWarning
from kampong.solvers import solve

__all__ = [
    "CriterionSubspace",
    "CriterionWarning",
    "FisherCriterion",
    "FisherDiscriminant",
    "InterClassScatter",
    "KernelFisherDiscriminant",
    "KernelMarginSubspace",
    "MarginCriterion",
    "MarginSubspace",
    "MaximumMarginCriterion",
    "SubspaceModel",
    "SupervisedKampongMeasure",
    "WeighedDiscriminant",
    "solve",
]
