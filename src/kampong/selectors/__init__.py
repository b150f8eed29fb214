"""Selectors: they choose columns and keep them unchanged."""

from kampong.selectors.information_gain import InformationGain

__all__ = ["InformationGain"]
