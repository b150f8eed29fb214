"""The stream's part of a model file: how it is written, and how it is read back with every value checked.

Everything is a dictionary of arrays, plain values and dictionaries of both, like the state of a model. When it is read,
each value is asked for by name, kind and range. Then the values are compared with each other and with the model.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong.contract import stream_model
from kampong.files import CheckpointError, Contents, pack, read, write
from kampong.files.container import TOO_LARGE, decode, encode
from kampong.files.contents import flatten, to_lines
from kampong.files.saved_models import CLASSES, advice, try_unpack, unpack
from kampong.streaming import formats, sources
from kampong.streaming.columns.column_memory import Memory
from kampong.streaming.columns.schema import KINDS, Layout, Schema, as_labels, is_whole
from kampong.streaming.history.history import History
from kampong.streaming.history.rejected import Rejected
from kampong.streaming.late import LONGEST, Waiting, copies_state, take_copies
from kampong.streaming.outputs.appended import Written
from kampong.streaming.sources.learnt import DIGITS, Learnt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kampong.contract import StreamModel
    from kampong.files.signing import Key
    from kampong.predictor import Predictor

VERSION = 11
"""The format of what is known of a stream."""

STREAM = "stream"
JOURNAL = "journal"
"""The fact that says how much of a journal of requests a model holds; see `kampong.serving.journal`."""

PREFIX = "stream."
OUTPUTS = ("out", "dead_letters")


@dataclass
class Counters:
    """How far a run has come.

    Attributes
    ----------
    records : int
        Records read; `rows`, `waiting` and `dead` together.
    rows : int
        Good records that have been learnt.
    dead : int
        Dead letters.
    scored, correct : int
        Rows that were predicted before they were learnt, and those predicted rightly.
    filled : int
        Numbers that were missing in rows, and were filled in.
    unknown : int
        Records with keys that are no columns; the keys were ignored.
    turns : int
        How often, within a batch, a row has another class than the row before it.
    pairs : int
        How many rows have one before them in their batch.
    waiting : int
        Good records that are learnt later, since labels come late.
    """

    records: int = 0
    rows: int = 0
    dead: int = 0
    scored: int = 0
    correct: int = 0
    filled: int = 0
    unknown: int = 0
    turns: int = 0
    pairs: int = 0
    waiting: int = 0

    @property
    def arrived(self) -> int:
        """Return the good records, learnt or not yet."""
        return self.rows + self.waiting

    @property
    def unscored(self) -> int:
        """Return the good records that could not be predicted: before a class, or a kernel's first block."""
        return self.arrived - self.scored

    @property
    def accuracy(self) -> float:
        """Return the part of the predictions that was right, NaN without any."""
        return self.correct / self.scored if self.scored else float("nan")

    def to_state(self) -> dict[str, Any]:
        """Return the counters by name."""
        return dict(vars(self))

    @classmethod
    def from_state(cls, contents: Contents) -> Counters:
        """Return the counters that `to_state` wrote."""
        records, rows = contents.whole("records"), contents.whole("rows")
        waiting = contents.whole("waiting")
        good = rows + waiting
        dead, scored = contents.whole("dead"), contents.whole("scored", high=good)
        correct = contents.whole("correct", high=scored)
        contents.require(
            records == good + dead, f"records is {records}; rows, waiting and dead together are {good + dead}"
        )
        filled, unknown = contents.whole("filled"), contents.whole("unknown", high=records)
        contents.require(good > 0 or filled == 0, f"filled is {filled}, and there are no rows")
        pairs = contents.whole("pairs", high=max(good - 1, 0))
        turns = contents.whole("turns", high=pairs)
        contents.finish()
        return cls(records, rows, dead, scored, correct, filled, unknown, turns, pairs, waiting)


