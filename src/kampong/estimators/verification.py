"""Whether rows are of one class, also a class that was never learnt: the two-covariance model (PLDA).

A class mean is a draw from N(m, B) and a row a draw from N(class mean, W), W = S_w + ρI. Along Fisher's directions W is
the identity and B is diagonal, so the likelihood of every pair is a sum over directions. B is what the class means vary
more than the rows of a class explain. With π the shares of the classes and n their rows,

    B = (S_b − Σ π(1 − π)/n · W)₊ / (1 − Σ π²)                                                                … (1)

Directions fit the classes that were learnt better than others. So scores are calibrated on pairs of rows whose classes
were left out of B and of the directions, in turns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast

import numpy as np
from scipy import linalg

from kampong._core.compute import project
from kampong._core.locks import lock_of
from kampong.data.validation import refuse_overflow
from kampong.selection.known_rows import logistic_near
from kampong.selection.settings import SETTINGS
from kampong.statistics.answers import keeps_rows

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer
    from kampong.estimators.subspace import DiscriminantSubspace


def same_class(
    self: DiscriminantSubspace,
    X1: Any,
    X2: Any,
    *,
    groups: Any = None,
    all_pairs: bool = False,
    calibrate: bool = True,
) -> Float:
    """Return how much more likely two rows are of one class than of two, also of classes that were never learnt.

    A method of the estimators with Fisher's directions. The score is the log-likelihood ratio of the two-covariance
    model (PLDA): above 0 for one class, where both answers are as frequent. If a share p of all pairs is of one class,
    compare with log((1 − p) / p).

    Parameters
    ----------
    X1 : array-like or sparse matrix of shape (n_first, n_features)
        Rows.
    X2 : array-like or sparse matrix of shape (n_second, n_features)
        Rows to compare them with: as many as in X1, unless `all_pairs` or `groups` is given.
    groups : array-like of shape (n_first,), optional
        Rows of X1 with equal entries are known to be of one class, as when somebody enrols with several recordings.
        Each group is compared with each row of X2.
    all_pairs : bool
        Whether each row of X1 is compared with each row of X2, by one matrix product.
    calibrate : bool
        True: the scores are calibrated on pairs of kept rows whose classes were left out, and the length of rows counts
        only if that gives the smaller log-loss there. This needs a sample of rows and four classes. False: the plain
        likelihood ratio, which is too sure of itself for classes that were not learnt.

    Returns
    -------
    array of shape (n_first,), (n_first, n_second) or (n_groups, n_second)
        The scores; groups are in sorted order.

    References
    ----------
    Ioffe, Probabilistic linear discriminant analysis, 2006. Garcia-Romero and Espy-Wilson, Analysis of i-vector length
    normalization in speaker recognition systems, 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kampong import FisherDiscriminant
    >>> X, y = load_digits(return_X_y=True)
    >>> model = FisherDiscriminant().fit(X[y < 8], y[y < 8])
    >>> eights, nines = X[y == 8], X[y == 9]
    >>> same, other = model.same_class(eights[:50], eights[50:100]), model.same_class(eights[:50], nines[:50])
    >>> bool(same.mean() > other.mean())
    True
    """
    first, second = self._rows(X1), self._rows(X2)
    labels, members = _groups(type(self).__name__, groups, first.shape[0])
    if groups is None and not all_pairs and first.shape[0] != second.shape[0]:
        raise ValueError(
            f"{type(self).__name__}.same_class: X1 has {first.shape[0]} rows and X2 {second.shape[0]}. Give as many of "
            "each to compare them one by one, or all_pairs=True to compare each with each."
        )
    with lock_of(self):
        known, model = self._read(), _model(self, calibrate=calibrate)
    enrolled = model.points(known.points(first).astype(np.float64, copy=False))
    others = model.points(known.points(second).astype(np.float64, copy=False))
    if labels is not None:
        sizes = np.bincount(members).astype(np.float64)
        sums = np.zeros((len(sizes), enrolled.shape[1]))
        np.add.at(sums, members, enrolled)
        scores = model.compare(sums / sizes[:, None], others, sizes)
    else:
        scores = model.compare(enrolled, others) if all_pairs else model.compare_each(enrolled, others)
    return refuse_overflow("same_class", scores)


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
    slope, offset : float
        The calibration of scores.
    """

    mean: Float
    axes: Float
    between: Float
    same_length: bool = False
    slope: float = 1.0
    offset: float = 0.0

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
            Not calibrated.
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
        return np.asarray(self.slope * (scores + offsets[:, None]) + self.offset)

    def compare_each(self, first: Float, second: Float) -> Float:
        """Return the score of each row with the other row at its place."""
        weights, slopes, offsets = self._ratio(first, 1.0)
        scores = ((slopes + weights * second) * second).sum(axis=1) + offsets
        return np.asarray(self.slope * scores + self.offset)

    def _ratio(self, means: Float, sizes: Float | float) -> tuple[Float, Float, Float]:
        """Return w, s and c, the score of a group with a row x being Σ(w x² + s x) + c.

        The rows of the group leave N(μ, v) for the mean of their class; x is from N(μ, 1 + v) or from N(0, 1 + b).
        """
        b, n = self.between, np.reshape(sizes, (-1, 1))
        spread = 1.0 + b / (1.0 + n * b)
        mean = n * b / (1.0 + n * b) * means
        offsets = 0.5 * (np.log1p(b) - np.log(spread) - np.square(mean) / spread).sum(axis=1)
        return 0.5 * (1.0 / (1.0 + b) - 1.0 / spread), mean / spread, offsets


