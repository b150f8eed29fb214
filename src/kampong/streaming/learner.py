"""How a stream is learnt, batch by batch: predict rows, learn them, and renew the predictor where the schedule says so.

`learn` and the server use the same learner, so the same rows in the same order give the same model either way.
"""

from __future__ import annotations

import warnings
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong._core.compute import available_threads, beside
from kampong._core.freed import give_back
from kampong.contract import Pauses, stream_model
from kampong.streaming.errors import StreamError
from kampong.streaming.history.delays import Ahead, pauses
from kampong.streaming.history.history import candidates
from kampong.streaming.late import Waiting, answer_late, copy_due, is_solved
from kampong.streaming.prediction import (
    Answers,
    answer,
    classes_present,
    half_life_of,
    kept_choice,
    placed_again,
    renewed,
)
from kampong.streaming.schedule import Schedule, next_placing
from kampong.streaming.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kampong._core.compute import Float, Rows
    from kampong.contract import StreamModel
    from kampong.predictor import Predictor
    from kampong.streaming.columns.column_memory import Memory
    from kampong.streaming.columns.records import Batch
    from kampong.streaming.history.delays import Delay
    from kampong.streaming.history.history import History
    from kampong.streaming.history.rejected import Rejected
    from kampong.streaming.model_file import Counters


class Coming:
    """A predictor that will take its place.

    Parameters
    ----------
    made : Predictor, Future or None
        The predictor, or what will be it.
    rows : int
        The rows that it knows.
    """

    def __init__(self, made: Predictor | Future[Predictor | None] | None, rows: int) -> None:
        self._made, self._rows = made, rows

    @property
    def due(self) -> int:
        """The row number at which it takes its place."""
        return 2 * self._rows

    def result(self, n_features: int) -> Predictor | None:
        """Return the predictor for rows of a width, when it is solved."""
        found = self._made.result() if isinstance(self._made, Future) else self._made
        return None if found is None else found.widened(n_features)


def begin(model: StreamModel, predictor: Predictor | None, schedule: Schedule, rows: int) -> Coming | None:
    """Begin to solve in the background, if that is worth it.

    Parameters
    ----------
    model : StreamModel
        The model of the stream; later changes do not matter.
    predictor : Predictor or None
        What predicted so far.
    schedule : Schedule
        When what is done.
    rows : int
        Rows learnt.

    Returns
    -------
    Coming or None
        None where nothing is due, or where a solve costs less than to hand it over: what would take its place among the
        early rows is solved at once.
    """
    if 2 * rows < SETTINGS.early_rows or not (schedule.rare and schedule.renews(rows)):
        return None
    # What is kept is decided before further rows come, as they change what says so.
    frozen, keep = model.copy(), kept_choice(model, predictor, schedule, rows)

    def work() -> Predictor | None:
        return frozen.predictor(keep, provisional=not schedule.is_full(rows)) or predictor

    return Coming(work() if available_threads() == 1 else beside(work), rows)


class RefusedRowsError(ValueError):
    """The model has refused rows; it is what it was before them."""


