"""Columns chosen and kept as they are."""

from kampong.selectors.information_gain import InformationGain

__all__ = ["InformationGain"]
