"""Classifiers of maximum margin: the point of a hull nearest to the origin, by steps and by core sets."""

from kampong.margin.classifiers import MaxMinOverClassifier, MinOverClassifier
from kampong.margin.core_vector import CoreVectorClassifier
from kampong.margin.mmda import MaximumMarginDiscriminant

__all__ = ["CoreVectorClassifier", "MaxMinOverClassifier", "MaximumMarginDiscriminant", "MinOverClassifier"]
