"""The few directions that tell labelled classes apart: online, exact, mergeable, dense or sparse."""

import importlib
import warnings
from typing import TYPE_CHECKING, Any

from kampong._core.version import __version__ as __version__

if TYPE_CHECKING:
    from kampong.estimators import (
        CriterionSubspace,
        CriterionWarning,
        FisherDiscriminant,
        InterClassScatter,
        KernelFisherDiscriminant,
        KernelMarginSubspace,
        MarginSubspace,
        MaximumMarginCriterion,
        SupervisedKampongMeasure,
        WeighedDiscriminant,
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

__all__ = [
    "CandidCovarianceFreePCA",
    "CheckpointError",
    "CoreVectorClassifier",
    "CriterionSubspace",
    "CriterionWarning",
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
    "SupervisedKampongMeasure",
    "WeighedDiscriminant",
    "fit_landmarks",
    "from_bytes",
    "load",
    "merge_all",
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
    "kampong.estimators": (
        "CriterionSubspace",
        "CriterionWarning",
        "FisherDiscriminant",
        "InterClassScatter",
        "KernelFisherDiscriminant",
        "KernelMarginSubspace",
        "MarginSubspace",
        "MaximumMarginCriterion",
        "SupervisedKampongMeasure",
        "WeighedDiscriminant",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


_MODULES = ("criteria", "solvers", "statistics")
"""Documented modules for those who build on the engine, imported when they are first used."""

_MOVED = {
    "ClassMeans": "kampong.statistics",
    "ClassReservoir": "kampong.statistics",
    "ClassScatter": "kampong.statistics",
    "FisherCriterion": "kampong.criteria",
    "MarginCriterion": "kampong.criteria",
    "solve": "kampong.solvers",
}
"""Names that were here before; they work for one version more."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"kampong.{name}")
    if name in _MOVED:
        home = _MOVED[name]
        text = f"kampong.{name} has moved and will leave in version 0.2. Write: from {home} import {name}"
        warnings.warn(text, FutureWarning, stacklevel=2)
        return getattr(importlib.import_module(home), name)
    if name not in _HOME_OF:
        raise AttributeError(f"module 'kampong' has no attribute {name!r}; it offers {', '.join(__all__)}")
    value = globals()[name] = getattr(importlib.import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
