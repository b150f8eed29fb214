"""Apply a saved model to a stream: project rows, or predict their classes."""

from __future__ import annotations

import warnings
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong.contract import stream_model
from kampong.files.errors import CriterionWarning
from kampong.streaming.errors import RecordError, SourceError, StreamError, UsageError
from kampong.streaming.model_file import read_model
from kampong.streaming.outputs.appended import DeadLetters
from kampong.streaming.outputs.rows import Output
from kampong.streaming.outputs.targets import check_targets, key_file
from kampong.streaming.prediction import check_classes

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from kampong.files.signing import Key
    from kampong.streaming.columns.memory import Memory
    from kampong.streaming.sources.source import Source, Stream


@dataclass
class Applied:
    """How far it has come: records read, good ones written, dead letters, missing numbers filled in, unknown keys."""

    records: int = 0
    rows: int = 0
    dead: int = 0
    filled: int = 0
    unknown: int = 0


def apply(
    source: Source,
    model_file: str,
    what: str,
    *,
    out: str = "-",
    dead_letters: str = "",
    strict: bool = False,
    probabilities: bool | str = False,
    watch: Callable[[Applied], None] | None = None,
    stop: threading.Event | None = None,
    key: Key = None,
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
    probabilities : bool or {"best", "all"}
        Whether to add the probability of the predicted class, or of every class.
    watch : callable, optional
        Called after each batch.
    stop : threading.Event, optional
        Set it to stop after the current batch.
    key : bytes, str or path, optional
        The key of the model file, or the file that holds it, where model files are signed.

    Returns
    -------
    Applied
        Counters.
    """
    if probabilities not in (False, True, "", "best", "all"):
        raise UsageError(f"--probabilities is best, for the predicted class, or all; got {probabilities!r}.")
    inputs = {**source.inputs(), "the model": [model_file], **key_file(key)}
    check_targets(inputs, {"--out": out, "--dead-letters": dead_letters}, source.endings())
    model, state, _ = read_model(model_file, key=key)
    learnt = stream_model(model)
    if not learnt.fitted:
        raise StreamError(f"{model_file}: this model has learnt nothing yet. Learn first.")
    if not (learnt.can.transform if what == "project" else learnt.can.predict):
        raise StreamError(f"{model_file}: a {type(model).__name__} cannot {what}. Learn with another method for that.")
    check_classes(learnt, model_file)
    if state is None:  # a model that no stream has learnt knows no means for what is missing
        source = replace(source, layout=replace(source.layout, missing="dead"))
    stream = source.open(schema=None if state is None else state.schema, apply=True, stop=stop)
    with closing(stream), warnings.catch_warnings():
        warnings.simplefilter("ignore", CriterionWarning)  # said when the model was learnt
        memory = None if state is None else state.memory
        return _apply(stream, source, model, memory, what, out, dead_letters, strict, probabilities, watch, stop)


def _apply(
    stream: Stream,
    source: Source,
    model: Any,
    memory: Memory | None,
    what: str,
    out: str,
    dead_letters: str,
    strict: bool,
    probabilities: bool | str,
    watch: Callable[[Applied], None] | None,
    stop: threading.Event | None,
) -> Applied:
    width = stream.schema.width if memory is None else memory.width
    if width != model.n_features_in_:
        raise SourceError(
            f"{source.path}: {width:,} features, where the model has {model.n_features_in_:,}. Name the "
            "label with --label, and leave out other columns with --drop."
        )
    more = _chances(model) if probabilities == "all" else ("probability",) if probabilities else ()
    columns: tuple[str, ...] = ("row", "predicted", *more)
    if what == "project":
        columns = ("row", *(f"z{i + 1}" for i in range(len(model.get_feature_names_out()))))
    done = Applied()
    with closing(Output(out, columns)) as output, closing(DeadLetters(dead_letters)) as letters:
        for batch in stream:
            if batch.dead and strict:
                letter = batch.dead[0]
                raise RecordError(f"{source.path}: line {letter.line:,} (offset {letter.offset:,}): {letter.reason}.")
            letters.add(batch.dead)
            if batch.rows:
                batch = batch if memory is None else memory.apply(batch)
                done.filled += batch.filled
                values, points = _results(model, batch.X, what, probabilities)
                output.add(done.records + batch.good + 1, values, points)
            done.records, done.rows = done.records + batch.records, done.rows + batch.rows
            done.dead, done.unknown = done.dead + len(batch.dead), done.unknown + batch.unknown
            if watch is not None:
                watch(done)
            if stop is not None and stop.is_set():
                break
        output.commit()
        letters.commit()
    return done


def _chances(model: Any) -> tuple[str, ...]:
    """Return the names of the columns that hold the probability of each class."""
    return tuple(f"probability of {label}" for label in model.classes_.tolist())


def _results(model: Any, X: Any, what: str, probabilities: bool | str) -> tuple[dict[str, Any], Any]:
    if what == "project":
        return {}, model.transform(X)
    if not probabilities:
        return {"predicted": model.predict(X)}, None
    chances = model.predict_proba(X)
    best = np.argmax(chances, axis=1)
    values = {"predicted": model.classes_[best]}
    if probabilities == "all":
        return values | dict(zip(_chances(model), chances.T, strict=True)), None
    return values | {"probability": chances[np.arange(len(best)), best]}, None
