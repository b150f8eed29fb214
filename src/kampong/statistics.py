"""What is remembered of a stream: counts, means and scatter of its classes. Update, merge, decay; never the rows.

Both statistics are commutative monoids: any order, any cut into batches and any merge tree give the same state up to
rounding. Batches are summarised about their own rows and joined by the pairwise formulas of Chan, Golub and LeVeque,
so data far from the origin keep their digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import linalg, sparse

from kampong._linalg import blocks, compiled, one_blas_thread, run, split
from kampong._validation import (
    LabelIndex,
    Members,
    check_finite,
    check_indicator,
    check_labels,
    check_rows,
    check_weights,
    is_indicator,
    members_of,
    memberships_of,
    raise_not_finite,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kampong._linalg import Float, Integer, Rows
    from kampong._validation import Label

FEW = 8
"""A batch of up to so many rows is learnt row by row: less ceremony than a summary."""

ALONE = 2048
"""Up to so many features a thread has a scatter of its own (a batch takes 5·d² numbers meanwhile)."""

DENSE_SHARE = 0.1
"""Above this share of non-zeros a matrix product on small dense blocks beats a loop over pairs of non-zeros."""

LARGEST = 1e150
"""Class means beyond this magnitude have squares that overflow."""

LOST_DIGITS = 1e-3
"""A column whose scatter is a smaller part of its squares is shifted before they are summed."""


class Batch(NamedTuple):
    """The summary of one batch: which classes it holds and their weights, means and squares about the means."""

    classes: Integer
    counts: Float
    means: Float
    squares: Float


class ClassMeans:
    """Weighted count, mean and within-class sum of squared distances of every class: O(K·d) memory.

    Enough for the criterion S_b (ε = 0), at O(non-zeros) a row.

    Parameters
    ----------
    n_features : int
        The width of the rows.

    Attributes
    ----------
    n_samples : int
        Rows of positive weight seen, whatever their weight and age.
    multilabel : bool or None
        Whether the targets are indicator matrices; None before the first batch.

    See Also
    --------
    ClassScatter : Holds the d × d within-class scatter too.

    Examples
    --------
    >>> import numpy as np
    >>> means = ClassMeans(2).update(np.array([[0.0, 1.0], [2.0, 1.0], [5.0, 5.0]]), ["a", "a", "b"])
    >>> means.counts.tolist(), means.means[0].tolist()
    ([2.0, 1.0], [1.0, 1.0])
    """

    holds_within: ClassVar[bool] = False
    """Whether `within_times` can answer."""

    def __init__(self, n_features: int) -> None:
        self.n_features = int(n_features)
        self.n_samples = 0
        self.multilabel: bool | None = None
        self._index = LabelIndex()
        self._counts: Float = np.zeros(0)
        self._means: Float = np.zeros((0, self.n_features))
        self._squares: Float = np.zeros(0)
        self._row_weight = 0.0
        self._row_mean: Float = np.zeros(0)

    # What a solver reads, all of it in the sorted order of the labels.

    @property
    def classes(self) -> np.ndarray:
        """Return the labels, sorted."""
        return self._index.sorted

    @property
    def n_classes(self) -> int:
        """Return the number of classes, declared ones included."""
        return len(self._index)

    @property
    def counts(self) -> Float:
        """Return the weight of each class; 0 for a class declared but not seen."""
        return self._counts[self._index.order]

    @property
    def means(self) -> Float:
        """Return the mean of each class, (K, d)."""
        return self._means[self._index.order]

    @property
    def squares(self) -> Float:
        """Return the weighted sum of squared distances from the class mean, for each class."""
        return self._squares[self._index.order]

    @property
    def total(self) -> float:
        """Return the weight of all memberships."""
        return float(self._counts[: len(self._index)].sum())  # spare room would change the order of the sum

    @property
    def mean(self) -> Float:
        """Return the mean of the rows (of the memberships, where a row has several labels)."""
        n = len(self._index)
        weights = self._counts[:n]
        mean: Float = weights @ self._means[:n] / weights.sum()
        return mean

    @property
    def within_trace(self) -> float:
        """Return tr S_w."""
        return float(self._squares[: len(self._index)].sum()) / self.total

    @property
    def row_weight(self) -> float:
        """Return the weight of the rows: less than `total` where rows have several labels."""
        return self._row_weight if self.multilabel else self.total

    @property
    def row_mean(self) -> Float:
        """Return the mean of the rows, each counted once."""
        return self._row_mean if self.multilabel else self.mean

    def between_factor(self) -> Float:
        """Return Φ, (K, d), with S_b = ΦᵀΦ: the centred class means times the roots of the priors."""
        counts, means = self.counts, self.means
        means -= self.mean
        means *= np.sqrt(counts / counts.sum())[:, None]
        return means

    def within_times(self, block: Float) -> Float:
        """Return S_w @ block, where it is known."""
        raise TypeError(f"{type(self).__name__} holds class means only; S_w needs ClassScatter or rows.")

    # What a stream does.

    def update(self, X: Any, y: Any, sample_weight: Any = None, *, decay: float = 1.0) -> Self:
        """Learn a batch of rows; on an error the state is as before.

        Parameters
        ----------
        X : array or sparse matrix of shape (rows, n_features)
            Dense, or sparse (CSR is read as it is; it is never made dense as a whole).
        y : array of shape (rows,) or indicator matrix of shape (rows, labels)
            One label a row, or a matrix of 0 and 1: then a row counts for each of its labels.
        sample_weight : array of shape (rows,), optional
            A weight of 2 is the row twice, a weight of 0 the row absent.
        decay : float
            First multiply the weights of everything learnt before by this factor in [0, 1].

        Returns
        -------
        ClassMeans
            This object.
        """
        X = check_rows(X, self.n_features)
        weights = check_weights(sample_weight, X.shape[0])
        _check_factor(decay)
        multilabel = is_indicator(y)
        if self.multilabel is not None and multilabel != self.multilabel:
            raise ValueError(
                "y changed its form during the stream: "
                + ("one label a row before, an indicator matrix now." if multilabel else "an indicator matrix before.")
                + " Use one form throughout."
            )
        members, new, dtype = self._read_indicator(y, weights) if multilabel else self._read_labels(y, weights)
        if X.shape[0] <= FEW and not multilabel:
            rows = X if isinstance(X, np.ndarray) else _few_dense(X)
            if not _all_finite(rows):
                raise_not_finite(X, type(self).__name__)
            self._accept(new, dtype, decay)
            parts = (members.rows, members.codes, members.weights, self._counts, self._means, self._squares)
            _learn(rows, *parts, self._triangle())
        else:
            if multilabel:  # rows without a label count for the mean of the rows, and must be finite too
                check_finite(X, type(self).__name__)
            batch = self._summarise(X, members)
            self._accept(new, dtype, decay)
            self._spread(X, members, batch, self._absorb(batch))
        if multilabel:
            self._absorb_rows(X, members, weights)
        self.multilabel = multilabel
        self.n_samples += members.n_rows
        return self

    def declare(self, classes: Any) -> Self:
        """Add classes that may come, with weight 0."""
        labels = np.asarray(classes)
        if labels.ndim != 1:
            raise ValueError(f"classes has shape {labels.shape}; give a one-dimensional list of labels.")
        labels, _, new = check_labels(self._index, labels, len(labels))
        self._declare(new, labels.dtype)
        return self

    def merge(self, other: ClassMeans) -> Self:
        """Return the statistics of both streams together; neither operand changes."""
        self._check_mergeable(other)
        result = self._copy()
        result._declare([x for x in other._index.labels if x not in result._index._codes], other._index.dtype)
        codes = np.array([result._index._codes[label] for label in other._index.labels], dtype=np.int64)
        n = len(codes)
        seen = np.flatnonzero(other._counts[:n])
        batch = Batch(codes[seen], other._counts[seen], other._means[seen], other._squares[seen])
        result._join(other, result._absorb(batch))
        if other.multilabel:
            result._absorb_row_mean(other._row_weight, other._row_mean)
        result.multilabel = self.multilabel if self.multilabel is not None else other.multilabel
        result.n_samples += other.n_samples
        return result

    def decay(self, factor: float) -> Self:
        """Multiply every weight by `factor` in [0, 1]; the means stay where they are."""
        _check_factor(factor)
        self._counts *= factor
        self._squares *= factor
        self._row_weight *= factor
        return self

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the whole state as arrays: no objects, nothing to unpickle."""
        n = len(self._index)
        labels = np.array(self._index.labels)
        if n == 0:
            labels = np.zeros(0)
        return {
            "form": np.array([self.n_features, self.n_samples, {None: -1, False: 0, True: 1}[self.multilabel]]),
            "labels": labels,
            "label_dtype": np.array("" if self._index.dtype is None else self._index.dtype.str),
            "counts": self._counts[:n].copy(),
            "means": self._means[:n].copy(),
            "squares": self._squares[:n].copy(),
            "row_weight": np.array(self._row_weight),
            "row_mean": self._row_mean.copy(),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the statistics that `to_arrays` wrote."""
        n_features, n_samples, multilabel = (int(v) for v in arrays["form"])
        result = cls(n_features)
        result.n_samples = n_samples
        result.multilabel = {-1: None, 0: False, 1: True}[multilabel]
        if str(arrays["label_dtype"]):
            result._declare(arrays["labels"].tolist(), np.dtype(str(arrays["label_dtype"])))
        result._counts = np.array(arrays["counts"], dtype=np.float64)
        result._means = np.array(arrays["means"], dtype=np.float64)
        result._squares = np.array(arrays["squares"], dtype=np.float64)
        result._row_weight = float(arrays["row_weight"])
        result._row_mean = np.array(arrays["row_mean"], dtype=np.float64)
        return result

    # How.

    def _copy(self) -> Self:
        return type(self).from_arrays(self.to_arrays())

    def _check_mergeable(self, other: ClassMeans) -> None:
        if type(other) is not type(self):
            raise TypeError(
                f"cannot merge {type(self).__name__} with {type(other).__name__}: both streams must keep "
                "the same statistics."
            )
        if other.n_features != self.n_features:
            raise ValueError(
                f"cannot merge statistics of {self.n_features} features with statistics of {other.n_features} features."
            )
        if None not in (self.multilabel, other.multilabel) and self.multilabel != other.multilabel:
            raise ValueError("cannot merge statistics of single labels with statistics of indicator matrices.")
        if self._index.labels and other._index.labels:
            check_labels(self._index, np.array(other._index.labels), len(other._index))

    def _read_labels(self, y: Any, weights: Float) -> tuple[Members, list[Label], np.dtype[Any]]:
        n_rows = len(weights)
        rows = None if weights.all() else np.flatnonzero(weights)
        y = np.asarray(y)
        if rows is not None and y.shape == (n_rows,):
            kept, codes, new = check_labels(self._index, y[rows], len(rows))
            return Members(rows, codes, weights[rows], len(rows)), new, kept.dtype
        y, codes, new = check_labels(self._index, y, n_rows)
        return members_of(codes, weights), new, y.dtype

    def _read_indicator(self, y: Any, weights: Float) -> tuple[Members, list[Label], np.dtype[Any]]:
        matrix = check_indicator(y, len(weights))
        columns = matrix.shape[1]
        if len(self._index) not in (0, columns):
            raise ValueError(f"y has {columns} label columns, but {len(self._index)} are expected.")
        new: list[Label] = [] if len(self._index) else list(range(columns))
        return memberships_of(matrix, weights), new, np.dtype(np.int64)

    def _declare(self, new: list[Label], dtype: np.dtype[Any] | None) -> None:
        if dtype is not None:
            self._index.add(new, dtype)
        needed, capacity = len(self._index), len(self._counts)
        if needed > capacity:
            extra = max(needed, 2 * capacity if capacity else 0) - capacity
            self._counts = np.concatenate([self._counts, np.zeros(extra)])
            self._squares = np.concatenate([self._squares, np.zeros(extra)])
            self._means = np.concatenate([self._means, np.zeros((extra, self.n_features))])

    def _accept(self, new: list[Label], dtype: np.dtype[Any], decay: float) -> None:
        self._declare(new, dtype)
        if decay != 1.0:
            self.decay(decay)

    def _triangle(self) -> Float:
        return np.zeros((0, 0))

    def _summarise(self, X: Rows, members: Members) -> Batch:
        """Summarise a batch without touching the state; refuse what is not finite."""
        counts: Float = np.bincount(members.codes, weights=members.weights).astype(np.float64)
        present = np.flatnonzero(np.bincount(members.codes))
        local = np.zeros(len(counts), dtype=np.int64)
        local[present] = np.arange(len(present))
        members = Members(members.rows, local[members.codes], members.weights, members.n_rows)
        with np.errstate(invalid="ignore", over="ignore"):
            if isinstance(X, np.ndarray):
                means, squares = _summarise_dense(X, members, counts[present])
            else:
                means, squares = _summarise_sparse(X, members, counts[present])
        if len(present) and not (np.isfinite(squares).all() and -LARGEST < means.min() <= means.max() < LARGEST):
            raise_not_finite(X, type(self).__name__)
        return Batch(present, counts[present], means, squares)

    def _absorb(self, batch: Batch) -> Float:
        """Join a summary to the state; return the rows whose squares the join adds to the scatter."""
        k = batch.classes
        before = self._counts[k]
        after = before + batch.counts
        share = batch.counts / after
        shift = batch.means - self._means[k]
        self._means[k] += share[:, None] * shift
        shift *= np.sqrt(before * share)[:, None]
        self._squares[k] += batch.squares + np.einsum("kd,kd->k", shift, shift)
        self._counts[k] = after
        return shift

    def _spread(self, X: Rows, members: Members, batch: Batch, joined: Float) -> None:
        """Add a batch to whatever second moments are kept: none here."""

    def _join(self, other: Any, joined: Float) -> None:
        """Add the other's second moments to ours: none here."""

    def _absorb_rows(self, X: Rows, members: Members, weights: Float) -> None:
        total = float(weights.sum())
        if total > 0:
            self._absorb_row_mean(total, np.asarray(X.T @ weights).ravel() / total)

    def _absorb_row_mean(self, weight: float, mean: Float) -> None:
        if self._row_weight == 0:
            self._row_mean = np.zeros(self.n_features)
        if weight > 0:
            self._row_weight += weight
            self._row_mean = self._row_mean + (mean - self._row_mean) * (weight / self._row_weight)


class ClassScatter(ClassMeans):
    """Class means, and the pooled within-class scatter matrix: O(K·d + d²) memory.

    Enough for every criterion of the library. The scatter is summed about the class means, so neither an offset nor
    a wide separation of the classes costs digits.

    Parameters
    ----------
    n_features : int
        The width d of the rows; the scatter takes 8·d² bytes.

    See Also
    --------
    ClassMeans : The same without the d × d matrix.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0], [5.0, 5.0]])
    >>> ClassScatter(2).update(X, [0, 0, 1]).within_scatter() * 3
    array([[2., 2.],
           [2., 2.]])
    """

    holds_within = True

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features)
        self._scatter: Float = np.zeros((self.n_features, self.n_features))  # only its lower triangle is kept up

    def within_scatter(self) -> Float:
        """Return S_w, (d, d), symmetric."""
        matrix = self._scatter / self.total
        _mirror(matrix)
        return matrix

    def within_variances(self) -> Float:
        """Return the diagonal of S_w: the within-class variance of each feature."""
        variances: Float = self._scatter.diagonal() / self.total
        return variances

    def within_times(self, block: Float) -> Float:
        """Return S_w @ block."""
        block = np.asfortranarray(block, dtype=np.float64)
        product: Float = linalg.blas.dsymm(1.0 / self.total, self._scatter.T, block, lower=0)  # the triangle kept up
        return product

    def decay(self, factor: float) -> Self:
        """Multiply every weight by `factor` in [0, 1]; the means stay where they are."""
        super().decay(factor)
        self._scatter *= factor
        return self

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the whole state as arrays: no objects, nothing to unpickle."""
        return {**super().to_arrays(), "scatter": np.tril(self._scatter)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the statistics that `to_arrays` wrote."""
        result = super().from_arrays(arrays)
        result._scatter = np.array(arrays["scatter"], dtype=np.float64, order="C")
        return result

    def _triangle(self) -> Float:
        return self._scatter

    def _join(self, other: Any, joined: Float) -> None:
        self._scatter += other._scatter
        self._scatter += joined.T @ joined

    def _spread(self, X: Rows, members: Members, batch: Batch, joined: Float) -> None:
        self._scatter += joined.T @ joined
        local = np.zeros(int(batch.classes[-1]) + 1 if len(batch.classes) else 0, dtype=np.int64)
        local[batch.classes] = np.arange(len(batch.classes))
        members = Members(members.rows, local[members.codes], members.weights, members.n_rows)
        if isinstance(X, np.ndarray):
            self._spread_dense(X, members, batch.means)
            return
        matrix, shift = _shift_far_columns(_canonical(X), members, batch)
        if matrix.nnz > DENSE_SHARE * matrix.shape[0] * matrix.shape[1]:
            self._spread_dense(X, members, batch.means)
            return
        threads = 4 if matrix.nnz > 2**16 else 1
        arguments = (matrix.indptr, matrix.indices, matrix.data, members.rows, members.weights, self._scatter)
        run(_add_pairs, [(*arguments, part, threads) for part in range(threads)])
        offset = np.sqrt(batch.counts)[:, None] * (batch.means - shift)
        self._scatter -= offset.T @ offset

    def _spread_dense(self, X: Rows, members: Members, means: Float) -> None:
        d, n = self.n_features, len(members.rows)
        if d > ALONE or n * d < 2**20:
            self._scatter += _centred_squares(X, members, means, 0, n)
            return
        # Two threads with a product each: threads of BLAS would wait busily for the loop between two products.
        parts = split(n, 2)
        found: list[Float] = [np.zeros((d, d)) for _ in parts]

        def add(place: int, start: int, stop: int) -> None:
            found[place] = _centred_squares(X, members, means, start, stop)

        with one_blas_thread():
            run(add, [(place, start, stop) for place, (start, stop) in enumerate(parts)])
        for squares in found:
            self._scatter += squares