class Learner:
    """A model while it learns a stream, and its predictor.

    Parameters
    ----------
    estimator : estimator
        What learns; it is changed.
    counters : Counters
        Records, rows and right predictions so far; they are counted on.
    history : History
        The course of the stream so far; delays and choices are added here, batches by the caller.
    memory : Memory or None
        What is remembered of the columns; None until the columns are known.
    predictor : Predictor or None
        The predictor, if the model can be frozen.
    waiting : Waiting or None
        Rows that wait for their labels.
    coming : Predictor or None
        A predictor that was solved in the background, and takes its place when the rows have doubled.
    rejected : Rejected or None
        What is known of rows that look like no class, where they are asked for.
    beside : bool
        Whether predictors may be solved in the background, and landmarks placed again.

    Attributes
    ----------
    known : set
        The classes that have come.
    declared : tuple
        The classes that the model is told of before its first row.
    points : bool
        Whether coordinates are wanted of a model that follows drift, which needs none to predict.
    """

    def __init__(
        self,
        estimator: Any,
        counters: Counters,
        history: History,
        memory: Memory | None = None,
        *,
        predictor: Predictor | None = None,
        waiting: Waiting | None = None,
        coming: Predictor | None = None,
        rejected: Rejected | None = None,
        beside: bool = True,
    ) -> None:
        self.model = stream_model(estimator)
        self.counters, self.history, self.memory = counters, history, memory
        self.predictor, self.rejected, self.beside = predictor, rejected, beside
        self.coming = None if coming is None else Coming(coming, coming.n_rows)
        self.waiting = Waiting(0) if waiting is None else waiting
        self.known: set[Any] = set(self.model.classes or ())
        self.declared: tuple[Any, ...] = ()
        self.points = False

    def remember(self, batch: Batch) -> Batch:
        """Learn the columns of a batch, make room for new ones, and return the batch as rows for the model."""
        assert self.memory is not None
        batch = self.memory.take(batch)
        self.counters.filled += batch.filled
        self.counters.unknown += batch.unknown
        width = self.memory.width
        if self.counters.rows and width > self.model.estimator.n_features_in_:
            self.model.move_columns(np.arange(self.model.estimator.n_features_in_), width)
            if self.predictor is not None:
                self.predictor = self.predictor.widened(width)
            self.history.delays.widen(width)
            give_back()  # the narrower arrays
        self.waiting.widen(width)
        if batch.rows and batch.y is not None:
            self.known.update(np.unique(batch.y).tolist())
            self.counters.turns += int(np.count_nonzero(batch.y[1:] != batch.y[:-1]))
            self.counters.pairs += batch.rows - 1
        return batch

    def take(self, batch: Batch) -> Iterator[tuple[slice, Answers]]:
        """Predict and learn the rows of a batch that was remembered, piece by piece.

        Parameters
        ----------
        batch : Batch
            What `remember` returned.

        Yields
        ------
        rows : slice
            Rows that were predicted together, before any of them was learnt.
        answers : Answers
            What was said of them.
        """
        X, y, start, counters = batch.X, batch.y, 0, self.counters
        if batch.rows and X is not None and y is not None:
            shown = candidates(batch.rows)
            while start < batch.rows:
                stop = start + self._together(y[start:])
                mine = shown[np.searchsorted(shown, start) : np.searchsorted(shown, stop)] - start
                yield slice(start, stop), self._predict_then_learn(X[start:stop], y[start:stop], mine)
                start = stop
        counters.records += batch.records
        counters.dead += len(batch.dead)

    def learn_waiting(self, rows: int) -> None:
        """Learn rows whose labels have come."""
        while rows > 0:
            some = self._piece(self.waiting.labels(rows))
            X, y = self.waiting.take(some)
            self.counters.waiting -= some
            self._learn_piece(X, y, np.arange(0))
            rows -= some

    def arrive(self) -> None:
        """Let a predictor that was solved in the background take its place, unless a newer one has."""
        found, self.coming = self.solved_beside(), None
        if found is not None and (self.predictor is None or found.n_rows > self.predictor.n_rows):
            self.predictor = found

    def solved_beside(self) -> Predictor | None:
        """Return the predictor that waits to take its place, when it is solved."""
        return None if self.coming is None else self.coming.result(self.model.estimator.n_features_in_)

    # How.

    def _together(self, labels: np.ndarray) -> int:
        """Return how many of the rows that come are predicted together."""
        room = self.waiting.delay - len(self.waiting)
        if room > 0:  # nothing is learnt before this many labels have come
            return min(room, len(labels))
        if not self.waiting.delay:
            return self._piece(labels)
        row_by_row = self.model.follows_drift or not self.model.can.freeze
        return 1 if row_by_row else self._piece(self.waiting.labels(len(labels), labels))

    def _piece(self, labels: np.ndarray) -> int:
        """Return how many of the next rows to learn are predicted before any of them is learnt."""
        model, rows = self.model, self.counters.rows
        if not model.can.freeze:
            return len(labels)  # such a model learns a batch at a time
        if not rows:  # landmarks are placed with the first rows
            return len(labels) if model.can.landmarks else 1
        ends = [rows + Schedule.of(model).piece(rows, labels, classes_present(model))]
        ends += [one.due for one in self.history.delays.each if not self._asked_inside(one)]
        if self.coming is not None:
            ends.append(self.coming.due)
        if self.beside and model.can.landmarks:
            ends.append(next_placing(rows))
        if self.rejected is not None:
            ends.append(rows + self.rejected.room(rows))
        return min(ends) - rows

    def _predict_then_learn(self, X: Rows, y: np.ndarray, shown: np.ndarray) -> Answers:
        """Predict rows, count what is right, and learn as many rows whose labels have come."""
        counters, delay = self.counters, self.waiting.delay
        self.history.delays.score(X, y, counters.arrived)
        if not delay:
            said = self._learn_piece(X, y, shown)
        else:
            said = answer_late(self.model, self.predictor, X, shown) if counters.rows else Answers()
            if said.labels is None:
                said = said._replace(labels=self._only_class(len(y)))
            self.waiting.add(X, y)
            counters.waiting += len(y)
            self.learn_waiting(len(self.waiting) - delay)
        if said.labels is not None:
            counters.scored += len(y)
            counters.correct += int(np.count_nonzero(said.labels == y))
        return said

    def _learn_piece(self, X: Rows, y: np.ndarray, shown: np.ndarray) -> Answers:
        """Predict a piece, learn it, and renew the predictor where it is due; return what was said of the rows."""
        said = self._ask(X, shown) if self.counters.rows else Answers()
        only = self._only_class(len(y)) if self.predictor is None else None
        if self.rejected is not None:
            self.rejected.look(X, y, self.counters.rows)
        found = self._learn(X, y)
        if found is not None:
            said = said._replace(labels=found[0], chances=found[1])
        elif said.labels is None:
            said = said._replace(labels=only)
        self.counters.rows += len(y)
        if self.model.can.freeze:
            before = self.predictor
            self._renew()
            if self.beside:
                self.predictor = placed_again(self.model, self.counters.rows) or self.predictor
            if self.predictor is not None and self.predictor is not before:
                self._note_choices(self.predictor)
        if self.rejected is not None:
            self._renew_known(self.rejected)
        copy_due(self.history.delays, self.model, self.predictor, self.counters.rows, self.waiting.delay)
        return said

    def _ask(self, X: Rows, shown: np.ndarray) -> Answers:
        """Return what the model says of rows; one that follows drift says their classes when it learns them."""
        if not self.model.follows_drift:
            return answer(self.model, self.predictor, X, shown)
        return Answers(self.predictor.points(X) if self.points and self.predictor is not None else None)

    def _only_class(self, rows: int) -> np.ndarray | None:
        """Return a class for each row while it is the only one that has come, None before and after."""
        classes = self.model.classes if self.counters.rows else None
        if classes and self.model.can.freeze:  # some may have been declared, and not have come
            classes = list(classes_present(self.model))
        return np.array(classes * rows) if classes and len(classes) == 1 else None

    def _learn(self, X: Rows, y: np.ndarray) -> tuple[np.ndarray, Float] | None:
        """Let the model learn.

        A model that follows drift predicts each row itself, with all rows before it; return classes and probabilities.
        """
        with warnings.catch_warnings():
            # scikit-learn takes a small batch of many classes for a regression, and warns.
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            try:
                declared = () if self.counters.rows else self.declared
                return self.model.predict_then_learn(X, y, self.predictor, declared, self._pauses(X, y))
            except ValueError as error:
                raise RefusedRowsError(error) from None

    def _asked_inside(self, one: Delay) -> bool:
        """Tell whether copies for late labels are taken inside a piece, as none is solved: pieces are longer then."""
        return self.model.follows_drift and not self.waiting.delay and not is_solved(one, self.model)

    def _pauses(self, X: Rows, y: np.ndarray) -> Pauses | None:
        """Return where a model pauses while it learns a piece, and what is done there; None for nowhere."""
        before, delays = self.counters.rows, self.history.delays
        places = pauses([one for one in delays.each if self._asked_inside(one)], before, len(y))
        if not places:
            return None

        def at(place: int) -> None:
            ahead = Ahead(X[place:], y[place:], before + place)
            copy_due(delays, self.model, self.predictor, ahead.first, ahead=ahead)

        return Pauses(places, at)

    def _renew(self) -> None:
        """Renew the predictor where it is due: at once, or in the background if something else predicts."""
        rows, schedule = self.counters.rows, Schedule.of(self.model)
        if self.coming is not None and rows >= self.coming.due:
            self.arrive()
        coming = begin(self.model, self.predictor, schedule, rows) if self.beside else None
        if coming is None:
            self.predictor = renewed(self.model, self.predictor, schedule, rows)
        else:
            self.coming = coming

    def _renew_known(self, rejected: Rejected) -> None:
        """Find known rows again where that is due."""
        try:
            rejected.renew(self.model, self.predictor, self.counters.rows)
        except ValueError as error:
            raise StreamError(f"--reject: {error}") from None

    def _note_choices(self, predictor: Predictor) -> None:
        """Tell the history what is in use now."""
        kind, head, chosen = predictor.criterion, predictor.head.name, predictor.choice is not None
        self.history.choices.note(
            self.counters.rows, kind.parameter, kind.value, head, half_life_of(self.model), exactly=chosen
        )
