"""The few directions that tell labelled classes apart: online, exact, mergeable, dense or sparse."""

from kampong.criterion import CriterionWarning, FisherCriterion, MarginCriterion
from kampong.features import InformationGain
from kampong.margin import CoreVectorClassifier, MaxMinOverClassifier, MinOverClassifier
from kampong.recursions import CandidCovarianceFreePCA, MarginRecursion
from kampong.reservoir import ClassReservoir
from kampong.solvers import solve
from kampong.statistics import ClassMeans, ClassScatter
from kampong.subspace import (
    FisherDiscriminant,
    InterClassScatter,
    MarginSubspace,
    MaximumMarginCriterion,
    SupervisedKampongMeasure,
)

__version__ = "0.1.0.dev0"

__all__ = [
    "CandidCovarianceFreePCA",
    "ClassMeans",
    "ClassReservoir",
    "ClassScatter",
    "CoreVectorClassifier",
    "CriterionWarning",
    "FisherCriterion",
    "FisherDiscriminant",
    "InformationGain",
    "InterClassScatter",
    "MarginCriterion",
    "MarginRecursion",
    "MarginSubspace",
    "MaxMinOverClassifier",
    "MaximumMarginCriterion",
    "MinOverClassifier",
    "SupervisedKampongMeasure",
    "solve",
]
