"""Streams predicted and learnt row by row, by a contest of learners."""

from kampong.online.classifier import OnlineClassifier

__all__ = ["OnlineClassifier"]
