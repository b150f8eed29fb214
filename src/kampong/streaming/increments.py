"""A saved model that learns further rows from no source: batch by batch, as a stream would have learnt them.

What a run needs to go on is kept valid: `kampong learn` goes on with other files afterwards, and `inspect` shows the
rows that came this way. The same batches in the same order give the same model, whenever it was saved in between. Two
things are left to runs: landmarks are not placed again, and nothing is solved in the background.
"""

from __future__ import annotations

import copy
import time
import warnings
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kampong.contract import stream_model
from kampong.files import pack
from kampong.files.model_errors import CriterionWarning
from kampong.streaming import formats, sources
from kampong.streaming.errors import StreamError
from kampong.streaming.history.history import History
from kampong.streaming.inspection import merge_states
from kampong.streaming.learner import Learner
from kampong.streaming.model_file import JOURNAL, read_model_bytes, with_stream
from kampong.streaming.prediction import check_learns, eigenvalues_of, settle, together
from kampong.streaming.sources.learnt import Fingerprint
from kampong.streaming.unlearn_records import HISTORY, check_can_unlearn, take_batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np

    from kampong._core.compute import Rows
    from kampong.files.signing import Key
    from kampong.predictor import Predictor
    from kampong.statistics.receipt import Receipt
    from kampong.streaming.columns.records import Batch
    from kampong.streaming.model_file import Course, StreamState

SERVED = "kampong serve"
"""The name under which a model remembers the rows that it has learnt from requests."""