def _centred_squares(X: Rows, members: Members, means: Float, start: int, stop: int) -> Float:
    """Return the scatter of some memberships about the class means, block by block."""
    d = X.shape[1]
    buffer, product, total = np.empty((0, d)), np.empty((d, d)), np.zeros((d, d))
    for part in blocks(stop - start, 8 * d, target=max(1024 * 8 * d, 2**22)):
        part = slice(part.start + start, part.stop + start)
        rows, codes, weights = members.rows[part], members.codes[part], members.weights[part]
        block = X[rows[0] : rows[-1] + 1]
        block = np.ascontiguousarray(block) if isinstance(block, np.ndarray) else block.toarray()
        if len(buffer) < len(rows):
            buffer = np.empty((len(rows), d))
        centred = buffer[: len(rows)]
        _centre(block, rows - rows[0], codes, weights, means, centred)
        total += np.matmul(centred.T, centred, out=product)  # numpy makes it a symmetric rank update
    return total


def _check_factor(factor: float) -> None:
    if not 0 <= factor <= 1:
        raise ValueError(f"decay needs a factor in [0, 1], got {factor!r}.")


def _few_dense(X: sparse.csr_array) -> Float:
    """Return a few sparse rows as dense ones: no more than the class means take anyway."""
    if len(X.indices) and not 0 <= X.indices.min() <= X.indices.max() < X.shape[1]:
        _refuse_broken(X.shape[1])
    dense: Float = X.toarray()
    return dense


