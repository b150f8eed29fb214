"""The papers' order-dependent recursions: one row, one step, no merge; dense rows, or sparse rows at sparse cost."""

from kampong.recursions.labelled_recursions import MarginRecursion
from kampong.recursions.principal import CandidCovarianceFreePCA

__all__ = ["CandidCovarianceFreePCA", "MarginRecursion"]
