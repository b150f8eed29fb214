"""Statistics of a stream: counts, means and scatter of its classes, which can be updated, merged and decayed.

The order of the rows, the batches and the order of merges do not matter: the state is the same up to rounding. Each
batch is summed about its own rows, and joined by the pairwise formulas of Chan, Golub and LeVeque. So data far from
the origin lose no digits.

`means` holds ClassMeans, `scatter` ClassScatter, `batch` the sums over one batch that both start from.
"""

from kampong.statistics.means import ClassMeans
from kampong.statistics.reservoir import ClassReservoir
from kampong.statistics.scatter import ClassScatter

__all__ = ["ClassMeans", "ClassReservoir", "ClassScatter"]