def _refuse_broken(d: int) -> None:
    raise ValueError(
        f"X is a broken sparse matrix: it has column indices outside 0 … {d - 1} or row pointers outside its data. "
        "Check it with X.check_format()."
    )


def _summarise_dense(X: Float, members: Members, counts: Float) -> tuple[Float, Float]:
    """Return means and squares of the classes of a dense batch, summed about the first row of each class."""
    classes, d = len(counts), X.shape[1]
    first = np.zeros(classes, dtype=np.int64)
    first[members.codes[::-1]] = members.rows[::-1]
    origin = X[first].astype(np.float64)
    parts = 4 if len(members.rows) * d > 2**18 else 1
    sums, squares = np.zeros((parts, classes, d)), np.zeros((parts, classes))
    n = len(members.rows)
    whole = [slice(0, n)] if X.flags.c_contiguous else blocks(n, d * X.itemsize, target=2**25)
    for part in whole:
        rows, codes, weights = members.rows[part], members.codes[part], members.weights[part]
        if not len(rows):
            continue
        block = np.ascontiguousarray(X[rows[0] : rows[-1] + 1])
        pieces = enumerate(split(len(rows), parts))
        start = rows - rows[0]
        run(_sum_dense, [(block, start, codes, weights, origin, sums[i], squares[i], a, b) for i, (a, b) in pieces])
    offset = sums.sum(axis=0) / counts[:, None]
    total = squares.sum(axis=0) - counts * np.einsum("kd,kd->k", offset, offset)
    return origin + offset, np.maximum(total, 0.0, where=np.isfinite(total), out=total)


