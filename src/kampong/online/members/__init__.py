"""The members of the contest, one file each."""

from kampong.online.members.chain import LabelChain
from kampong.online.members.discriminant import Discriminant
from kampong.online.members.frequencies import Frequencies
from kampong.online.members.given import Given
from kampong.online.members.member import Field, Member, Rows
from kampong.online.members.neighbours import Neighbours
from kampong.online.members.passive_aggressive import PassiveAggressive
from kampong.online.members.products import Products
from kampong.online.members.random_features import Fourier
from kampong.online.members.softmax import Softmax
from kampong.online.members.tiles import Tiles
from kampong.online.members.wide import WideSoftmax

MEMBERS: list[type[Member]] = [
    Frequencies,
    Given,
    LabelChain,
    Softmax,
    PassiveAggressive,
    Discriminant,
    Products,
    Tiles,
    Fourier,
    Neighbours,
    WideSoftmax,
]
"""All that may take part. The first always does."""

__all__ = ["MEMBERS", "Field", "Frequencies", "Member", "Rows"]
