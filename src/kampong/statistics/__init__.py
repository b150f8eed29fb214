"""What is remembered of a stream: counts, means and scatter of its classes. Update, merge, decay; never the rows.

Both statistics are commutative monoids: any order, any cut into batches and any merge tree give the same state up to
rounding. Batches are summarised about their own rows and joined by the pairwise formulas of Chan, Golub and LeVeque,
so data far from the origin keep their digits.

`means` holds ClassMeans, `scatter` ClassScatter, `_batch` the sums over one batch that both start from.
"""

from kampong.statistics.means import ClassMeans
from kampong.statistics.reservoir import ClassReservoir
from kampong.statistics.scatter import ClassScatter

__all__ = ["ClassMeans", "ClassReservoir", "ClassScatter"]