def _groups(name: str, groups: Any, n_rows: int) -> tuple[np.ndarray | None, Integer]:
    """Return the groups, sorted, and the place of each row's group among them; None without groups."""
    if groups is None:
        return None, np.empty(0, dtype=np.int64)
    given = np.asarray(groups)
    if given.shape != (n_rows,):
        raise ValueError(
            f"{name}.same_class: groups has the shape {given.shape}, and X1 has {n_rows} rows. Give one entry for each "
            "row of X1; rows with equal entries are of one class."
        )
    return np.unique(given, return_inverse=True)


def _model(self: DiscriminantSubspace, *, calibrate: bool) -> TwoCovariances:
    """Return the model of the present predictor; what was calibrated is kept until that changes."""
    known, statistics = self._read(), self._statistics
    if statistics.multilabel:
        raise ValueError(
            f"{type(self).__name__}.same_class: rows have several labels, so they are not of one class or of two. Fit "
            "with one label per row."
        )
    seen, counts = statistics.counts > 0, statistics.in_rows().counts
    classes = known.centres[seen], counts[seen], self.priors_[seen]
    plain = TwoCovariances.of(*classes)
    if not calibrate:
        return plain
    made_for, model = cast("tuple[Any, TwoCovariances]", vars(self).get("_verification", (None, plain)))
    if made_for is not known:
        if not keeps_rows(statistics):
            _refuse(self, "which this model does not keep")
        sample = statistics.sample(SETTINGS.narrow_rows)
        points = project(sample.rows, known.components, known.mean).astype(np.float64)
        codes = (np.cumsum(seen) - 1)[sample.members.codes]
        found = _calibrated(plain, classes, points, codes)
        if found is None:
            _refuse(
                self, f"two rows each of at least four classes; there are {len(points)} rows and {seen.sum()} classes"
            )
        vars(self)["_verification"] = known, found
        model = found
    return model


def _refuse(self: DiscriminantSubspace, what: str) -> NoReturn:
    raise ValueError(
        f"{type(self).__name__}.same_class: scores are calibrated on kept rows of classes that are left out in turns, "
        f"{what}. Give calibrate=False for the plain likelihood ratio, or fit more classes with ridge='auto', which "
        "keeps a sample of rows."
    )


def _calibrated(
    plain: TwoCovariances, classes: tuple[Float, Float, Float], points: Float, codes: Integer
) -> TwoCovariances | None:
    """Return the model whose pairs of rows of left-out classes have the least log-loss; None without such pairs."""
    K = len(classes[0])
    folds = min(SETTINGS.folds, K // 2)
    if K < 4:
        return None
    best, least = None, np.inf
    for same_length in (False, True):
        scores, same = [], []
        for fold in range(folds):
            left_out = np.arange(K) % folds == fold
            mine = left_out[codes]
            model = replace(TwoCovariances.of(*(one[~left_out] for one in classes)), same_length=same_length)
            found, i = model.points(points[mine]), np.triu_indices(int(mine.sum()), 1)
            scores.append(model.compare(found, found)[i])
            same.append(codes[mine][i[0]] == codes[mine][i[1]])
        fitted = _fit(np.concatenate(scores), np.concatenate(same), len(points))
        if fitted is not None and fitted[2] < least:
            slope, offset, least = fitted
            best = replace(plain, same_length=same_length, slope=slope, offset=offset)
    return best


def _fit(scores: Float, same: np.ndarray, n_rows: int) -> tuple[float, float, float] | None:
    """Return slope and offset of least log-loss, pairs of both kinds weighing the same, and that loss.

    The scores as they are count as one row, so that pairs without error do not make them infinitely sure.
    """
    if same.all() or not same.any():
        return None
    signs = np.where(same, 1.0, -1.0)
    weights = np.where(same, 0.5 / same.sum(), 0.5 / (~same).sum())
    unit = float(np.sqrt(weights @ np.square(scores))) or 1.0
    columns, start = np.stack([scores, np.full(len(scores), unit)]), np.array([1.0, 0.0])
    at, value = logistic_near(start, columns, signs, weights, 1.0 / n_rows)
    return (float(at[0]), float(at[1] * unit), value) if at[0] > 0 else (0.0, 0.0, float(np.log(2.0)))
