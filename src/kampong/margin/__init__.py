"""Classifiers of maximum margin: the point of a hull nearest to the origin, by steps and by core sets."""

from kampong.margin.classifiers import CoreVectorClassifier, MaxMinOverClassifier, MinOverClassifier
from kampong.margin.mmda import MaximumMarginDiscriminant

__all__ = ["CoreVectorClassifier", "MaxMinOverClassifier", "MaximumMarginDiscriminant", "MinOverClassifier"]
