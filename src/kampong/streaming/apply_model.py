"""Apply a saved model to a stream: project rows, or predict their classes."""

from __future__ import annotations

import warnings
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong.contract import stream_model
from kampong.files.model_errors import CriterionWarning
from kampong.streaming.errors import RecordError, SourceError, StreamError, UsageError
from kampong.streaming.history.rejected import Rejected, dense_rows, names_of, told
from kampong.streaming.model_file import read_model
from kampong.streaming.outputs.rows import dead_letters as letters_to
from kampong.streaming.outputs.rows import output as rows_to
from kampong.streaming.outputs.targets import check_targets, key_file
from kampong.streaming.prediction import check_classes
from kampong.streaming.sources import scheme_of

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from kampong.contract import StreamModel
    from kampong.files.signing import Key
    from kampong.streaming.columns.column_memory import Memory
    from kampong.streaming.sources.source import Source, Stream


NONE = "none of these"
"""The class that is written for a row that looks like no class."""

LISTED = 20
"""Numbers of rejected records that are kept to be shown."""


@dataclass
class Applied:
    """How far it has come: records read, good ones written, dead letters, missing numbers filled in, unknown keys.

    `rejected` counts the rows that look like no class, and `listed` has the numbers of the first of them. `candidates`
    for a new class are rejected rows that lie together, as `Rejected.summary` gives them.
    """

    records: int = 0
    rows: int = 0
    dead: int = 0
    filled: int = 0
    unknown: int = 0
    rejected: int = 0
    listed: list[int] = field(default_factory=list)
    candidates: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Wanted:
    """What is written of each record.

    Attributes
    ----------
    what : str
        "project" or "predict".
    probabilities : bool or {"best", "all"}
        Whether to add the probability of the predicted class, or of every class.
    coverage : float or None
        The share of sets that are to hold the true class; None for no sets.
    reject : float or None
        The share of rows of known classes that may be rejected; None to reject none.
    """

    what: str
    probabilities: bool | str = False
    coverage: float | None = None
    reject: float | None = None

    def columns(self, model: Any) -> tuple[str, ...]:
        """Return the names of the columns."""
        if self.what == "project":
            return tuple(f"z{i + 1}" for i in range(len(model.get_feature_names_out())))
        more = _chances(model) if self.probabilities == "all" else ("probability",) if self.probabilities else ()
        return ("predicted", *more, *(() if self.coverage is None else ("set",)))

    def results(self, model: Any, X: Any) -> tuple[dict[str, Any], Any]:
        """Return the values of the columns for some rows, and their coordinates."""
        if self.what == "project":
            return {}, model.transform(X)
        values: dict[str, Any] = {}
        if self.coverage is not None:
            values["set"] = _joined(model.predict_set(X, 1.0 - self.coverage), model.classes_)
        if self.probabilities:
            chances = model.predict_proba(X)
            best = np.argmax(chances, axis=1)
            values["predicted"] = model.classes_[best]
            if self.probabilities == "all":
                values |= dict(zip(_chances(model), chances.T, strict=True))
            else:
                values["probability"] = chances[np.arange(len(best)), best]
        else:
            values["predicted"] = model.predict(X)
        if self.reject is not None:
            values["predicted"] = _named(values["predicted"], model.predict_known(X, self.reject))
        return values, None