@dataclass(frozen=True)
class Options:
    """What must stay the same when a run goes on.

    Attributes
    ----------
    layout : Layout
        What the user says of the source.
    classes : tuple of str
        The declared classes.
    strict, live : bool
        Whether a bad record stops the run, and whether stdin cannot be replayed.
    max_classes : int
        The most classes.
    out : str
        The format of the output, "" without one.
    again : bool
        Whether sources that were learnt before are learnt again.
    label_delay : int
        How many rows late labels are learnt.
    reject : float
        The share of known rows that may be rejected, 0 if none are compared.
    """

    layout: Layout
    classes: tuple[str, ...]
    strict: bool
    max_classes: int
    live: bool
    out: str
    again: bool
    label_delay: int = 0
    reject: float = 0.0

    def by_name(self) -> dict[str, Any]:
        """Return all options in one dictionary."""
        values = {**vars(self.layout), **vars(self)}
        del values["layout"]
        return values

    def to_state(self) -> dict[str, Any]:
        """Return the options by name."""
        return {**vars(self), "layout": self.layout.to_state(), "classes": to_lines(self.classes)}

    @classmethod
    def from_state(cls, contents: Contents) -> Options:
        """Return the options that `to_state` wrote."""
        options = cls(
            layout=Layout.from_state(contents.part("layout")),
            classes=contents.words("classes"),
            strict=contents.flag("strict"),
            max_classes=contents.whole("max_classes"),
            live=contents.flag("live"),
            out=contents.word("out", ("", "csv", "jsonl")),
            again=contents.flag("again"),
            label_delay=contents.whole("label_delay", high=LONGEST),
            reject=contents.number("reject", low=0.0, high=1.0),
        )
        contents.finish()
        return options


@dataclass
class Course:
    """What a run needs to go on.

    Attributes
    ----------
    source : str
        The path of the source that was learnt last.
    learnt : Learnt
        The sources that were read to their end.
    options : Options
        What must stay the same.
    place : dict or None
        The place in the source after the last batch; None before the first.
    written : dict of str to Written
        What the outputs held when the run was saved.
    history : History
        The course of the stream.
    predictor : Predictor or None
        What predicted the last batch, where the model can be frozen; it may be older than the model.
    coming : Predictor or None
        What takes the place of the predictor when the rows have doubled.
    waiting : Waiting or None
        Rows that are learnt later, where labels come late.
    rejected : Rejected or None
        What is known of rows that look like no class, where they are asked for.
    """

    source: str
    options: Options
    place: dict[str, Any] | None = None
    written: dict[str, Written] = field(default_factory=lambda: dict.fromkeys(OUTPUTS, Written()))
    history: History = field(default_factory=History)
    predictor: Predictor | None = None
    coming: Predictor | None = None
    learnt: Learnt = field(default_factory=Learnt)
    waiting: Waiting | None = None
    rejected: Rejected | None = None

    def forget_rows(self) -> None:
        """Drop what else was learnt from rows: some of them were unlearnt."""
        self.predictor = self.coming = None
        if self.rejected is not None:
            self.rejected.forget()

    def to_state(self) -> dict[str, Any]:
        """Return what a run needs to go on, by name."""
        place = {} if self.place is None else {"place": self.place}
        predictor = {} if self.predictor is None else {"predictor": self.predictor.to_state()}
        coming = {} if self.coming is None else {"coming": self.coming.to_state()}
        copies, waiting = copies_state(self.history.delays), {} if not self.waiting else self.waiting.to_state()
        return {
            "source": self.source,
            "options": self.options.to_state(),
            "written": {name: dict(one._asdict()) for name, one in self.written.items()},
            "learnt": self.learnt.to_state(),
            "history": self.history.to_state(),
            **place,
            **predictor,
            **coming,
            **({"copies": copies} if copies else {}),
            **({"waiting": waiting} if waiting else {}),
            **({} if self.rejected is None else {"rejected": self.rejected.to_state()}),
        }

    @classmethod
    def from_state(cls, contents: Contents, schema: Schema, counters: Counters) -> Course:
        """Return what `to_state` wrote, if it belongs to the schema and the counters."""
        written = contents.part("written")
        source = contents.text("source")
        course = cls(
            source=source,
            options=Options.from_state(contents.part("options")),
            place=_place(contents, schema, counters, source),
            written={name: _written(written.part(name)) for name in OUTPUTS},
            history=History.from_state(contents.part("history")),
            learnt=Learnt.from_state(contents.part("learnt")),
        )
        written.finish()
        _check_options(contents, course.options, schema)
        out = course.written["out"].length
        contents.require(out == 0 or course.options.out != "", f"written, out is {out}, and there is no output")
        _check_learnt(contents, course.learnt, counters)
        _check_history(contents, course.history, counters)
        return course


