"""Labels that come late: rows that wait to be learnt, and frozen copies that measure what lateness costs.

With a label delay of N rows, row i is predicted by a model that has learnt rows 0 … i − N − 1, as where labels come
from a laboratory or a customer. At the end of a source all labels have come: the model is then the same as without.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse

from kampong.data.labels import labels_from, labels_state
from kampong.files import CheckpointError, Contents
from kampong.files.container import decode, encode
from kampong.files.contents import flatten
from kampong.streaming.errors import StreamError, UsageError
from kampong.streaming.history.delays import Copying
from kampong.streaming.prediction import Answers, answer, kept_at_end
from kampong.streaming.settings import SETTINGS

if TYPE_CHECKING:
    from kampong._core.compute import Rows
    from kampong.contract import StreamModel
    from kampong.predictor import Predictor
    from kampong.streaming.history.delays import Ahead, Delay, Delays

LONGEST = 1_000_000
"""The longest label delay, in rows."""

MOST = 2**28
"""Bytes that the rows that wait may take."""


def check_delay(delay: int) -> int:
    """Return a label delay that is possible."""
    if isinstance(delay, bool) or not isinstance(delay, int | np.integer) or not 0 <= delay <= LONGEST:
        raise UsageError(
            f"--label-delay must be a whole number of rows from 0 to {LONGEST:,}; got {delay!r}. As many rows wait in "
            "memory and in the model file."
        )
    return int(delay)


class Waiting:
    """Rows that have been predicted, and are learnt when as many more rows as the delay have come.

    Parameters
    ----------
    delay : int
        The delay, in rows.
    """

    def __init__(self, delay: int) -> None:
        self.delay, self._count, self._bytes = delay, 0, 0
        self._parts: deque[tuple[Any, np.ndarray]] = deque()

    def __len__(self) -> int:
        """Return how many rows wait."""
        return self._count

    def labels(self, n: int, following: np.ndarray | None = None) -> np.ndarray:
        """Return the next n labels to learn: those of rows that wait, then those of rows that follow."""
        found, left = [], n
        for _, y in self._parts:
            if left <= 0:
                break
            found.append(y[:left])
            left -= len(y)
        if following is not None and left > 0:
            found.append(following[:left])
        return np.concatenate(found)

    def add(self, X: Rows, y: np.ndarray) -> None:
        """Let rows wait.

        Parameters
        ----------
        X : array or sparse matrix
            The rows.
        y : array
            Their labels.
        """
        self._parts.append((X.copy(), y.copy()))
        self._count += len(y)
        self._bytes += _bytes(X)
        if self._bytes > MOST or (isinstance(X, np.ndarray) and 8 * X.shape[1] * self.delay > MOST):
            raise StreamError(
                f"--label-delay {self.delay:,}: rows like these, of {X.shape[1]:,} columns, would take more than "
                f"{MOST // 2**20} MB while they wait for their labels. Use a shorter delay or fewer columns."
            )

    def take(self, n: int) -> tuple[Rows, np.ndarray]:
        """Return the rows that have waited longest, and their labels; they wait no more."""
        found, left = [], n
        while left:
            X, y = self._parts.popleft()
            self._bytes -= _bytes(X[:left])
            found.append((X[:left], y[:left]))
            if left < len(y):
                self._parts.appendleft((X[left:], y[left:]))
            left -= min(left, len(y))
        self._count -= n
        return _stacked([X for X, _ in found]), np.concatenate([y for _, y in found])

    def widen(self, n_features: int) -> None:
        """Make room for more columns, which are zero in all rows that wait."""
        if self._parts and self._parts[0][0].shape[1] < n_features:
            self._parts = deque((_widened(X, n_features), y) for X, y in self._parts)
            self._bytes = sum(_bytes(X) for X, _ in self._parts)

    def to_state(self) -> dict[str, Any]:
        """Return the rows as bytes."""
        X, y = _stacked([X for X, _ in self._parts]), np.concatenate([y for _, y in self._parts])
        parts: dict[str, Any] = {"X": X.astype(np.float64)}
        if not isinstance(X, np.ndarray):
            kinds = {"data": np.float64, "indices": np.int32, "indptr": np.int32}
            parts = {name: getattr(X, name).astype(kind) for name, kind in kinds.items()}
        return {"rows": packed({**parts, "y": labels_state(y)})}

    @classmethod
    def from_state(cls, contents: Contents, delay: int, n_features: int) -> Self:
        """Return what `to_state` wrote, if it can be of rows so wide."""
        found = cls(delay)
        part = unpacked(contents, "rows")
        y = labels_from(part.part("y"))
        n = found._count = len(y)
        part.require(0 < n <= delay, f"{n} rows wait, and the label delay is {delay}")
        if "X" in part:
            X: Any = part.array("X", np.float64, (n, n_features)).copy()
        else:
            data = part.array("data", np.float64, (None,))
            indices = part.array("indices", np.int32, (len(data),), low=0, high=n_features - 1)
            indptr = part.array("indptr", np.int32, (n + 1,), low=0, high=len(data))
            cuts = indptr[0] == 0 and indptr[-1] == len(data) and bool((np.diff(indptr) >= 0).all())
            part.require(cuts, "indptr does not cut data into rows")
            X = sparse.csr_array((data.copy(), indices.copy(), indptr.copy()), shape=(n, n_features))
        found._parts.append((X, y))
        found._bytes = _bytes(X)
        part.finish()
        contents.finish()
        return found


def answer_late(model: StreamModel, predictor: Predictor | None, X: Rows, shown: np.ndarray) -> Answers:
    """Return what is said of rows that are learnt later; see `prediction.answer`."""
    if not model.follows_drift:
        return answer(model, predictor, X, shown)
    return Answers(*model.answer(X, predictor))


def copy_due(
    delays: Delays,
    model: StreamModel,
    predictor: Predictor | None,
    rows: int,
    late: int = 0,
    ahead: Ahead | None = None,
) -> None:
    """Take the copies that are due.

    Parameters
    ----------
    delays : Delays
        Who asks them.
    model : StreamModel
        The model of the stream.
    predictor : Predictor or None
        The predictor, if the model can be frozen.
    rows : int
        Rows learnt.
    late : int
        How late labels come in any case: shorter delays are not measured.
    ahead : Ahead or None
        Rows at hand that are not learnt, and about which nobody has been asked.
    """
    taken: dict[bool, Copying] = {}  # delays whose copies are due together share one
    copies = []
    for one in delays.due(rows):
        saved = is_solved(one, model)
        if saved not in taken:
            found = model.frozen(kept_at_end(model, predictor, rows) if saved else predictor, saved=saved)
            taken[saved] = Copying(found, found.nbytes if found is not None and model.can.save else 0)
        copies.append((one, Copying(None, 0) if one.delay < late else taken[saved]))
    delays.take_all(copies, rows, ahead)


def is_solved(one: Delay, model: StreamModel) -> bool:
    """Tell whether copies of a delay are solved as for a save: in wide rows that would cost more than the stream."""
    return one.delay >= SETTINGS.saved_delay and model.can.freeze and model.width <= SETTINGS.narrow_columns


def copies_state(delays: Delays) -> dict[str, Any]:
    """Return the copies of all delays as bytes."""
    return {str(one.delay): packed(one.copy.to_state()) for one in delays.each if one.copy is not None}


def take_copies(contents: Contents, delays: Delays, model: StreamModel) -> None:
    """Give the delays back the copies that `copies_state` wrote."""
    for one in delays.each:
        if one.delay in delays.expected:
            one.copy = model.frozen_from(unpacked(contents, str(one.delay)))


def packed(state: dict[str, Any]) -> np.ndarray:
    """Return a state as one array of bytes, with a digest of its own."""
    return np.frombuffer(encode(*flatten(state)), dtype=np.uint8)


def unpacked(contents: Contents, name: str) -> Contents:
    """Return a state that `packed` wrote."""
    data = contents.array(name, np.uint8, (None,)).tobytes()
    try:
        arrays, facts = decode(data)
    except CheckpointError as error:
        contents.refuse(f"{name}: {error}")
    return Contents(arrays, facts, f"the stream, {name}")


def _bytes(X: Any) -> int:
    return int(X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes)


def _stacked(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else sparse.vstack(parts, format="csr")


def _widened(X: Any, n_features: int) -> Any:
    more = n_features - X.shape[1]
    if isinstance(X, np.ndarray):
        return np.pad(X, ((0, 0), (0, more)))
    return sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features))
