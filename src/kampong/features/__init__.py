"""Features beyond a linear subspace of the rows: selection of terms by what they tell about the class."""

from kampong.features.information_gain import InformationGain

__all__ = ["InformationGain"]
