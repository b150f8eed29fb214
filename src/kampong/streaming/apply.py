"""Apply a saved model to a stream: project rows, or predict their classes."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong.checkpoint import CheckpointError, read
from kampong.models import unpack
from kampong.streaming.dead_letters import DeadLetters
from kampong.streaming.errors import RecordError, SourceError, StreamError
from kampong.streaming.outputs import Output
from kampong.streaming.schema import Schema

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from kampong.streaming.sources import Source, Stream


@dataclass
class Applied:
    """How far it has come: records read, good ones written, dead letters."""

    records: int = 0
    rows: int = 0
    dead: int = 0


def load_with_schema(model_file: str) -> tuple[Any, Schema | None, dict[str, Any]]:
    """Return the model of a file, the columns it was learnt from where a stream left it, and all facts of the file."""
    try:
        arrays, facts = read(model_file)
    except OSError as error:
        raise CheckpointError(f"{model_file}: {error.strerror}. Give a model that was learnt or saved.") from None
    try:
        model = unpack(arrays, facts)
    except CheckpointError as error:
        raise CheckpointError(f"{model_file}: {error}") from None
    state = facts.get("stream")
    return model, Schema.from_json(state["schema"]) if isinstance(state, dict) else None, facts


def apply(
    source: Source,
    model_file: str,
    what: str,
    *,
    out: str = "-",
    dead_letters: str = "",
    strict: bool = False,
    probabilities: bool = False,
    watch: Callable[[Applied], None] | None = None,
    stop: threading.Event | None = None,
) -> Applied:
    """Write the coordinates or the predicted classes of the records of a source.

    Parameters
    ----------
    source : Source
        The records; columns are matched by name, and a label is ignored.
    model_file : str
        A model that a stream, or `save`, has written.
    what : str
        "project" or "predict".
    out : str
        Where to write; "-" is stdout.
    dead_letters : str
        Where bad records go; they are counted in any case.
    strict : bool
        Stop at the first bad record.
    probabilities : bool
        Whether to add the probability of the predicted class.
    watch : callable, optional
        Called after each batch.
    stop : threading.Event, optional
        Set it to stop after the batch at hand.

    Returns
    -------
    Applied
        Counters.
    """
    model, schema, _ = load_with_schema(model_file)
    if not model.__sklearn_is_fitted__():
        raise StreamError(f"{model_file}: this model has learnt nothing yet. Learn first.")
    stream = source.open(schema=schema, apply=True, stop=stop)
    with closing(stream):
        return _apply(stream, source, model, what, out, dead_letters, strict, probabilities, watch, stop)


def _apply(
    stream: Stream,
    source: Source,
    model: Any,
    what: str,
    out: str,
    dead_letters: str,
    strict: bool,
    probabilities: bool,
    watch: Callable[[Applied], None] | None,
    stop: threading.Event | None,
) -> Applied:
    if stream.schema.width != model.n_features_in_:
        raise SourceError(
            f"{source.path}: {stream.schema.width:,} features, where the model has {model.n_features_in_:,}. Name the "
            "label with --label, and leave out other columns with --drop."
        )
    columns: tuple[str, ...] = ("row", "predicted", *(("probability",) if probabilities else ()))
    if what == "project":
        columns = ("row", *(f"z{i + 1}" for i in range(len(model.components_))))
    done = Applied()
    with closing(Output(out, columns)) as output, closing(DeadLetters(dead_letters)) as letters:
        for batch in stream:
            if batch.dead and strict:
                letter = batch.dead[0]
                raise RecordError(f"{source.path}: line {letter.line:,} (offset {letter.offset:,}): {letter.reason}.")
            letters.add(batch.dead)
            if batch.rows:
                values, points = _results(model, batch.X, what, probabilities)
                output.add(done.records + batch.good + 1, values, points)
            done.records, done.rows = done.records + batch.records, done.rows + batch.rows
            done.dead += len(batch.dead)
            if watch is not None:
                watch(done)
            if stop is not None and stop.is_set():
                break
        output.commit()
        letters.commit()
    return done


def _results(model: Any, X: Any, what: str, probabilities: bool) -> tuple[dict[str, Any], Any]:
    if what == "project":
        return {}, model.transform(X)
    if not probabilities:
        return {"predicted": model.predict(X)}, None
    chances = model.predict_proba(X)
    best = np.argmax(chances, axis=1)
    return {"predicted": model.classes_[best], "probability": chances[np.arange(len(best)), best]}, None