def apply(
    source: Source,
    model_file: str,
    what: str,
    *,
    out: str = "-",
    dead_letters: str = "",
    strict: bool = False,
    probabilities: bool | str = False,
    coverage: float | None = None,
    reject: float | None = None,
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
        Where to write: a file, "-" for stdout, or the address of a broker.
    dead_letters : str
        Where bad records go; they are counted in any case.
    strict : bool
        Stop at the first bad record.
    probabilities : bool or {"best", "all"}
        Whether to add the probability of the predicted class, or of every class.
    coverage : float, optional
        Adds a column "set": the classes that a record may have, separated by `|`, so that this share of the sets holds
        the true class; see `predict_set`.
    reject : float, optional
        Rows that look like no class are "none of these", at most this share of rows of known classes; see
        `predict_known`.
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
    if coverage is not None:
        _check_sets(learnt, coverage, model_file)
    if reject is not None:
        _check_reject(learnt, reject, model_file)
    if state is None:  # a model that no stream has learnt knows no means for what is missing
        source = replace(source, layout=replace(source.layout, missing="dead"))
    stream = source.open(schema=None if state is None else state.schema, apply=True, stop=stop)
    with closing(stream), warnings.catch_warnings():
        warnings.simplefilter("ignore", CriterionWarning)  # said when the model was learnt
        memory = None if state is None else state.memory
        answers = Wanted(what, probabilities, coverage, reject)
        return _apply(stream, source, model, memory, answers, out, dead_letters, strict, watch, stop)


def _apply(
    stream: Stream,
    source: Source,
    model: Any,
    memory: Memory | None,
    wanted: Wanted,
    out: str,
    dead_letters: str,
    strict: bool,
    watch: Callable[[Applied], None] | None,
    stop: threading.Event | None,
) -> Applied:
    width = stream.schema.width if memory is None else memory.width
    if width != model.n_features_in_:
        raise SourceError(
            f"{source.path}: {width:,} features, where the model has {model.n_features_in_:,}. Name the "
            "label with --label, and leave out other columns with --drop."
        )
    columns = ("row", *wanted.columns(model))
    done, keyed, known, listing = Applied(), bool(scheme_of(out)), None, Rejected(wanted.reject or 0.0)
    one = stream_model(model)
    if wanted.reject is not None and one.known is not None:
        known = one.known_rows(one.known, listing.most(one.width))
    with closing(rows_to(out, columns)) as output, closing(letters_to(dead_letters)) as letters:
        for batch in stream:
            if batch.dead and strict:
                letter = batch.dead[0]
                raise RecordError(f"{source.path}: line {letter.line:,} (offset {letter.offset:,}): {letter.reason}.")
            letters.add(batch.dead, keys=batch.keys_of((one.record for one in batch.dead), done.records))
            if batch.rows:
                batch = batch if memory is None else memory.apply(batch)
                done.filled += batch.filled
                values, points = wanted.results(model, batch.X)
                numbers = done.records + batch.good + 1
                keys = batch.keys_of(batch.good.tolist(), done.records) if keyed else []
                output.add(numbers, values, points, keys)
                if wanted.reject is not None:
                    places = np.flatnonzero(values["predicted"] == NONE)
                    done.rejected += len(places)
                    done.listed += numbers[places][: LISTED - len(done.listed)].tolist()
                    if known is not None and len(places) and batch.X is not None:
                        X, labels = dense_rows(batch.X[places], width), [""] * len(places)
                        listing.add(known, X, labels, numbers[places], done.rows + 1 + places)
            done.records, done.rows = done.records + batch.records, done.rows + batch.rows
            done.dead, done.unknown = done.dead + len(batch.dead), done.unknown + batch.unknown
            if watch is not None:
                watch(done)
            if stop is not None and stop.is_set():
                break
        output.commit()
        letters.commit()
    done.candidates = told(listing.candidates(known), names_of(memory))
    return done


def _chances(model: Any) -> tuple[str, ...]:
    """Return the names of the columns that hold the probability of each class."""
    return tuple(f"probability of {label}" for label in model.classes_.tolist())


def _named(labels: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return labels as text, and `NONE` for rows that were rejected."""
    rejected = [one is None for one in known.tolist()]
    return np.where(rejected, NONE, labels.astype(str)).astype(object)


def _joined(sets: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the names of the classes in each set as one text."""
    names = [str(label) for label in classes.tolist()]
    return np.array(["|".join(names[place] for place in np.flatnonzero(one)) for one in sets], dtype=object)


def _check_sets(learnt: StreamModel, coverage: float, model_file: str) -> None:
    """Refuse sets that cannot be made or read, before anything is written."""
    if not 0.0 <= coverage <= 1.0:
        raise UsageError(
            f"--set is the share of sets that hold the true class, from 0 to 1; got {coverage:g}. Write 0.9 for 90 %."
        )
    model = learnt.estimator
    if learnt.read("predict_set") is None:
        raise StreamError(
            f"{model_file}: a {type(model).__name__} has no prediction sets, because it has no probabilities of "
            "validation rows. Learn with FisherDiscriminant, the default method, for --set."
        )
    barred = [label for label in model.classes_.tolist() if "|" in str(label)]
    if barred:
        raise StreamError(
            f"{model_file}: the class {barred[0]!r} holds '|', which separates the classes of a set. Use predict_set "
            "in Python, or rename the class."
        )
    try:
        model.predict_set(np.zeros((1, model.n_features_in_)), 1.0 - coverage)
    except ValueError as error:
        raise StreamError(f"{model_file}: {error}") from None


def _check_reject(learnt: StreamModel, rate: float, model_file: str) -> None:
    """Refuse to reject where that cannot be done, before anything is written."""
    if not 0.0 <= rate <= 1.0:
        raise UsageError(f"--reject is the share of known records that may be rejected, from 0 to 1; got {rate:g}.")
    model = learnt.estimator
    if learnt.read("predict_known") is None:
        raise StreamError(
            f"{model_file}: a {type(model).__name__} cannot tell that a record is of no class. Learn with "
            "FisherDiscriminant, the default method, for --reject."
        )
    if NONE in map(str, model.classes_.tolist()):
        raise StreamError(
            f"{model_file}: a class is called {NONE!r} already. Rename it, or use predict_known in Python."
        )
    try:
        model.predict_known(np.zeros((1, model.n_features_in_)), rate)
    except ValueError as error:
        raise StreamError(f"{model_file}: {error}") from None
