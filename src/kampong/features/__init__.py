"""Features beyond a linear subspace of the rows: kernel discriminants, and terms chosen for what they tell."""

from kampong.features.information_gain import InformationGain
from kampong.features.kernel_fisher import KernelFisherDiscriminant, KernelMarginSubspace
from kampong.features.mmda import MaximumMarginDiscriminant

__all__ = ["InformationGain", "KernelFisherDiscriminant", "KernelMarginSubspace", "MaximumMarginDiscriminant"]
