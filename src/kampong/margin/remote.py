"""Core sets of patterns whose rows are elsewhere, in parts: the core set travels, the rows stay.

Whoever holds the rows answers two questions (`Holder`): where the least margins v · z are, for a point v that is a sum
of few patterns, and what the rows of some patterns are (`remote_protocol.py`). Rows come to the solver when they join a
core set, and only then; the solve itself is that of `core_set`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from kampong._core.compute import stack
from kampong.kernels.functions import BLOCK_ROWS, PreparedRows, kernel_scores
from kampong.margin.hull import Hull
from kampong.margin.kernel_rows import KernelRows, diagonal_of
from kampong.margin.remote_protocol import Arrived, Question, Sight, bits_of, came_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong._core.compute import Float, Integer, Rows
    from kampong.kernels.functions import Kernel
    from kampong.margin.problem import Problem


class Holder(Protocol):
    """Whoever holds the rows."""

    n_samples: int
    width: int
    dtype: Any
    codes: Integer

    def look(self, question: Question, arrived: Sequence[Arrived]) -> list[Sight]:
        """Return what is seen of each problem at all patterns; `arrived` only grows from look to look."""

    def rows(self, positions: Integer) -> Rows:
        """Return the rows of some patterns."""


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
        self.arrived: list[Arrived] = []
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
        came = self.holder.rows(new)
        codes = self.holder.codes[new].astype(np.int32)
        self.arrived.append(Arrived(came, new.astype(came_type(self.holder.n_samples)), codes))
        X = came.astype(self.holder.dtype, copy=False)
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
        features = [getattr(problem.hull, "features", ()) for problem in problems]
        self.bring_numbers([*numbers, *(feature.rows for several in features for feature in several)])
        place, count = self._here.place, self._here.rows.shape[0]
        raw = [problem.hull.signs[problem.core] * problem.alpha for problem in problems]
        taken = tuple(
            # K without the directions, times the weights, is K times weights that have no part along them
            tuple(
                (place[one.rows].astype(np.int32), float(one.values[core] @ values) * one.coefficients)
                for one in several
            )
            for core, values, several in zip(numbers, raw, features, strict=True)
        )
        weighted = np.zeros(count, dtype=bool)
        for core, problem, several in zip(numbers, problems, taken, strict=True):
            weighted[place[core[problem.alpha != 0]]] = True
            for where, values in several:
                weighted[where[values != 0]] = True
        self.n_evaluations += self.n_samples * int(np.count_nonzero(weighted))
        hull = problems[0].hull
        question = Question(
            self.kernel,
            tuple(bits_of(place[core], count) for core in numbers),
            tuple(problem.alpha[np.argsort(place[core])] for problem, core in zip(problems, numbers, strict=True)),
            taken,
            np.array([hull.offset * float(values.sum()) for values in raw]),
            hull.ridge,
            tuple(getattr(problem.hull, "positive", 0) for problem in problems),
            tuple(problem.batch() for problem in problems),
            tuple(_limit(problem) for problem in problems),
            b"" if self._where is None else bits_of(self._where, len(place)),
        )
        sights = []
        seen = self._here.holder.look(question, self._here.arrived)
        for problem, core, sight in zip(problems, numbers, seen, strict=True):
            margins = np.empty(len(problem.core))
            margins[np.argsort(core)] = sight.margins  # parts answer in the order of the patterns
            worst = sight.worst if self._where is None else np.searchsorted(self._where, sight.worst)
            sights.append(Sight(sight.least, margins, worst.astype(np.int64), sight.gradients))
        return sights

    def bring_numbers(self, numbers: Sequence[Integer]) -> None:
        """Ask for the rows of some patterns, by their numbers among all."""
        self._here.bring(np.concatenate(numbers))

    def _numbers(self, indices: Integer) -> Integer:
        """Return the numbers of patterns among all."""
        return indices if self._where is None else self._where[indices]


def _limit(problem: Problem) -> float:
    """Return a margin that no violator has: a little above the objective; infinite where it is not known."""
    if len(problem.margins) != len(problem.core):
        return np.inf
    objective = float(problem.alpha @ problem.margins)
    return objective * (1.0 - 0.25 * problem.options.tol) if objective > 0 else np.inf
