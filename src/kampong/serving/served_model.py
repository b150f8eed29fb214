"""A model that answers requests: a frozen copy, replaced as a whole when the model has changed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kampong.contract import stream_model
from kampong.serving.errors_of_requests import RefusedError
from kampong.serving.request_rows import RowReader, schema_of
from kampong.streaming.errors import StreamError
from kampong.streaming.increments import Increments
from kampong.streaming.model_file import JOURNAL, read_model

if TYPE_CHECKING:
    from kampong._core.compute import Float
    from kampong.contract import StreamModel
    from kampong.files.signing import Key
    from kampong.streaming.columns.column_memory import Memory
    from kampong.streaming.columns.records import Batch


class Answer(NamedTuple):
    """What is predicted of some rows: labels, and where they were asked for, probabilities and sets of classes."""

    labels: np.ndarray
    chances: Float | None = None
    sets: np.ndarray | None = None


@dataclass(frozen=True)
class Snapshot:
    """A model that nothing learns any more, with what is needed to read rows for it.

    Attributes
    ----------
    name : str
        The name of the model.
    model : StreamModel
        The model, solved.
    reader : RowReader
        What reads the rows of a request.
    memory : Memory or None
        What the stream remembers of its columns.
    version : int
        The number of the last request that the model has learnt; of a model that does not learn, how often its file
        was read.
    rows : int
        The rows that it has learnt.
    """

    name: str
    model: StreamModel
    reader: RowReader
    memory: Memory | None
    version: int
    rows: int

    @classmethod
    def of(cls, name: str, learnt: Increments, version: int, reader: RowReader | None = None) -> Snapshot:
        """Return a model as it answers requests; nothing else may change it from now on."""
        found = reader or RowReader(schema_of(learnt.name, learnt.model, learnt.state))
        memory = None if learnt.state is None else learnt.state.memory
        return cls(name, learnt.model, found, memory, version, learnt.rows)

    @cached_property
    def classes(self) -> np.ndarray:
        """The classes, in the order of the probabilities."""
        return np.asarray(self.model.estimator.classes_)

    @cached_property
    def known(self) -> int:
        """How many classes it knows."""
        return len(self.model.classes or ())

    @cached_property
    def has_chances(self) -> bool:
        """Whether the model has probabilities."""
        return self.model.read("predict_proba") is not None

    def predict(self, batch: Batch, *, chances: bool = False, coverage: float | None = None) -> Answer:
        """Return what the model says of rows, as `kampong predict` would."""
        estimator = self.model.estimator
        if self.known < 2:
            raise RefusedError(
                409, f"{self.name}: this model knows fewer than two classes, so nothing can be predicted. Learn first."
            )
        if chances and not self.has_chances:
            raise RefusedError(400, f"{self.name}: a {type(estimator).__name__} has no probabilities.")
        rows = batch if self.memory is None else self.memory.apply(batch)
        try:
            sets = None if coverage is None else self._sets(rows.X, coverage)
            if not chances:
                return Answer(estimator.predict(rows.X), None, sets)
            found = estimator.predict_proba(rows.X)
        except RefusedError:
            raise
        except ValueError as error:
            raise RefusedError(400, f"{self.name}: {error}") from None
        return Answer(self.classes[np.argmax(found, axis=1)], found, sets)

    def _sets(self, X: Any, coverage: float) -> np.ndarray:
        if not 0.0 <= coverage <= 1.0:
            raise RefusedError(400, f"set is the share of sets that are right, from 0 to 1; got {coverage:g}.")
        predict_set = self.model.read("predict_set")
        if predict_set is None:
            name = type(self.model.estimator).__name__
            raise RefusedError(400, f"{self.name}: a {name} has no prediction sets. FisherDiscriminant has them.")
        found: np.ndarray = predict_set(X, 1.0 - coverage)
        return found


def read_increments(path: str, key: Key) -> tuple[Increments, dict[str, Any] | None]:
    """Return the model of a file, checked for serving, and what the file says of a journal.

    Parameters
    ----------
    path : str
        The model file.
    key : bytes, str or path, optional
        Its key, or the file that holds it, where model files are signed.
    """
    estimator, state, facts = read_model(path, key=key)
    model = stream_model(estimator)
    if not model.fitted:
        raise StreamError(f"{path}: this model has learnt nothing yet. Learn first.")
    if not model.can.predict or model.classes is None:
        raise StreamError(f"{path}: a {type(estimator).__name__} cannot predict. Learn with another method for that.")
    if getattr(model.statistics, "multilabel", False):
        raise StreamError(f"{path}: this model gives rows several labels, which requests have no form for.")
    return Increments(path, estimator, state), facts.get(JOURNAL)


class FileModel:
    """A model that is served as its file has it, and is read again when the file is replaced.

    Parameters
    ----------
    name : str
        What requests call it.
    path : str
        The model file.
    key : bytes, str or path, optional
        Its key, or the file that holds it, where model files are signed.
    """

    learner: Any = None

    def __init__(self, name: str, path: str, key: Key = None) -> None:
        self.name, self.path, self._key = name, path, key
        self._seen = self._state()
        self.snapshot = self._read(1)

    def reload(self) -> bool:
        """Read the file again if it was replaced; return whether it was.

        Returns
        -------
        bool
            Whether there is a new snapshot. A file that cannot be read raises an error once, and the old one answers.
        """
        now = self._state()
        if now == self._seen or now is None:
            return False
        self._seen = now
        self.snapshot = self._read(self.snapshot.version + 1)
        return True

    def _read(self, version: int) -> Snapshot:
        learnt, _ = read_increments(self.path, self._key)
        learnt.settle()
        return Snapshot.of(self.name, learnt, version)

    def _state(self) -> tuple[int, int, int] | None:
        try:
            found = Path(self.path).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
