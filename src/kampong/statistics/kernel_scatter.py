"""KernelScatter: class means and scatter of the kernel values of rows to a few landmarks."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from kampong._core.compute import blocks, float_type
from kampong.data.validation import check_rows, check_squarable, check_weights
from kampong.statistics.scatter import ClassScatter, mirror

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
    from kampong.data.labels import Label
    from kampong.statistics.all_rows import Sample
    from kampong.statistics.batch import Reading
    from kampong.statistics.means import ClassMeans
    from kampong.statistics.reservoir import ClassReservoir

VALUES_BYTES = 64 * 2**20
"""Bytes of a block of kernel values: enough rows for the next product to run at full speed."""


class Basis(Protocol):
    """An orthonormal basis of the span of the images of some landmarks, as far as the statistics need it."""

    @property
    def rank(self) -> int:
        """The number of landmarks, which is the width of the kernel values."""

    @property
    def width(self) -> int:
        """The number of features of a row."""

    def values(self, X: Rows) -> Float:
        """Return the kernel values of rows to the landmarks."""

    def coordinates(self, values: Float) -> Float:
        """Return the coordinates of kernel values in the orthonormal basis."""

    def embed(self, X: Rows) -> Float:
        """Return the coordinates of rows in the orthonormal basis."""

    def turned(self, scatter: Float) -> Float:
        """Return a scatter of kernel values, of which the lower triangle is read, as one of coordinates."""

    def same_as(self, other: Any) -> bool:
        """Tell whether both map every row to the same values."""


class KernelScatter(ClassScatter):
    """Class means and scatter of φ(x) projected on the span of the landmarks: O(K·m + m²) memory.

    It takes rows and sums their kernel values. What it returns is in orthonormal coordinates: means, `mean`,
    `between_factor`, `within_scatter` and `within_trace` are those of L⁻¹k(x). Every solver can work on it.

    Parameters
    ----------
    basis : Basis
        The landmarks.
    kept : ClassReservoir, optional
        A sample of the rows themselves, to choose with; it learns what this object learns.

    Attributes
    ----------
    estimated : bool
        Whether rows of the sample stand for others that came before the landmarks were placed again.
    """

    def __init__(self, basis: Basis, kept: ClassReservoir | None = None) -> None:
        super().__init__(basis.rank)
        self.basis: Basis = basis
        self.kept = kept
        self.estimated = False
        self._turned: Float | None = None

    def drop_sample(self) -> None:
        """Forget the rows that are kept only to choose and train heads."""
        self.kept = None

    @property
    def kept_sample(self) -> ClassReservoir | None:
        """Return the sample of the rows themselves; None where there is none."""
        return self.kept

    @property
    def means(self) -> Float:
        """Return the mean of each class, (K, m)."""
        return self.basis.coordinates(super().means)

    @property
    def mean(self) -> Float:
        """Return the mean of the rows."""
        mean: Float = self.basis.coordinates(super().mean[None])[0]
        return mean

    @property
    def row_mean(self) -> Float:
        """Return the mean of the rows, each counted once."""
        return self.basis.coordinates(self._row_mean[None])[0] if self.multilabel else self.mean

    @property
    def squares(self) -> Float:
        """Raise an error: distances from the class mean are known only for all classes together (`within_trace`)."""
        raise TypeError("KernelScatter knows the squared distances only for all classes together: read within_trace.")

    @property
    def within_trace(self) -> float:
        """Return tr S_w."""
        return float(np.trace(self._turn()))

    def within_scatter(self) -> Float:
        """Return S_w, (m, m), symmetric."""
        return self._turn().copy()

    def within_variances(self) -> Float:
        """Return the diagonal of S_w."""
        variances: Float = self._turn().diagonal().copy()
        return variances

    def within_times(self, block: Float) -> Float:
        """Return S_w @ block."""
        product: Float = self._turn() @ block
        return product

    def update(self, X: Any, y: Any, sample_weight: Any = None, *, decay: float = 1.0, classes: Any = None) -> Self:
        """Learn a batch of rows in blocks, so that memory does not grow with it; on an error the state is as before.

        Parameters
        ----------
        X : array or sparse matrix of shape (rows, n_features)
            The rows themselves, not their kernel values.
        y : array of shape (rows,) or indicator matrix of shape (rows, labels)
            One label per row, or a matrix of 0 and 1: then a row counts for each of its labels.
        sample_weight : array of shape (rows,), optional
            A weight of 2 is the row twice, a weight of 0 the row absent.
        decay : float
            First multiply the weights of everything learnt before by this factor in [0, 1].
        classes : array of shape (classes,), optional
            Classes that may come, added with weight 0.
        """
        X = check_rows(X, self.basis.width, compact=True)
        check_squarable(X, self.owner or type(self).__name__)
        weights = check_weights(sample_weight, X.shape[0])
        reading = self._read(y, weights, decay, classes)
        kept = None if self.kept is None else self.kept._check(X, self.kept._read(y, weights, 1.0))
        parts = blocks(X.shape[0], self.basis.rank * float_type(X).itemsize, target=VALUES_BYTES)
        if len(parts) == 1:
            self._learn(self._check(self.basis.values(X), reading))
        else:  # summed up apart, since a later block may be refused
            apart = ClassScatter(self.n_features)
            for part in parts:
                cut = reading.part(part.start, part.stop)._replace(decay=1.0)
                apart._learn(apart._check(self.basis.values(X[part]), cut))
            codes = np.arange(len(apart._index))
            self._check_sums(apart, codes, decay)
            self._accept(reading)
            self._take_in(apart, codes)
        if self.kept is not None and kept is not None:
            self.kept._learn(kept)
        return self

    def sample(self, most: int) -> Sample:
        """Return rows of the sample in orthonormal coordinates: all of them, or `most`."""
        assert self.kept is not None
        sample = self.kept.sample(most)
        places = {label: place for place, label in enumerate(self.classes.tolist())}
        positions = np.array([places[label] for label in self.kept.classes.tolist()], dtype=np.int64)
        return sample._replace(rows=self.basis.embed(sample.rows), members=sample.members.renamed(positions))

    def unlearn(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Take rows out again, as if they had never come; on an error the state is as before."""
        self._refuse_estimates()
        kept = None if self.kept is None else self.kept._copy()
        if kept is not None:
            kept.owner = self.owner
            kept.unlearn(X, y, sample_weight)
        super().unlearn(X, y, sample_weight)
        self.kept = kept
        return self

    def unlearn_class(self, label: Label) -> Self:
        """Take all rows of a class out again, where the sample still holds every row; on an error nothing changes."""
        self._code_of(label)
        self._refuse_estimates()
        if self.kept is None or self.kept.full:
            return super().unlearn_class(label)
        return self.unlearn(*self.kept.rows_of(label))

    def placed_anew(self, basis: Basis) -> Self | None:
        """Return these statistics on other landmarks, as far as the sample knows them; None where it lacks a class.

        While the sample holds every row they are those of all rows. After that its rows count for those left out.
        """
        assert self.kept is not None
        sample = self.kept.sample()
        counts = np.bincount(sample.members.codes, minlength=self.kept.n_classes)
        if self.multilabel or (self.kept.counts[counts == 0] > 0).any():
            return None
        labels, n = self._index.labels, len(self._index)
        result = type(self)(basis).declare(np.array(labels, dtype=self._index.dtype))
        result.update(sample.rows, self.kept.classes[sample.members.codes], sample.members.weights)
        result.n_samples, result._numbers[:n] = self.n_samples, self._numbers[:n]
        result._seconds[:n] = self._seconds[:n]
        result.kept, result.estimated = self.kept._copy(), self.estimated or self.kept.full
        return result

    def _scaled(self, factor: float) -> Self:
        self._turn()  # it does not depend on the scale, and is kept
        view = super()._scaled(factor)
        view.kept = None if self.kept is None else self.kept._scaled(factor)
        return view

    def decay(self, factor: float) -> Self:
        """Multiply every weight by `factor` in [0, 1]; the means stay where they are."""
        super().decay(factor)
        self._turned = None
        if self.kept is not None:
            self.kept.decay(factor)
        return self

    @classmethod
    def from_state(cls, contents: Any, n_features: int) -> Self:
        """Raise an error: the landmarks are saved separately; see `around`."""
        raise TypeError(
            "KernelScatter.from_state: give its landmarks too, with around(basis, ClassScatter.from_state(…))."
        )

    def plain(self) -> ClassScatter:
        """Return a copy of the sums over kernel values, without the landmarks."""
        result = ClassScatter(self.n_features)
        copied = copy.deepcopy({name: value for name, value in vars(self).items() if name in vars(result)})
        result.__dict__.update(copied)
        return result

    @classmethod
    def around(cls, basis: Basis, plain: ClassScatter, kept: ClassReservoir | None = None) -> Self:
        """Return the statistics whose sums over kernel values are those of `plain`."""
        result = cls(basis, kept)
        result.__dict__.update(plain.__dict__)
        return result

    @property
    def _width(self) -> int:
        return self.basis.width

    def _empty(self) -> ClassMeans:
        return KernelScatter(self.basis)

    def _take_out(self, taken: Any) -> tuple[Float, Integer]:
        self._turned = None
        return super()._take_out(taken)

    def to_state(self) -> dict[str, Any]:
        """Return the whole state: arrays, plain values, and dictionaries of both; nothing to unpickle."""
        state = super().to_state()
        state = state if self.kept is None else {**state, "kept": self.kept.to_state()}
        return {**state, "estimated": True} if self.estimated else state

    def _copy(self) -> Self:
        result = type(self).around(self.basis, self.plain(), None if self.kept is None else self.kept._copy())
        result.estimated = self.estimated
        return result

    def _accept(self, reading: Reading) -> None:
        self._turned = None
        super()._accept(reading)

    def _refuse_estimates(self) -> None:
        if self.estimated:
            raise ValueError(
                "the landmarks were placed again during the stream, when only a sample of its rows was kept, so what a "
                "row left in the sums is not known. Learn again without the rows, or with Fourier features."
            )

    def _join(self, other: Any, joined: Float) -> None:
        super()._join(other, joined)
        if not isinstance(other, KernelScatter):  # blocks of one batch
            return
        self.estimated |= other.estimated
        if self.kept is not None:
            self.kept = None if other.kept is None else self.kept.merge(other.kept)

    def _check_mergeable(self, other: ClassMeans) -> None:
        if isinstance(other, KernelScatter) and not self.basis.same_as(other.basis):
            raise ValueError(
                "cannot merge statistics of different landmarks or kernels: their values mean different things. Place "
                "the landmarks once, with kampong.fit_landmarks, or pass the same landmarks, gamma and scale to every "
                "part."
            )
        super()._check_mergeable(other)

    def _turn(self) -> Float:
        """Return S_w in orthonormal coordinates, L⁻¹ S L⁻ᵀ, computed once a state."""
        if self._turned is None:
            self._turned = self.basis.turned(self._scatter / self.total)
            mirror(self._turned)
            diagonal = self._turned.diagonal()
            np.fill_diagonal(self._turned, np.maximum(diagonal, 0.0))  # rounding may make it negative
        return self._turned
