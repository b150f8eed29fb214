"""From a point of the subspace to a class: heads that build themselves from what is known of the classes there.

A new head is one subclass of `Head`; estimators, choice, files and streams need no change.
"""

from kampong.subspace.heads.base import HEADS, Head, Inside, Moved, build_head
from kampong.subspace.heads.hinge import Hinge
from kampong.subspace.heads.linear import Cosine, Gaussian, LinearHead, NearestMean, Regression
from kampong.subspace.heads.logistic import Logistic
from kampong.subspace.heads.mixture import Mixture
from kampong.subspace.heads.quadratic import Quadratic

__all__ = [
    "HEADS",
    "Cosine",
    "Gaussian",
    "Head",
    "Hinge",
    "Inside",
    "LinearHead",
    "Logistic",
    "Mixture",
    "Moved",
    "NearestMean",
    "Quadratic",
    "Regression",
    "build_head",
]

for _kind in (Gaussian, NearestMean, Cosine, Regression, Quadratic, Logistic, Hinge, Mixture):
    HEADS[_kind.name] = HEADS.pop(_kind.name)  # simplest first: messages name them in this order