def _summarise_sparse(X: sparse.csr_array, members: Members, counts: Float) -> tuple[Float, Float]:
    """Return means and squares of the classes of a sparse batch, summed about zero where that keeps the digits."""
    means, raw, canonical = _sum_csr(X, members, counts)
    if not canonical:
        X = _canonical(X)
        means, raw, _ = _sum_csr(X, members, counts)
    squares = raw - counts * np.einsum("kd,kd->k", means, means)
    if np.any((squares < LOST_DIGITS * raw) & (np.bincount(members.codes) > 1)):
        matrix, shift = _shift_far_columns(X, members, Batch(np.arange(len(counts)), counts, means, squares))
        if shift.any():
            offset, raw, _ = _sum_csr(matrix, members, counts)
            means, squares = offset + shift, raw - counts * np.einsum("kd,kd->k", offset, offset)
    squares[np.bincount(members.codes, minlength=len(counts)) == 1] = 0.0
    return means, np.maximum(squares, 0.0, where=np.isfinite(squares), out=squares)


def _sum_csr(X: sparse.csr_array, members: Members, counts: Float) -> tuple[Float, Float, bool]:
    classes, d = len(counts), X.shape[1]
    cells = 8 * classes * d
    parts = 1 if X.nnz < 2**18 else 4 if 4 * cells < 2**22 else 2 if 2 * cells < 2**29 else 1
    sums, squares = np.zeros((parts, classes, d)), np.zeros((parts, classes))
    status = np.zeros(parts, dtype=np.int64)
    rows, codes, weights = members.rows, members.codes, members.weights
    pieces = enumerate(split(len(rows), parts))
    arrays = (X.indptr, X.indices, X.data, rows, codes, weights)
    run(_sum_sparse, [(*arrays, sums[i], squares[i], status[i : i + 1], a, b) for i, (a, b) in pieces])
    if status.max(initial=0) == 2:
        _refuse_broken(d)
    total = sums[0] if parts == 1 else sums.sum(axis=0)
    total /= counts[:, None]
    return total, squares.sum(axis=0), status.max(initial=0) == 0