@dataclass
class StreamState:
    """What a model file knows of the stream that its model was learnt from.

    Attributes
    ----------
    schema : Schema
        What the columns are.
    counters : Counters
        How far it has come.
    finished : bool
        Whether the source was read to its end.
    memory : Memory
        What it remembers of its columns.
    course : Course or None
        What a run needs to go on; None where models were merged.
    merged : tuple of str
        The sources of the models that were merged.
    """

    schema: Schema
    counters: Counters
    finished: bool
    memory: Memory
    course: Course | None = None
    merged: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """The paths of the sources."""
        if self.course is None:
            return self.merged
        earlier = tuple(one.name for one in self.course.learnt.sources)
        return earlier if self.finished and earlier else (*earlier, self.course.source)

    def to_state(self) -> dict[str, Any]:
        """Return everything by name."""
        rest = {"merged": to_lines(self.merged)} if self.course is None else self.course.to_state()
        return {
            "version": VERSION,
            "finished": self.finished,
            "schema": self.schema.to_state(),
            "counters": self.counters.to_state(),
            "memory": self.memory.to_state(),
            **rest,
        }

    @classmethod
    def from_state(cls, contents: Contents, *, grows: bool) -> StreamState:
        """Return what `to_state` wrote; `grows` says whether the model of the stream can be made wider."""
        contents.version(VERSION)
        schema = Schema.from_state(contents.part("schema"))
        counters = Counters.from_state(contents.part("counters"))
        memory = Memory.from_state(contents.part("memory"), schema, counters.arrived, grows=grows)
        state = cls(schema, counters, contents.flag("finished"), memory)
        if "merged" in contents:
            state.merged = contents.words("merged")
            contents.require(bool(state.merged), "merged names no source")
        else:
            state.course = Course.from_state(contents, schema, counters)
        contents.require(counters.rows > 0 or not state.finished, "finished is true, and rows is 0")
        contents.require(not (counters.waiting and state.finished), "finished is true, and waiting is not 0")
        whole = state.course is None or not state.finished or state.course.learnt.rows == counters.rows
        contents.require(whole, "finished is true, and the sources of learnt have fewer rows than counters, rows")
        contents.finish()
        return state


