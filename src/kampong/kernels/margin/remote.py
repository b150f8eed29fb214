"""Core sets of patterns whose rows lie elsewhere, in parts: the core set travels, the rows stay.

Whoever holds the rows answers two questions (`Holder`): where the least margins v · z are, for a point v that is a sum
of few patterns, and what the rows of some patterns are. `answer` is what one part says, `joined` what several say
together. Rows come to the solver when they join a core set, and only then; the solve itself is that of `core_set`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from kampong._runtime.compute import stack
from kampong.kernels.functions import BLOCK_ROWS, PreparedRows, kernel_scores
from kampong.kernels.margin.hull import Hull
from kampong.kernels.margin.kernel_rows import KernelRows, diagonal_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong._runtime.compute import Float, Integer, Rows
    from kampong.kernels.functions import Kernel
    from kampong.kernels.margin.problem import Problem


@dataclass(frozen=True)
class Question:
    """A point v of each hull, as a sum of few patterns, and how much is asked about it.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    points : array or sparse matrix of shape (n_points, n_features)
        The rows that v is a sum of.
    weights : array of shape (n_points, n_problems)
        Their weights.
    bias : array of shape (n_problems,)
        Added to every kernel product.
    ridge : float
        That of the hulls.
    positive : tuple of int
        The class that each problem sets against the rest.
    members, alpha : tuple of array
        The core set of each problem, by number of the pattern, and its weights.
    batch : tuple of int
        How many patterns outside the core set are wanted at most.
    limits : tuple of float
        Patterns of larger margins are not wanted.
    mask : bytes
        Which patterns to look at, a bit each; empty for all.
    """

    kernel: Kernel
    points: Rows
    weights: Float
    bias: Float
    ridge: float
    positive: tuple[int, ...]
    members: tuple[Integer, ...]
    alpha: tuple[Float, ...]
    batch: tuple[int, ...]
    limits: tuple[float, ...]
    mask: bytes = b""


class Sight(NamedTuple):
    """What some parts see of one problem: the least margin, those of their members, and their worst patterns."""

    least: float
    members: Integer
    margins: Float
    worst: Integer
    gradients: Float


class Holder(Protocol):
    """Whoever holds the rows."""

    n_samples: int
    width: int
    dtype: Any

    def look(self, question: Question) -> list[Sight]:
        """Return what is seen of each problem at all patterns."""

    def rows(self, positions: Integer) -> Rows:
        """Return the rows of some patterns."""


def answer(question: Question, X: Rows, codes: Integer, start: int) -> list[Sight]:
    """Return what one part sees: a pure function of it.

    Parameters
    ----------
    question : Question
        What is asked.
    X : array or sparse matrix of shape (n_rows, n_features)
        The rows of the part.
    codes : array of shape (n_rows,)
        Their classes, by number.
    start : int
        The number of its first pattern among all.

    Returns
    -------
    list of Sight
        One a problem.
    """
    chosen = np.arange(X.shape[0])
    if question.mask:
        bits = np.unpackbits(np.frombuffer(question.mask, dtype=np.uint8))
        chosen = np.flatnonzero(bits[start : start + X.shape[0]])
        X, codes = X[chosen], codes[chosen]
    numbers = start + chosen
    weights = question.weights.astype(X.dtype, copy=False)
    products = kernel_scores(question.kernel, X, question.kernel.prepare(question.points), weights)
    sights = []
    for p, positive in enumerate(question.positive):
        signs = np.where(codes == positive, 1.0, -1.0)
        gradient: Float = signs * (products[:, p] + question.bias[p])
        inside = np.flatnonzero(np.isin(question.members[p], numbers))
        members = question.members[p][inside]
        places = np.searchsorted(numbers, members)
        gradient[places] += question.ridge * question.alpha[p][inside]
        outside = np.ones(len(gradient), dtype=bool)
        outside[places] = False
        found = np.flatnonzero(outside & (gradient < question.limits[p]))
        found = found[np.argsort(gradient[found], kind="stable")[: question.batch[p]]]
        least = float(gradient.min(initial=np.inf))
        sights.append(Sight(least, members, gradient[places], numbers[found], gradient[found]))
    return sights


def joined(sights: Sequence[list[Sight]], batch: Sequence[int]) -> list[Sight]:
    """Return what several parts see together.

    Parameters
    ----------
    sights : sequence of list of Sight
        What each sees, in the order of the parts.
    batch : sequence of int
        How many patterns are wanted of each problem.

    Returns
    -------
    list of Sight
        One a problem.
    """
    found = []
    for several, most in zip(zip(*sights, strict=True), batch, strict=True):
        worst = np.concatenate([one.worst for one in several])
        gradients = np.concatenate([one.gradients for one in several])
        order = np.argsort(gradients, kind="stable")[:most]
        members, margins = (np.concatenate([one[place] for one in several]) for place in (1, 2))
        found.append(Sight(min(one.least for one in several), members, margins, worst[order], gradients[order]))
    return found


@dataclass(frozen=True)
class RemoteHull(Hull):
    """A hull whose directions are known only at the rows that are here.

    Attributes
    ----------
    positive : int
        The class that is set against the rest.
    features : tuple of Feature
        The directions that w is to be orthogonal to.
    where : array of int or None
        The numbers of the patterns among all; None for all of them.
    """

    positive: int = 0
    features: tuple[Any, ...] = ()
    where: Integer | None = None

    @property
    def deflated(self) -> bool:
        """Tell whether directions are taken off the kernel."""
        return bool(self.features)

    def without(self, features: Sequence[Any]) -> RemoteHull:
        """Return the hull without some directions, whose values are known at the rows that are here."""
        return replace(self, features=tuple(features))

    def restrict(self, indices: Integer) -> RemoteHull:
        """Return the hull of some of the patterns."""
        where = indices if self.where is None else self.where[indices]
        return replace(self, signs=self.signs[indices], where=where)

    def diagonal(self, diagonal: Float) -> Float:
        """Return the diagonal of the kernel matrix without the directions, right at rows that are here."""
        left: Float = diagonal - (self._values(None) ** 2).sum(axis=1) if self.features else diagonal
        return left

    def deflate(self, block: Float, rows: Integer, columns: Integer) -> Float:
        """Subtract the directions from a block of kernel values, in place."""
        if self.features:
            block -= self._values(rows).astype(block.dtype) @ self._values(columns).astype(block.dtype).T
        return block

    def deflate_product(self, product: Float, rows: Integer | None, columns: Integer, weights: Float) -> Float:
        """Subtract the directions from a product K[rows][:, columns] @ weights, in place; None stands for all rows."""
        if self.features:
            product -= self._values(rows) @ (self._values(columns).T @ weights)
        return product

    def _values(self, indices: Integer | None) -> Float:
        where: Any = slice(None) if self.where is None else self.where
        if indices is not None:
            where = indices if self.where is None else self.where[indices]
        return np.column_stack([feature.values[where] for feature in self.features])


def remote_hulls(signs: list[Float], C: float) -> list[Hull]:
    """Return the problems of a core vector machine with the labels ±1 of each."""
    numbers = [1] if len(signs) == 1 else range(len(signs))
    return [
        RemoteHull(one, offset=1.0, ridge=1.0 / C, positive=number) for one, number in zip(signs, numbers, strict=True)
    ]


class Elsewhere:
    """Stands for the rows of all patterns: those that are asked for come."""

    def __init__(self, here: _Here, shape: tuple[int, int]) -> None:
        self._here, self.shape, self.dtype = here, shape, here.holder.dtype

    def __getitem__(self, positions: Integer) -> Rows:
        return self._here.plain(positions)


class _Here:
    """The rows that have come so far, by number of the pattern, and the values of features at them."""

    def __init__(self, kernel: Kernel, holder: Holder) -> None:
        self.kernel, self.holder = kernel, holder
        self.place: Integer = np.full(holder.n_samples, -1, dtype=np.int64)
        self.diagonal: Float = np.zeros(holder.n_samples)
        self.rows: Any = None
        self.prepared: PreparedRows | None = None
        self.features: list[Any] = []
        self._lock = threading.RLock()  # problems are solved side by side, and each may ask for rows

    def bring(self, positions: Integer) -> None:
        """Ask for the rows that are not here yet."""
        with self._lock:
            self._bring(positions)

    def _bring(self, positions: Integer) -> None:
        new = np.unique(positions[self.place[positions] < 0])
        if not len(new):
            return
        X = self.holder.rows(new)
        prepared = self.kernel.prepare(X)
        count = 0 if self.rows is None else self.rows.shape[0]
        self.place[new] = count + np.arange(len(new))
        self.diagonal[new] = diagonal_of(self.kernel, prepared, X)
        self.rows = X if self.rows is None else stack(self.rows, X)
        if self.prepared is None:
            self.prepared = prepared
        else:
            norms = np.concatenate([self.prepared.norms, prepared.norms])
            self.prepared = PreparedRows(stack(self.prepared.rows, prepared.rows), norms)
        for feature in self.features:
            support = self.take(feature.rows)
            feature.values[new] = kernel_scores(self.kernel, X, support, feature.coefficients[:, None])[:, 0]

    def take(self, positions: Integer) -> PreparedRows:
        """Return rows as the kernel reads them."""
        with self._lock:
            self.bring(positions)
            prepared = self.prepared
            assert prepared is not None
            places = self.place[positions]
        return PreparedRows(prepared.rows[places], prepared.norms[places])

    def plain(self, positions: Integer) -> Rows:
        """Return rows as they came."""
        with self._lock:
            self.bring(positions)
            rows: Rows = self.rows[self.place[positions]]
        return rows


class RemoteRows(KernelRows):
    """Kernel values among the patterns that have come here; all others are asked after.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    holder : Holder
        Whoever holds the rows.
    """

    def __init__(self, kernel: Kernel, holder: Holder) -> None:
        self.kernel, self.dtype, self.n_samples = kernel, holder.dtype, holder.n_samples
        self.n_evaluations, self.budget = 0, 0
        self._here = _Here(kernel, holder)
        self._where: Integer | None = None
        self._empty_store()

    def _empty_store(self) -> None:
        super()._empty_store()
        self.capacity = 0

    @property
    def width(self) -> int:
        """Return the number of features that a kernel value is computed from."""
        return self._here.holder.width

    @property
    def here(self) -> _Here:
        """Return the rows that have come so far."""
        return self._here

    @property
    def elsewhere(self) -> Any:
        """Return what stands for the rows of all patterns."""
        return Elsewhere(self._here, (self.n_samples, self.width))

    @property
    def diagonal(self) -> Float:
        """Return k(x, x) of the patterns that are here, 0 for the others."""
        every: Float = self._here.diagonal
        return every if self._where is None else every[self._where]

    @diagonal.setter
    def diagonal(self, _: Float) -> None:
        raise AttributeError("the diagonal follows from the rows that have come")

    def subset(self, indices: Integer) -> RemoteRows:
        """Return the rows and columns of some points only."""
        part = object.__new__(RemoteRows)
        part.kernel, part.dtype, part.n_samples = self.kernel, self.dtype, len(indices)
        part.n_evaluations, part.budget = 0, 0
        part._here, part._where = self._here, self._numbers(indices)
        part._empty_store()
        return part

    def fetch_all(self) -> bool:
        """Store nothing: not all rows are here."""
        return False

    def bring(self, indices: Integer) -> None:
        """Ask for the rows of some patterns, in one go."""
        self._here.bring(self._numbers(indices))

    def block(self, rows: Integer, columns: Integer | None = None) -> Float:
        """Return K[rows][:, columns], where the columns are named."""
        assert columns is not None
        left, right = self._here.take(self._numbers(rows)), self._here.take(self._numbers(columns))
        out = np.empty((len(rows), len(columns)), dtype=self.dtype)

        def tile(start: int, stop: int) -> None:
            part = PreparedRows(left.rows[start:stop], left.norms[start:stop])
            out[start:stop] = self.kernel.between(part, right)

        self._tiles(tile, len(rows), len(columns))
        return out

    def times(self, columns: Integer, weights: Float, rows: Integer | None = None, *, keep: bool = False) -> Float:
        """Return K @ weights at the patterns that are here, 0 at the others."""
        out = np.zeros((self.n_samples, weights.shape[1]))
        here = np.flatnonzero(self._here.place[self._numbers(np.arange(self.n_samples))] >= 0)
        for start in range(0, len(here), BLOCK_ROWS):
            some = here[start : start + BLOCK_ROWS]
            out[some] = self.block(some, columns) @ np.asarray(weights, dtype=self.dtype)
        return out if rows is None else out[rows]

    def look(self, problems: list[Problem]) -> list[Sight]:
        """Ask all parts about the point of each problem; patterns are numbered as here."""
        numbers = [self._numbers(problem.core) for problem in problems]
        raw = [problem.hull.signs[problem.core] * problem.alpha for problem in problems]
        features = [getattr(problem.hull, "features", ()) for problem in problems]
        every = [*numbers, *(feature.rows for several in features for feature in several)]
        union = np.unique(np.concatenate(every))
        weights = np.zeros((len(union), len(problems)))
        for p, (core, values) in enumerate(zip(numbers, raw, strict=True)):
            weights[np.searchsorted(union, core), p] = values
            for feature in features[p]:
                # K without the directions, times the weights, is K times weights that have no part along them
                along = float(feature.values[core] @ values)
                weights[np.searchsorted(union, feature.rows), p] -= along * feature.coefficients
        used = np.flatnonzero(weights.any(axis=1))
        self.n_evaluations += self.n_samples * len(used)
        hull = problems[0].hull
        mask = b""
        if self._where is not None:
            bits = np.zeros(len(self._here.place), dtype=bool)
            bits[self._where] = True
            mask = np.packbits(bits).tobytes()
        order = [np.argsort(core) for core in numbers]
        question = Question(
            self.kernel,
            self._here.plain(union[used]),
            weights[used],
            np.array([hull.offset * float(values.sum()) for values in raw]),
            hull.ridge,
            tuple(getattr(problem.hull, "positive", 0) for problem in problems),
            tuple(core[place] for core, place in zip(numbers, order, strict=True)),
            tuple(problem.alpha[place] for problem, place in zip(problems, order, strict=True)),
            tuple(problem.batch() for problem in problems),
            tuple(_limit(problem) for problem in problems),
            mask,
        )
        sights = []
        for problem, core, sight in zip(problems, numbers, self._here.holder.look(question), strict=True):
            ordered = np.argsort(sight.members)
            margins = np.empty(len(problem.core))
            margins[np.argsort(core)] = sight.margins[ordered]
            worst = sight.worst if self._where is None else np.searchsorted(self._where, sight.worst)
            sights.append(Sight(sight.least, problem.core, margins, worst, sight.gradients))
        return sights

    def _numbers(self, indices: Integer) -> Integer:
        """Return the numbers of patterns among all."""
        return indices if self._where is None else self._where[indices]


def _limit(problem: Problem) -> float:
    """Return a margin that no violator has: a little above the objective; infinite where it is not known."""
    if len(problem.margins) != len(problem.core):
        return np.inf
    objective = float(problem.alpha @ problem.margins)
    return objective * (1.0 - 0.25 * problem.options.tol) if objective > 0 else np.inf
