"""Imports every estimator of the library. Importing registers them, so that `load` can read their files."""

from kampong.estimators import (
    CriterionSubspace,
    FisherDiscriminant,
    InterClassScatter,
    KernelFisherDiscriminant,
    KernelMarginSubspace,
    MarginSubspace,
    MaximumMarginCriterion,
    SupervisedKampongMeasure,
    WeighedDiscriminant,
)
from kampong.files.saved_models import from_bytes, load, pack, unpack
from kampong.margin import (
    CoreVectorClassifier,
    MaximumMarginDiscriminant,
    MaxMinOverClassifier,
    MinOverClassifier,
)
from kampong.online import OnlineClassifier
from kampong.recursions import CandidCovarianceFreePCA, MarginRecursion
from kampong.selectors import InformationGain

__all__ = [
    "CandidCovarianceFreePCA",
    "CoreVectorClassifier",
    "CriterionSubspace",
    "FisherDiscriminant",
    "InformationGain",
    "InterClassScatter",
    "KernelFisherDiscriminant",
    "KernelMarginSubspace",
    "MarginRecursion",
    "MarginSubspace",
    "MaxMinOverClassifier",
    "MaximumMarginCriterion",
    "MaximumMarginDiscriminant",
    "MinOverClassifier",
    "OnlineClassifier",
    "SupervisedKampongMeasure",
    "WeighedDiscriminant",
    "from_bytes",
    "load",
    "pack",
    "unpack",
]