def with_stream(model: Any, state: StreamState) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return a model and the state of its stream as arrays and facts, for `kampong.files.write`.

    Parameters
    ----------
    model : estimator
        The model.
    state : StreamState
        What is known of its stream.

    Returns
    -------
    arrays : dict of str to array
        Those of the model, and those of the stream.
    facts : dict of str to JSON
        The same, as plain values.
    """
    arrays, facts = pack(model)
    more, facts[STREAM] = flatten(state.to_state())
    return arrays | {PREFIX + name: array for name, array in more.items()}, facts


def write_model(path: str, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any], *, key: Key = None) -> None:
    """Write what `with_stream` or `pack` has returned, if a later run can read it; otherwise an earlier file stays.

    Parameters
    ----------
    path : str
        The file.
    arrays : mapping of str to array
        Those of the model and of its stream.
    facts : mapping of str to JSON
        The same, as plain values.
    key : bytes, str or path, optional
        The key that signs the file, or the file that holds it.
    """
    write(path, arrays, facts, key=key, check=_check)


def model_bytes(arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> bytes:
    """Return the bytes that `write_model` would write."""
    return encode(arrays, facts, check=_check)


def _check(arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
    """Read a model and the state of its stream as `read_model` does."""
    _stream_of(arrays, facts, try_unpack(arrays, facts))


def read_model(path: str, *, key: Key = None) -> tuple[Any, StreamState | None, dict[str, Any]]:
    """Return the model of a file, the state of its stream where a stream left it, and the facts of the file.

    Parameters
    ----------
    path : str
        The file.
    key : bytes, str or path, optional
        The key of the model file, or the file that holds it, where model files are signed.

    Returns
    -------
    model : estimator
        The model.
    state : StreamState or None
        What is known of its stream.
    facts : dict of str to JSON
        Everything that the file says of the model.
    """
    try:
        arrays, facts = read(path, key=key)
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}. Give a model that was learnt or saved.") from None
    return _model_of(path, arrays, facts)


def read_model_bytes(data: bytes, name: str, *, key: Key = None) -> tuple[Any, StreamState | None]:
    """Return the model and the state of its stream in the bytes of a model file, which messages call by a name."""
    return _model_of(name, *decode(data, key=key))[:2]


def _model_of(
    path: str, arrays: Mapping[str, np.ndarray], facts: dict[str, Any]
) -> tuple[Any, StreamState | None, dict[str, Any]]:
    known = facts.get("model")
    name = known.get("class") if isinstance(known, dict) else None
    if not (isinstance(name, str) and name in CLASSES):
        importlib.import_module("kampong.registry")  # all estimators register; most files need those that have already
    try:
        model = unpack(arrays, facts)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from None
    try:
        return model, _stream_of(arrays, facts, model), facts
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error} {advice(facts)}") from None
    except MemoryError:
        raise CheckpointError(f"{path}: the state of the stream does not fit into memory. {TOO_LARGE}") from None


def _stream_of(arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any], estimator: Any) -> StreamState | None:
    """Return the state of a stream in what `read` has read."""
    model = stream_model(estimator)
    unknown = [name for name in arrays if not name.startswith(("model.", PREFIX))]
    unknown += sorted(set(facts) - {"model", "versions", STREAM, JOURNAL})
    if unknown:
        raise CheckpointError(
            f"this checkpoint holds {unknown[0]!r:.100}, which is neither the model's nor a stream's."
        )
    if STREAM not in facts:
        return None
    if not isinstance(facts[STREAM], dict):
        raise CheckpointError(f"the state of the stream is {facts[STREAM]!r:.100}.")
    mine = {name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)}
    contents = Contents(mine, facts[STREAM], "the stream")
    predictor = contents.part("predictor") if "predictor" in contents else None
    coming = contents.part("coming") if "coming" in contents else None
    rejected = contents.part("rejected") if "rejected" in contents else None
    copies, waiting = contents.part("copies"), contents.part("waiting")
    state = StreamState.from_state(contents, grows=model.can.widen)
    _check_model(contents, model, state)
    if predictor is not None:
        course, made = _predictor_of(predictor, model, state)
        course.predictor = made
    if coming is not None:
        course, made = _predictor_of(coming, model, state)
        course.coming = made
        rows = state.counters.rows
        coming.require(rows < 2 * made.n_rows, f"n_rows is {made.n_rows}, and {rows} rows have been learnt")
    _take_late(copies, waiting, model, state)
    _take_rejected(rejected, state)
    return state


def _take_rejected(rejected: Contents | None, state: StreamState) -> None:
    """Give the stream what it knows of rejected rows."""
    rate = 0.0 if state.course is None else state.course.options.reject
    if rejected is None:
        if rate:
            raise CheckpointError(
                f"the state of the stream is not valid: reject is {rate}, and nothing is known of it."
            )
        return
    rejected.require(state.course is not None, "a model that was merged has none")
    assert state.course is not None
    found = Rejected.from_state(rejected, state.memory.width, state.counters.rows)
    rejected.require(found.rate == rate, f"rate is {found.rate}, and the options say {rate}")
    state.course.rejected = found


def _take_late(copies: Contents, waiting: Contents, model: StreamModel, state: StreamState) -> None:
    """Give the stream its copies, and the rows that wait for their labels."""
    course, late = state.course, state.counters.waiting
    if course is not None:
        take_copies(copies, course.history.delays, model)
        if late:
            course.waiting = Waiting.from_state(waiting, course.options.label_delay, state.memory.width)
        held = 0 if course.waiting is None else len(course.waiting)
        waiting.require(held == late, f"{held} rows wait, and counters, waiting is {late}")
        delay = course.history.baselines.delay
        fits = delay == course.options.label_delay
        copies.require(fits, f"history, baselines, delay is {delay}, and options, label_delay is not")
    copies.finish()
    waiting.finish()


def _predictor_of(contents: Contents, model: StreamModel, state: StreamState) -> tuple[Course, Predictor]:
    """Return the course of a run and a predictor of it, if it belongs to the model and to the rows so far."""
    able = state.course is not None and model.can.freeze
    contents.require(able, f"a {type(model.estimator).__name__}, or a model that was merged, has none")
    assert state.course is not None
    predictor = model.predictor_from(contents)
    known = set(predictor.classes.tolist()) <= set(model.classes or ())
    contents.require(known, "it knows classes that the model does not")
    rows = state.counters.rows
    contents.require(predictor.n_rows <= rows, f"n_rows is {predictor.n_rows}, and {rows} rows have been learnt")
    return state.course, predictor


def _place(contents: Contents, schema: Schema, counters: Counters, source: str) -> dict[str, Any] | None:
    """Return the place in the source, which is one of its kind and format."""
    if not counters.records and "place" not in contents:
        return None
    part = contents.part("place")
    place = sources.saved_kind(source).place_type(formats.get(schema.format)).from_state(part)
    part.require(place.fits(counters.records), f"it does not come after {counters.records} records")
    part.finish()
    return place.to_state()


def _check_options(contents: Contents, options: Options, schema: Schema) -> None:
    """Compare the options with the schema that was found with them."""
    layout, require = options.layout, contents.require
    require(layout.format in ("auto", schema.format), f"format is {schema.format}, and the options say {layout.format}")
    rest = set(schema.columns) - {schema.label, *layout.drop}
    if schema.columns:
        for name in KINDS:
            there = set(getattr(layout, name)) <= set(schema.columns)
            require(there, f"options, {name} is {getattr(layout, name)!r:.100}, which are not all columns")
        require(layout.label == schema.label, f"label is {schema.label!r}, and the options say {layout.label!r}")
        named = {*schema.features, *schema.left_out}
        require(rest == named, "the columns that drop leaves are not numbers, categories and texts")
        require(rest & set(layout.text) == set(schema.texts), "texts are not those that the options name")
        categories = rest & set(layout.category) - set(layout.text)
        require(categories <= set(schema.categories), "categories are not those that the options name")
        require(set(layout.date) <= set(schema.dates), "dates are not those that the options name")
        require(set(layout.number) <= set(schema.numbers) - set(schema.dates), "numbers are not those of the options")
        require(layout.decimal in ("", schema.decimal), "decimal is not what the options say")
        require(schema.fills == (layout.missing != "dead"), "fills is not what the options say of missing numbers")
        require(layout.missing == "auto" or not schema.indicated, "indicated holds columns that the options forbid")
        weighted = bool(schema.texts)
        require(schema.ngrams == (layout.ngrams if weighted else 1), "ngrams is not what the options say")
        require(schema.tfidf == (layout.tfidf and weighted), "tfidf is not what the options say")
        width = layout.hash_width or schema.hash_width
        require(schema.hash_width in (0, width), f"hash_width is {schema.hash_width}, and the options say {width}")
    else:
        stated = layout.max_features or schema.width
        require(schema.width == stated, f"width is {schema.width}, and the options say {stated}")
        require(schema.zero_based == layout.zero_based, "zero_based is not what the options say")
    whole = schema.label_kind == "string" or all(is_whole(label) for label in options.classes)
    same = whole and as_labels(options.classes, schema.label_kind) == schema.classes
    require(same, "classes of the schema are not those that the options declare")


def _written(contents: Contents) -> Written:
    """Return what an output held."""
    found = Written(contents.whole("length"), contents.digest("digest", DIGITS))
    contents.finish()
    return found


def _check_learnt(contents: Contents, learnt: Learnt, counters: Counters) -> None:
    """Compare the sources with the counters."""
    for name in ("rows", "dead"):
        mine, theirs = getattr(learnt, name), getattr(counters, "arrived" if name == "rows" else name)
        contents.require(mine <= theirs, f"learnt, {name} is {mine}, and counters, {name} is {theirs}")


def _check_history(contents: Contents, history: History, counters: Counters) -> None:
    """Compare the history with the counters."""
    for name in ("rows", "scored", "correct", "dead"):
        mine, theirs = getattr(history, name), getattr(counters, "arrived" if name == "rows" else name)
        contents.require(mine == theirs, f"counters, {name} is {theirs}, and the history has {mine}")
    numbers = history.points().row_numbers
    ascend = not len(numbers) or (numbers[0] >= 1 and numbers[-1] <= counters.arrived and (np.diff(numbers) > 0).all())
    contents.require(bool(ascend), "history, point_facts has row numbers that are not those of rows, in order")


def _check_model(contents: Contents, model: StreamModel, state: StreamState) -> None:
    """Compare the stream with its model."""
    if not state.counters.rows:
        return
    width, schema, rows = model.read("n_features_in_"), state.schema, state.memory.width
    contents.require(width == rows, f"schema, width makes rows of {rows} features, and the model has {width}")
    texts = {isinstance(label, str) for label in model.classes or ()}
    fits = texts <= {schema.label_kind == "string"}
    contents.require(fits, f"schema, label_kind is {schema.label_kind}, and the classes of the model are not")
