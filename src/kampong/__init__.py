"""The few directions that tell labelled classes apart: online, exact, mergeable, dense or sparse."""

import importlib
from typing import TYPE_CHECKING, Any

from kampong._core.version import __version__ as __version__

if TYPE_CHECKING:
    from kampong.estimators import (
        CriterionSubspace,
        CriterionWarning,
        FisherCriterion,
        FisherDiscriminant,
        InterClassScatter,
        KernelFisherDiscriminant,
        KernelMarginSubspace,
        MarginCriterion,
        MarginSubspace,
        MaximumMarginCriterion,
        SupervisedKampongMeasure,
        solve,
    )
    from kampong.files import CheckpointError
    from kampong.margin import (
        CoreVectorClassifier,
        MaximumMarginDiscriminant,
        MaxMinOverClassifier,
        MinOverClassifier,
    )
    from kampong.merging import fit_landmarks, merge_all, statistics_of
    from kampong.recursions import CandidCovarianceFreePCA, MarginRecursion
    from kampong.registry import from_bytes, load
    from kampong.selectors import InformationGain
    from kampong.statistics import ClassMeans, ClassReservoir, ClassScatter

__all__ = [
    "CandidCovarianceFreePCA",
    "CheckpointError",
    "ClassMeans",
    "ClassReservoir",
    "ClassScatter",
    "CoreVectorClassifier",
    "CriterionSubspace",
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
    "fit_landmarks",
    "from_bytes",
    "load",
    "merge_all",
    "solve",
    "statistics_of",
]

# Each name is imported when it is first used, so that `kampong --help` need not wait for compilers.
_HOMES = {
    "kampong.files": ("CheckpointError",),
    "kampong.margin": (
        "CoreVectorClassifier",
        "MaxMinOverClassifier",
        "MaximumMarginDiscriminant",
        "MinOverClassifier",
    ),
    "kampong.registry": ("from_bytes", "load"),
    "kampong.merging": ("fit_landmarks", "merge_all", "statistics_of"),
    "kampong.recursions": ("CandidCovarianceFreePCA", "MarginRecursion"),
    "kampong.selectors": ("InformationGain",),
    "kampong.statistics": ("ClassMeans", "ClassReservoir", "ClassScatter"),
    "kampong.estimators": (
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
        "SupervisedKampongMeasure",
        "solve",
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
