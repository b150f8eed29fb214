"""Classifiers of maximum margin: the point of a hull nearest to the origin, by steps and by core sets."""

from kampong.kernels.margin.classifiers import CoreVectorClassifier, MaxMinOverClassifier, MinOverClassifier

__all__ = ["CoreVectorClassifier", "MaxMinOverClassifier", "MinOverClassifier"]
