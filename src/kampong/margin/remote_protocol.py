"""The protocol between a solver and the holders of rows: questions about a core set, and short answers.

A row that has come to the solver is sent to those who hold parts once (`Arrived`), in the smallest type that holds its
numbers exactly. A question then names the members of each core set by a bit for every row that has come, and gives
their weights; a part answers with the margins of its members, in their order, and with its worst patterns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from kampong._core.compute import stack
from kampong.kernels.functions import kernel_scores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong._core.compute import Float, Integer, Rows
    from kampong.kernels.functions import Kernel

SMALL_TYPES = (np.uint8, np.int16, np.float32)


@dataclass(frozen=True)
class Arrived:
    """Rows that came to the solver together.

    Attributes
    ----------
    rows : array or sparse matrix of shape (n_rows, n_features)
        The rows, `narrowed`.
    numbers : array of shape (n_rows,)
        The numbers of their patterns among all.
    codes : array of shape (n_rows,)
        Their classes, by number.
    """

    rows: Any
    numbers: Integer
    codes: Integer

    @property
    def size(self) -> int:
        """Return the bytes of it."""
        return size_of(self.rows) + self.numbers.nbytes + self.codes.nbytes


@dataclass(frozen=True)
class Question:
    """A point v of each hull, as a sum of few patterns, and how much is asked about it.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    members : tuple of bytes
        The core set of each problem: a bit for every row that has come.
    alpha : tuple of array
        Its weights, in the order of the rows that have come.
    taken : tuple of tuple
        For each problem the directions that v has no part along: (places among the rows that have come, weights).
    bias : array of shape (n_problems,)
        Added to every kernel product.
    ridge : float
        That of the hulls.
    positive : tuple of int
        The class that each problem sets against the rest.
    batch : tuple of int
        How many patterns outside the core set are wanted at most.
    limits : tuple of float
        Patterns of larger margins are not wanted.
    mask : bytes
        Which patterns to look at, a bit each; empty for all.
    """

    kernel: Kernel
    members: tuple[bytes, ...]
    alpha: tuple[Float, ...]
    taken: tuple[tuple[tuple[Integer, Float], ...], ...]
    bias: Float
    ridge: float
    positive: tuple[int, ...]
    batch: tuple[int, ...]
    limits: tuple[float, ...]
    mask: bytes = b""

    @property
    def size(self) -> int:
        """Return the bytes of what changes from question to question."""
        directions = sum(array.nbytes for several in self.taken for one in several for array in one)
        numbers = self.bias.nbytes + 8 * (len(self.positive) + len(self.batch) + len(self.limits))
        return sum(map(len, self.members)) + sum(a.nbytes for a in self.alpha) + directions + numbers + len(self.mask)


class Sight(NamedTuple):
    """What some parts see of one problem: the least margin, those of their members, and their worst patterns."""

    least: float
    margins: Float
    worst: Integer
    gradients: Float


def size_of(rows: Any) -> int:
    """Return the bytes of rows, dense or sparse."""
    if isinstance(rows, np.ndarray):
        return int(rows.nbytes)
    return int(rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes)


def narrowed(rows: Rows) -> Any:
    """Return rows in the smallest type that holds their numbers exactly, for the way; `gathered` widens them.

    Parameters
    ----------
    rows : array or sparse matrix
        Finite rows.

    Returns
    -------
    array or sparse matrix
        The same numbers: pixels take a byte each.
    """
    values = rows if isinstance(rows, np.ndarray) else rows.data
    for kind in SMALL_TYPES:
        if np.dtype(kind).itemsize >= values.itemsize:
            continue
        with np.errstate(invalid="ignore", over="ignore"):
            if not np.array_equal(values[:8].astype(kind), values[:8]):  # most often the first rows tell
                continue
            small = values.astype(kind)
        if np.array_equal(small, values):
            if isinstance(rows, np.ndarray):
                return small
            return sparse.csr_array((small, rows.indices, rows.indptr), rows.shape)
    return rows


def gathered(arrived: Sequence[Arrived], places: Integer, dtype: Any) -> Rows:
    """Return some of the rows that have come, in the type that the kernel computes with.

    Parameters
    ----------
    arrived : sequence of Arrived
        Rows in the order in which they came.
    places : array of int
        Which of them, in any order.
    dtype : dtype
        The type.

    Returns
    -------
    array or sparse matrix
        The rows.
    """
    starts = np.cumsum([0, *(len(one.numbers) for one in arrived)])
    if not all(isinstance(one.rows, np.ndarray) for one in arrived):
        whole = arrived[0].rows.astype(dtype)
        for one in arrived[1:]:
            whole = stack(whole, one.rows.astype(dtype))
        found: Rows = whole[places]
        return found
    dense = np.empty((len(places), arrived[0].rows.shape[1]), dtype=dtype)
    for one, start in zip(arrived, starts[:-1], strict=True):
        here = np.flatnonzero((places >= start) & (places < start + len(one.numbers)))
        dense[here] = one.rows[places[here] - start]
    return dense


def answer(question: Question, arrived: Sequence[Arrived], X: Rows, codes: Integer, start: int) -> list[Sight]:
    """Return what one part sees: a pure function of it.

    Parameters
    ----------
    question : Question
        What is asked.
    arrived : sequence of Arrived
        The rows that have come to whoever asks.
    X : array or sparse matrix of shape (n_rows, n_features)
        The rows of the part.
    codes : array of shape (n_rows,)
        Their classes, by number.
    start : int
        The number of its first pattern among all.

    Returns
    -------
    list of Sight
        One per problem.
    """
    chosen = np.arange(X.shape[0])
    if question.mask:
        bits = np.unpackbits(np.frombuffer(question.mask, dtype=np.uint8))
        chosen = np.flatnonzero(bits[start : start + X.shape[0]])
        X, codes = X[chosen], codes[chosen]
    numbers = start + chosen
    came = np.concatenate([one.numbers for one in arrived]).astype(np.int64)
    known = np.concatenate([one.codes for one in arrived])
    members = [places_of(bits, len(came)) for bits in question.members]
    weights = np.zeros((len(came), len(members)))
    for p, places in enumerate(members):
        weights[places, p] = np.where(known[places] == question.positive[p], 1.0, -1.0) * question.alpha[p]
        for where, values in question.taken[p]:
            weights[where, p] -= values
    used = np.flatnonzero(weights.any(axis=1))
    used = used[np.argsort(came[used])]
    points = question.kernel.prepare(gathered(arrived, used, X.dtype))
    products = kernel_scores(question.kernel, X, points, weights[used].astype(X.dtype, copy=False))
    sights = []
    for p, (places, positive) in enumerate(zip(members, question.positive, strict=True)):
        signs = np.where(codes == positive, 1.0, -1.0)
        gradient: Float = signs * (products[:, p] + question.bias[p])
        order = np.argsort(came[places])
        own, alpha = came[places][order], question.alpha[p][order]
        inside = np.flatnonzero(np.isin(own, numbers))
        found = np.searchsorted(numbers, own[inside])
        gradient[found] += question.ridge * alpha[inside]
        outside = np.ones(len(gradient), dtype=bool)
        outside[found] = False
        worst = np.flatnonzero(outside & (gradient < question.limits[p]))
        worst = worst[np.argsort(gradient[worst], kind="stable")[: question.batch[p]]]
        least = float(gradient.min(initial=np.inf))
        sights.append(
            Sight(least, gradient[found], numbers[worst].astype(came_type(start + len(codes))), gradient[worst])
        )
    return sights


def came_type(n_samples: int) -> Any:
    """Return the type that holds the numbers of this many patterns."""
    return np.int32 if n_samples < 2**31 else np.int64


def bits_of(places: Integer, count: int) -> bytes:
    """Return a bit for each of `count` places, those given set."""
    bits = np.zeros(count, dtype=bool)
    bits[places] = True
    return np.packbits(bits).tobytes()


def places_of(bits: bytes, count: int) -> Integer:
    """Return the places that are set in `bits_of`."""
    return np.flatnonzero(np.unpackbits(np.frombuffer(bits, dtype=np.uint8), count=count))


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
        One per problem.
    """
    found = []
    for several, most in zip(zip(*sights, strict=True), batch, strict=True):
        worst = np.concatenate([one.worst for one in several])
        gradients = np.concatenate([one.gradients for one in several])
        order = np.argsort(gradients, kind="stable")[:most]
        margins = np.concatenate([one.margins for one in several])
        found.append(Sight(min(one.least for one in several), margins, worst[order], gradients[order]))
    return found
