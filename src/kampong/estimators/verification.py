"""Whether rows are of one class, also a class that was never learnt, by scores that are weighed on classes left out.

Directions fit the classes that were learnt better than others, and say nothing of what only other classes differ in.
So the likelihood ratio of the two-covariance model is joined with the cosine between the rows about the mean, and both
are weighed on pairs of rows whose classes were left out of B, of the mean and of the directions, in turns.

In the two-covariance model (PLDA) a class mean is a draw from N(m, B), and a row one from N(class mean, W), where W is
S_w + ρI. Along Fisher's directions W is the identity and B is diagonal, so the likelihood of every pair is a sum over
directions. B is what the class means vary more than the rows of a class explain. With π the shares of the classes and n
their rows,

    B = (S_b − Σ π(1 − π)/n · W)₊ / (1 − Σ π²)                                                                … (1)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias, cast

import numpy as np
from scipy import linalg, sparse

from kampong._core.compute import project
from kampong._core.locks import lock_of
from kampong.data.validation import refuse_overflow
from kampong.selection.known_rows import NOTHING, logistic_near
from kampong.selection.settings import SETTINGS
from kampong.statistics.answers import keeps_rows

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
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
        Whether each row of X1 is compared with each row of X2, by matrix products.
    calibrate : bool
        True: the ratio and the cosine between the rows about the mean are weighed on pairs of kept rows whose classes
        were left out, and the length of rows counts only if that gives the smaller log-loss there. This needs a sample
        of rows and four classes. False: the plain likelihood ratio, which is too sure of itself for classes that were
        not learnt.

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
        known, verifier = self._read(), _verifier(self, calibrate=calibrate)
    sizes: Float | float = 1.0
    enrolled, others = (known.points(rows).astype(np.float64, copy=False) for rows in (first, second))
    mine, theirs = (known.embed(rows) if verifier.cosine else None for rows in (first, second))
    if labels is not None:
        sizes = np.bincount(members).astype(np.float64)
        share = sparse.csr_array((1.0 / sizes[members], (members, np.arange(len(members)))))
        enrolled, mine = np.asarray(share @ enrolled), None if mine is None else cast("Rows", share @ mine)
    scores = verifier.scores(enrolled, others, sizes, mine, theirs, each=labels is None and not all_pairs)
    return refuse_overflow("same_class", scores)


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


def _verifier(self: DiscriminantSubspace, *, calibrate: bool) -> Verifier:
    """Return the verifier of the present predictor; what was calibrated is kept until that changes."""
    known, statistics = self._read(), self._statistics
    if statistics.multilabel:
        raise ValueError(
            f"{type(self).__name__}.same_class: rows have several labels, so they are not of one class or of two. Fit "
            "with one label per row."
        )
    seen, counts = statistics.counts > 0, statistics.in_rows().counts
    classes = known.centres[seen], counts[seen], self.priors_[seen], statistics.means[seen]
    units = self._units_of(known)
    plain = Verifier.of(classes, np.ones(len(classes[0]), dtype=bool), units)
    if not calibrate:
        return plain
    made_for, verifier = cast("tuple[Any, Verifier]", vars(self).get("_verification", (None, plain)))
    if made_for is not known:
        if not keeps_rows(statistics):
            _refuse(self, "which this model does not keep")
        sample = statistics.sample(SETTINGS.narrow_rows)
        points = project(sample.rows, known.components, known.mean).astype(np.float64)
        codes = (np.cumsum(seen) - 1)[sample.members.codes]
        whitened = None
        if statistics.holds_scatter and statistics.n_features <= SETTINGS.leave_one_out_columns:
            whitened = _Whitened.of(statistics, classes[3], sample, codes, known.criterion.value, units)
        found = _calibrated(plain, classes, points, sample.rows, codes, whitened)
        if found is None:
            _refuse(
                self, f"two rows each of at least four classes; there are {len(points)} rows and {seen.sum()} classes"
            )
        vars(self)["_verification"] = known, found
        verifier = found
    return verifier


def _refuse(self: DiscriminantSubspace, what: str) -> NoReturn:
    raise ValueError(
        f"{type(self).__name__}.same_class: scores are calibrated on kept rows of classes that are left out in turns, "
        f"{what}. Give calibrate=False for the plain likelihood ratio, or fit more classes with ridge='auto', which "
        "keeps a sample of rows."
    )


@dataclass(frozen=True)
class _Whitened:
    """Kept rows, in coordinates in which classes have the covariance I, of statistics that some of them have left.

    Attributes
    ----------
    within : array of shape (d, d)
        S_w of all rows.
    total : float
        How many rows.
    ridge : float
        The ridge of the metric.
    means : array of shape (K, d)
        The class means.
    rows : array of shape (n, d)
        The rows that were kept, all divided by the units.
    codes : array of int of shape (n,)
        Their classes.
    weights : array of shape (n,)
        What they weigh.
    """

    within: Float
    total: float
    ridge: float
    means: Float
    rows: Float
    codes: Integer
    weights: Float

    @classmethod
    def of(cls, statistics: Any, means: Float, sample: Any, codes: Integer, ridge: float, units: Float | None) -> Self:
        """Return the kept rows of statistics with a scatter."""
        view = statistics.in_rows()
        rows = sample.rows if isinstance(sample.rows, np.ndarray) else sample.rows.toarray()
        rows = rows.astype(np.float64, copy=False)
        if units is not None:
            view, means, rows = view.in_units(units), means / units, rows / units
        weights = sample.own / statistics.weight_unit
        return cls(view.within_scatter(), float(view.counts.sum()), ridge, means, rows, codes, weights)

    def without(self, left_out: np.ndarray, mine: Integer, shares: Float) -> tuple[Float, Float]:
        """Return where the other classes and some rows lie along the directions found without both."""
        rows, weights = self.rows[mine], self.weights[mine]
        factor = np.sqrt(weights)[:, None] * (rows - self.means[self.codes[mine]])
        within = (self.total * self.within - factor.T @ factor) / (self.total - weights.sum())
        within[np.diag_indices(len(within))] += max(self.ridge, NOTHING * np.trace(self.within) / len(within)) or 1.0
        lower, others = linalg.cholesky(within, lower=True, check_finite=False), self.means[~left_out]
        mean = shares @ others / shares.sum()
        centres, points = (
            linalg.solve_triangular(lower, (one - mean).T, lower=True, check_finite=False).T for one in (others, rows)
        )
        axes = np.linalg.qr(centres.T)[0]
        return centres @ axes, points @ axes


def _calibrated(
    plain: Verifier, classes: Classes, points: Float, rows: Rows, codes: Integer, whitened: _Whitened | None
) -> Verifier | None:
    """Return the verifier whose pairs of rows of left-out classes have the least log-loss; None without such pairs.

    The rows leave S_w too where the scatter is kept: else pairs would lie closer together than those of new rows.
    """
    K = len(classes[0])
    folds = min(SETTINGS.folds, K // 2)
    if K < 4:
        return None
    same: list[np.ndarray] = []
    cosines: list[Float] = []
    ratios: dict[bool, list[Float]] = {False: [], True: []}
    for fold in range(folds):
        left_out = np.arange(K) % folds == fold
        mine = np.flatnonzero(left_out[codes])
        pairs = np.triu_indices(len(mine), 1)
        same.append(codes[mine][pairs[0]] == codes[mine][pairs[1]])
        places, coordinates = classes[0].copy(), points[mine]
        if whitened is not None:
            centres, coordinates = whitened.without(left_out, mine, classes[2][~left_out])
            places = np.zeros((K, centres.shape[1]))
            places[~left_out] = centres
        for same_length, found in ratios.items():
            verifier = Verifier.of((places, *classes[1:]), ~left_out, plain.units, same_length=same_length)
            found.append(verifier.scores(coordinates, coordinates)[pairs])
        cosines.append(verifier.cosines(rows[mine], rows[mine])[pairs])
    best, least = None, np.inf
    for same_length, found in ratios.items():
        fitted = _fit(np.concatenate(found), np.concatenate(cosines), np.concatenate(same), len(points))
        if fitted is not None and fitted[3] < least:
            slope, cosine, offset, least = fitted
            model = replace(plain.model, same_length=same_length)
            best = replace(plain, model=model, slope=slope, cosine=cosine, offset=offset)
    return best


def _fit(ratios: Float, cosines: Float, same: np.ndarray, n_rows: int) -> tuple[float, float, float, float] | None:
    """Return weights and offset of least log-loss, pairs of both kinds weighing the same, and that loss.

    The ratios as they are count as one row, so that pairs without error do not make them infinitely sure. What would
    weigh less than nothing is left out.
    """
    if same.all() or not same.any():
        return None
    signs = np.where(same, 1.0, -1.0)
    weights = np.where(same, 0.5 / same.sum(), 0.5 / (~same).sum())
    unit = float(np.sqrt(weights @ np.square(ratios))) or 1.0
    length = float(np.sqrt(weights @ np.square(cosines))) or 1.0
    columns = np.stack([ratios, cosines * (unit / length), np.full(len(ratios), unit)])
    start, sizes, used = np.array([1.0, 0.0, 0.0]), np.array([1.0, unit / length, unit]), np.array([True, True, True])
    while used[:2].any():
        at = np.zeros(3)
        at[used], value = logistic_near(start[used], columns[used], signs, weights, 1.0 / n_rows)
        if (at[:2][used[:2]] > 0).all():
            slope, cosine, offset = (at * sizes).tolist()
            return slope, cosine, offset, value
        used[int(np.argmin(np.where(used[:2], at[:2], np.inf)))] = False
    return 0.0, 0.0, 0.0, float(np.log(2.0))


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
