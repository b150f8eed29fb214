"""The two-covariance model (PLDA) of class means and rows, and the score of pairs in which it counts with the cosine.

A class mean is a draw from N(m, B) and a row a draw from N(class mean, W), W = S_w + ρI. Along Fisher's directions W is
the identity and B is diagonal, so the likelihood of every pair is a sum over directions. B is what the class means vary
more than the rows of a class explain. With π the shares of the classes and n their rows,

    B = (S_b − Σ π(1 − π)/n · W)₊ / (1 − Σ π²)                                                                … (1)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np
from scipy import linalg, sparse

if TYPE_CHECKING:
    from kampong._core.compute import Float, Rows

Classes: TypeAlias = "tuple[Float, Float, Float, Float]"
"""The means of classes in the subspace, their rows, their shares, and their means as rows."""


@dataclass(frozen=True)
class TwoCovariances:
    """Class means from N(mean, diag(between)), rows from N(class mean, I), in turned coordinates of the subspace.

    Attributes
    ----------
    mean : array of shape (p,)
        The mean of the class means.
    axes : array of shape (p, q)
        What turns coordinates so that both covariances are diagonal.
    between : array of shape (q,)
        The variances of class means.
    same_length : bool
        Whether every row is stretched to the length that it has on average.
    """

    mean: Float
    axes: Float
    between: Float
    same_length: bool = False

    @classmethod
    def of(cls, centres: Float, counts: Float, shares: Float) -> Self:
        """Return the model of class means with their weights in rows, by (1).

        Parameters
        ----------
        centres : array of shape (K, p)
            The class means, in coordinates along which the rows of a class have the covariance I.
        counts : array of shape (K,)
            The rows of each class.
        shares : array of shape (K,)
            How much each class counts in B.

        Returns
        -------
        TwoCovariances
            The model.
        """
        shares = shares / shares.sum()
        mean = shares @ centres
        factor = np.sqrt(shares)[:, None] * (centres - mean)
        values, axes = linalg.eigh(factor.T @ factor, check_finite=False)
        q = min(len(values), len(centres) - 1)
        values, axes = values[::-1][:q], axes[:, ::-1][:, :q]
        noise = float((shares * (1.0 - shares) / counts).sum())
        return cls(mean, axes, np.maximum(values - noise, 0.0) / (1.0 - float(np.square(shares).sum())))

    def points(self, coordinates: Float) -> Float:
        """Return where rows lie, given their coordinates in the subspace."""
        points = (coordinates - self.mean) @ self.axes
        if self.same_length:
            lengths = np.linalg.norm(points, axis=1, keepdims=True)
            points *= np.sqrt((1.0 + self.between).sum()) / np.where(lengths > 0, lengths, 1.0)
        return points

    def compare(self, means: Float, others: Float, sizes: Float | float = 1.0) -> Float:
        """Return the score of each group, given its mean and its number of rows, with each of the other rows."""
        weights, slopes, offsets = self._ratio(means, sizes)
        scores = np.hstack([slopes, np.broadcast_to(weights, slopes.shape)]) @ np.hstack([others, np.square(others)]).T
        return np.asarray(scores + offsets[:, None])

    def compare_each(self, first: Float, second: Float) -> Float:
        """Return the score of each row with the other row at its place."""
        weights, slopes, offsets = self._ratio(first, 1.0)
        return np.asarray(((slopes + weights * second) * second).sum(axis=1) + offsets)

    def _ratio(self, means: Float, sizes: Float | float) -> tuple[Float, Float, Float]:
        """Return w, s and c, the score of a group with a row x being Σ(w x² + s x) + c.

        The rows of the group leave N(μ, v) for the mean of their class; x is from N(μ, 1 + v) or from N(0, 1 + b).
        """
        b, n = self.between, np.reshape(sizes, (-1, 1))
        spread = 1.0 + b / (1.0 + n * b)
        mean = n * b / (1.0 + n * b) * means
        offsets = 0.5 * (np.log1p(b) - np.log(spread) - np.square(mean) / spread).sum(axis=1)
        return 0.5 * (1.0 / (1.0 + b) - 1.0 / spread), mean / spread, offsets


@dataclass(frozen=True)
class Verifier:
    """What says of rows whether they are of one class.

    Attributes
    ----------
    model : TwoCovariances
        The model whose likelihood ratio counts.
    centre : array of shape (d,)
        The mean of the class means.
    units : array of shape (d,) or None
        What columns are divided by.
    slope, cosine, offset : float
        How much the ratio counts, and the cosine between rows about the mean, and what is added.
    """

    model: TwoCovariances
    centre: Float
    units: Float | None = None
    slope: float = 1.0
    cosine: float = 0.0
    offset: float = 0.0

    @classmethod
    def of(cls, classes: Classes, some: np.ndarray, units: Float | None, *, same_length: bool = False) -> Self:
        """Return the verifier of some of the classes, whose ratio alone counts."""
        points, counts, shares, means = (one[some] for one in classes)
        model = replace(TwoCovariances.of(points, counts, shares), same_length=same_length)
        return cls(model, shares @ means / shares.sum(), units)

    def scores(
        self,
        enrolled: Float,
        others: Float,
        sizes: Float | float = 1.0,
        mine: Rows | None = None,
        theirs: Rows | None = None,
        *,
        each: bool = False,
    ) -> Float:
        """Return the score of each group with each of the other rows, or with that at its place.

        Parameters
        ----------
        enrolled, others : array of shape (n, p)
            Coordinates in the subspace: of the mean of each group, and of other rows.
        sizes : array of shape (n,) or float
            The rows of each group.
        mine, theirs : array or sparse matrix of shape (n, d), optional
            The same as rows, where the cosine counts.
        each : bool
            Whether each is compared with the other at its place alone.

        Returns
        -------
        array
            The scores.
        """
        enrolled, others = self.model.points(enrolled), self.model.points(others)
        ratios = self.model.compare_each(enrolled, others) if each else self.model.compare(enrolled, others, sizes)
        scores = self.slope * ratios + self.offset
        if mine is not None and theirs is not None:
            scores += self.cosine * self.cosines(mine, theirs, each=each)
        return np.asarray(scores)

    def cosines(self, first: Rows, second: Rows, *, each: bool = False) -> Float:
        """Return the cosine of each row, about the mean, with each of the others or with that at its place."""
        centre = self.centre if self.units is None else self.centre / self.units
        first, second = (self._in_units(rows) for rows in (first, second))
        if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
            first, second = _unit(first - centre), _unit(second - centre)
            return np.asarray((first * second).sum(axis=1) if each else first @ second.T)
        one, other = sparse.csr_array(first), sparse.csr_array(second)  # the mean is taken off their products
        along, across, square = one @ centre, other @ centre, centre @ centre
        lengths = [
            np.sqrt(np.maximum(rows.multiply(rows).sum(axis=1) - 2.0 * shifts + square, 0.0))
            for rows, shifts in ((one, along), (other, across))
        ]
        if each:
            return _over(one.multiply(other).sum(axis=1) - along - across + square, lengths[0] * lengths[1])
        products = (one @ other.T).toarray() - along[:, None] - across + square
        return _over(products, np.outer(*lengths))

    def _in_units(self, rows: Rows) -> Rows:
        """Return rows in float64, their columns divided by the units."""
        rows = rows.astype(np.float64, copy=False)
        if self.units is None:
            return rows
        return rows / self.units if isinstance(rows, np.ndarray) else rows.multiply(1.0 / self.units).tocsr()


def _unit(rows: Float) -> Float:
    return _over(rows, np.linalg.norm(rows, axis=1, keepdims=True))


def _over(values: Float, lengths: Float) -> Float:
    """Return values over lengths; 0 for a row that is the mean."""
    return np.asarray(np.divide(values, lengths, out=np.zeros_like(values), where=lengths > 0))
