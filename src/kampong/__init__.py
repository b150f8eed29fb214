"""The few directions that tell labelled classes apart: online, exact, mergeable, dense or sparse."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kampong.checkpoint import CheckpointError, load
    from kampong.criterion import CriterionWarning, FisherCriterion, MarginCriterion
    from kampong.features import (
        InformationGain,
        KernelFisherDiscriminant,
        KernelMarginSubspace,
        MaximumMarginDiscriminant,
    )
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
    "CheckpointError",
    "ClassMeans",
    "ClassReservoir",
    "ClassScatter",
    "CoreVectorClassifier",
    "CriterionWarning",
    "FisherCriterion",
    "FisherDiscriminant",
    "InformationGain",
    "InterClassScatter",
    "KernelFisherDiscriminant",
    "KernelMarginSubspace",
    "MarginCriterion",
    "MarginRecursion",
    "MarginSubspace",
    "MaxMinOverClassifier",
    "MaximumMarginCriterion",
    "MaximumMarginDiscriminant",
    "MinOverClassifier",
    "SupervisedKampongMeasure",
    "load",
    "solve",
]

# Each name is imported when it is first used, so that `kampong --help` need not wait for compilers.
_HOMES = {
    "kampong.checkpoint": ("CheckpointError", "load"),
    "kampong.criterion": ("CriterionWarning", "FisherCriterion", "MarginCriterion"),
    "kampong.features": (
        "InformationGain",
        "KernelFisherDiscriminant",
        "KernelMarginSubspace",
        "MaximumMarginDiscriminant",
    ),
    "kampong.margin": ("CoreVectorClassifier", "MaxMinOverClassifier", "MinOverClassifier"),
    "kampong.recursions": ("CandidCovarianceFreePCA", "MarginRecursion"),
    "kampong.reservoir": ("ClassReservoir",),
    "kampong.solvers": ("solve",),
    "kampong.statistics": ("ClassMeans", "ClassScatter"),
    "kampong.subspace": (
        "FisherDiscriminant",
        "InterClassScatter",
        "MarginSubspace",
        "MaximumMarginCriterion",
        "SupervisedKampongMeasure",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'kampong' has no attribute {name!r}; it offers {', '.join(__all__)}")
    value = globals()[name] = getattr(importlib.import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
