"""Imports every estimator of the library. Importing registers them, so that `load` can read their files."""

from kampong.checkpoint.models import from_bytes, load, pack, unpack
from kampong.kernels import (
    CoreVectorClassifier,
    KernelFisherDiscriminant,
    KernelMarginSubspace,
    MaximumMarginDiscriminant,
    MaxMinOverClassifier,
    MinOverClassifier,
)
from kampong.online import OnlineClassifier
from kampong.recursions import CandidCovarianceFreePCA, MarginRecursion
from kampong.selectors import InformationGain
from kampong.subspace import (
    CriterionSubspace,
    FisherDiscriminant,
    InterClassScatter,
    MarginSubspace,
    MaximumMarginCriterion,
    SupervisedKampongMeasure,
)

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
    "from_bytes",
    "load",
    "pack",
    "unpack",
]