def _canonical(X: sparse.csr_array) -> sparse.csr_array:
    """Return X with sorted indices and no duplicates; the caller's matrix stays as it is."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _shift_far_columns(X: sparse.csr_array, members: Members, batch: Batch) -> tuple[sparse.csr_array, Float]:
    """Subtract a constant from the columns whose scatter would drown in their squares; they become full columns."""
    weights = np.zeros(X.shape[0])
    np.add.at(weights, members.rows, members.weights)
    raw = np.asarray(X.multiply(X).T @ weights).ravel()
    within = raw - batch.counts @ batch.means**2
    far = np.flatnonzero(within < LOST_DIGITS * raw)
    shift = np.zeros(X.shape[1])
    if not len(far):
        return X, shift
    shift[far] = batch.counts @ batch.means[:, far] / batch.counts.sum()
    n = X.shape[0]
    indptr = np.arange(n + 1, dtype=X.indptr.dtype) * len(far)
    stripes = (np.tile(shift[far], n), np.tile(far.astype(X.indices.dtype), n), indptr)
    return sparse.csr_array(X - sparse.csr_array(stripes, shape=X.shape)), shift


@compiled
def _all_finite(X: Float) -> bool:
    total = 0.0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            total += np.float64(X[i, j]) * np.float64(X[i, j])
    return bool(np.isfinite(total))


@compiled
def _learn(
    X: Float,
    rows: Integer,
    codes: Integer,
    weights: Float,
    counts: Float,
    means: Float,
    squares: Float,
    scatter: Float,
) -> None:
    """Learn row by row, by Welford's update; `scatter` is a lower triangle, or empty."""
    d = X.shape[1]
    step = np.empty(d)
    for p in range(len(rows)):
        k, w = codes[p], weights[p]
        counts[k] += w
        share = w / counts[k]
        weight = w * (1.0 - share)
        total = 0.0
        for j in range(d):
            step[j] = X[rows[p], j] - means[k, j]
            total += step[j] * step[j]
            means[k, j] += share * step[j]
        squares[k] += weight * total
        if weight == 0.0:
            continue
        for j in range(scatter.shape[0]):
            scaled = weight * step[j]
            for i in range(j + 1):
                scatter[j, i] += scaled * step[i]


