"""From a point of the subspace to a class: heads that build themselves from what is known of the classes there.

A new head is one subclass of `Head`; estimators, choice, files and streams need no change.
"""

from kampong.heads.head import HEADS, Head, Inside, Moved, build_head
from kampong.heads.hinge import Hinge
from kampong.heads.linear import Cosine, Gaussian, LinearHead, NearestMean, Regression
from kampong.heads.logistic import Logistic
from kampong.heads.mixture import Mixture
from kampong.heads.quadratic import Quadratic

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
