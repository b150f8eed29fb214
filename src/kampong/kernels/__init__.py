"""Kernel functions, landmarks, and the estimators that use them."""

from kampong.kernels.fisher import KernelFisherDiscriminant, KernelMarginSubspace
from kampong.kernels.margin import CoreVectorClassifier, MaxMinOverClassifier, MinOverClassifier
from kampong.kernels.mmda import MaximumMarginDiscriminant

__all__ = [
    "CoreVectorClassifier",
    "KernelFisherDiscriminant",
    "KernelMarginSubspace",
    "MaxMinOverClassifier",
    "MaximumMarginDiscriminant",
    "MinOverClassifier",
]