class Increments:
    """A model, and what is known of its stream, while both learn.

    Parameters
    ----------
    name : str
        What messages call the model.
    estimator : estimator
        The model; this object changes it.
    state : StreamState or None
        What is known of its stream, where a stream has learnt it.
    """

    def __init__(self, name: str, estimator: Any, state: StreamState | None) -> None:
        self.name = name
        self._go_on(estimator, state)

    def _go_on(self, estimator: Any, state: StreamState | None) -> None:
        """Go on with an estimator, and with what is known of its stream."""
        self.state, self.model = state, stream_model(estimator)
        self.learner: Learner | None = None
        if state is not None:
            course = state.course
            self.learner = (
                Learner(estimator, state.counters, History(), state.memory, beside=False)
                if course is None
                else Learner(
                    estimator,
                    state.counters,
                    course.history,
                    state.memory,
                    predictor=course.predictor,
                    rejected=course.rejected,
                    beside=False,
                )
            )

    @property
    def rows(self) -> int:
        """The rows learnt so far, those that were taken out again included."""
        return int(self.model.read("n_samples_seen_") or 0) if self.state is None else self.state.counters.rows

    def check(self) -> None:
        """Refuse a model that cannot go on to learn."""
        check_learns(self.model, self.name)
        state = self.state
        if not self.model.fitted:
            raise StreamError(f"{self.name}: this model has learnt nothing yet. Learn first.")
        if state is not None and state.course is not None and state.course.options.label_delay:
            raise StreamError(
                f"{self.name}: this model was learnt with --label-delay, so its rows wait for those that follow, and "
                "a request could not say that its rows are learnt. Learn without --label-delay to serve with --learn."
            )

    def learn(self, batch: Batch) -> int:
        """Learn the rows of a batch, all of which are good; an error leaves this object unusable.

        Parameters
        ----------
        batch : Batch
            Rows with labels, as a format has parsed them.

        Returns
        -------
        int
            How many of them were predicted rightly before they were learnt.
        """
        with said_before():
            return self._learn(batch)

    def _learn(self, batch: Batch) -> int:
        """Learn the rows of a batch."""
        started, state, learner = time.monotonic(), self.state, self.learner
        if state is None or learner is None:
            self.model.learn(*_labelled(batch))
            return 0
        counters, right = learner.counters, learner.counters.correct
        batch = learner.remember(batch)
        if state.course is None:  # merged: what a stream predicts with is not kept
            self.model.learn(*_labelled(batch))
            counters.rows += batch.rows
            counters.records += batch.records
            return 0
        self._check_classes(learner.known, state.course)
        state.course.coming = None
        predicted = together([(rows.stop - rows.start, one._replace(points=None)) for rows, one in learner.take(batch)])
        self._note(batch, predicted.predicted, state.course, time.monotonic() - started)
        return counters.correct - right

    def unlearn(self, batch: Batch) -> Receipt:
        """Take the rows of a batch out again; on an error nothing has changed.

        Parameters
        ----------
        batch : Batch
            Rows with labels, as a format has parsed them.

        Returns
        -------
        Receipt
            What was taken out.
        """
        check_can_unlearn(self.name, self.model, self.state)
        changed = stream_model(copy.deepcopy(self.model.estimator))
        with said_before():
            receipt = take_batch(self.name, changed, self.state, batch)
        if self.state is not None:
            receipt = replace(receipt, remarks=(*receipt.remarks, HISTORY))
        if self.state is not None and self.state.course is not None:
            self.state.course.forget_rows()
        self._go_on(changed.estimator, self.state)
        return receipt

    def merge(self, data: bytes, *, key: Key = None) -> int:
        """Merge with the model in the bytes of a model file; on an error nothing has changed.

        Parameters
        ----------
        data : bytes
            The model file.
        key : bytes, str or path, optional
            Its key, or the file that holds it, where model files are signed.

        Returns
        -------
        int
            The rows that the other model has learnt.
        """
        other = read_model_bytes(data, "the model that was sent", key=key)
        mine = copy.deepcopy((self.model.estimator, self.state))
        theirs = Increments("the model that was sent", *other).rows
        self._go_on(*merge_states([mine, other], [self.name, "the model that was sent"]))
        return theirs

    def copy(self) -> Increments:
        """Return a copy that further rows do not change."""
        return copy.deepcopy(self)

    def settle(self) -> None:
        """Solve, so that the model answers at once, as it would after the end of a run."""
        with said_before():
            settle(self.model, self.predictor, self.rows)

    def packed(self, journal: Mapping[str, Any] | None = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return what `write_model` takes.

        Parameters
        ----------
        journal : mapping, optional
            The journal of which the model holds a part, and how much of it.

        Returns
        -------
        arrays : dict of str to array
            Those of the model, and of its stream.
        facts : dict of str to JSON
            The same, as plain values.
        """
        if self.state is None:
            arrays, facts = pack(self.model.estimator)
        else:
            if self.state.course is not None:
                self.state.course.predictor = self.predictor
            arrays, facts = with_stream(self.model.estimator, self.state)
        return arrays, facts if journal is None else {**facts, JOURNAL: dict(journal)}

    @property
    def predictor(self) -> Predictor | None:
        """The predictor, if the model can be frozen and its stream is known."""
        return None if self.learner is None else self.learner.predictor

    # How.

    def _check_classes(self, known: set[Any], course: Course) -> None:
        """Refuse more classes than a stream may have."""
        if len(known) > course.options.max_classes:
            raise StreamError(
                f"{self.name}: with these rows there would be {len(known):,} classes, more than the "
                f"{course.options.max_classes:,} that --max-classes allowed when the model was learnt. Is "
                "the right column sent as the label?"
            )

    def _note(self, batch: Batch, predicted: np.ndarray, course: Course, seconds: float) -> None:
        """Add a batch to the history, and its rows to the place in the source."""
        assert self.state is not None
        course.history.observe(
            _labelled(batch)[1], predicted, seconds=seconds, eigenvalues=eigenvalues_of(self.model, self.predictor)
        )
        if course.place is not None:
            kind, source_format = sources.saved_kind(course.source), formats.get(self.state.schema.format)
            place: Any = kind.place_type(source_format)(**course.place)
            course.place = place.with_more(batch.rows).to_state()
        if self.state.finished:
            self._note_source()

    def _note_source(self) -> None:
        """Let the sources of a finished run hold all its rows: those of requests are one source."""
        assert self.state is not None
        assert self.state.course is not None
        learnt, counters = self.state.course.learnt, self.state.counters
        last = learnt.sources[-1] if learnt.sources else None
        if last is None or last.name != SERVED:
            learnt.add(SERVED, Fingerprint(), counters.arrived, counters.dead)
            return
        learnt.sources = [*learnt.sources[:-1], replace(last, rows=last.rows + counters.arrived - learnt.rows)]
        learnt.rows = counters.arrived


@contextmanager
def said_before() -> Iterator[None]:
    """Silence what was said when the model was learnt, and what scikit-learn suspects of rows that come as arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CriterionWarning)
        for text in ("The number of unique classes", "X does not have valid feature names"):
            warnings.filterwarnings("ignore", text, UserWarning)
        yield


def _labelled(batch: Batch) -> tuple[Rows, np.ndarray]:
    """Return the rows of a batch and their labels."""
    assert batch.X is not None
    assert batch.y is not None
    return batch.X, batch.y