@compiled
def _sum_dense(
    X: Float,
    rows: Integer,
    codes: Integer,
    weights: Float,
    origin: Float,
    sums: Float,
    squares: Float,
    start: int,
    stop: int,
) -> None:
    for p in range(start, stop):
        i, k, w = rows[p], codes[p], weights[p]
        total = 0.0
        for j in range(X.shape[1]):
            step = X[i, j] - origin[k, j]
            sums[k, j] += w * step
            total += step * step
        squares[k] += w * total


@compiled
def _centre(
    X: Float,
    rows: Integer,
    codes: Integer,
    weights: Float,
    means: Float,
    out: Float,
) -> None:
    for p in range(len(rows)):
        i, k, root = rows[p], codes[p], np.sqrt(weights[p])
        for j in range(X.shape[1]):
            out[p, j] = root * (X[i, j] - means[k, j])


@compiled
def _sum_sparse(
    indptr: Integer,
    indices: Integer,
    data: Float,
    rows: Integer,
    codes: Integer,
    weights: Float,
    sums: Float,
    squares: Float,
    status: Integer,
    start: int,
    stop: int,
) -> None:
    """Sum rows by class; status 1: indices unsorted or repeated, 2: out of bounds."""
    d = sums.shape[1]
    for p in range(start, stop):
        i, k, w = rows[p], codes[p], weights[p]
        first, last = indptr[i], indptr[i + 1]
        if first < 0 or last > len(data) or last < first:
            status[0] = 2
            return
        total, previous = 0.0, -1
        for position in range(first, last):
            j = indices[position]
            if j < 0 or j >= d:
                status[0] = 2
                return
            if j <= previous:
                status[0] = 1
            previous = j
            value = np.float64(data[position])
            sums[k, j] += w * value
            total += value * value
        squares[k] += w * total


@compiled
def _add_pairs(
    indptr: Integer,
    indices: Integer,
    data: Float,
    rows: Integer,
    weights: Float,
    scatter: Float,
    part: int,
    parts: int,
) -> None:
    """Add the pairs of non-zeros of each row to a lower triangle; this thread writes every `parts`-th row of it."""
    for p in range(len(rows)):
        i, w = rows[p], weights[p]
        first = indptr[i]
        for a in range(first, indptr[i + 1]):
            j = indices[a]
            if j % parts != part:
                continue
            scaled = w * np.float64(data[a])
            for b in range(first, a + 1):
                scatter[j, indices[b]] += scaled * np.float64(data[b])


@compiled
def _mirror(matrix: Float) -> None:
    """Copy the lower triangle to the upper one, in tiles that fit the cache."""
    d, tile = matrix.shape[0], 64
    for first in range(0, d, tile):
        for second in range(0, first + 1, tile):
            for i in range(first, min(first + tile, d)):
                for j in range(second, min(second + tile, i)):
                    matrix[j, i] = matrix[i, j]
