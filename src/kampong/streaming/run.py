"""The learning loop: score each batch, then learn it; save state, place and lengths together; resume from there."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from kampong._core.compute import one_blas_thread
from kampong._core.freed import give_back
from kampong.files import held, pack
from kampong.files.signing import key_bytes
from kampong.streaming import formats, sources
from kampong.streaming.arrow import pa
from kampong.streaming.columns.column_memory import Memory
from kampong.streaming.columns.schema import Layout
from kampong.streaming.errors import ColumnError, LearntError, RecordError, ResumeError, SourceError, StreamError
from kampong.streaming.history.history import History, candidates
from kampong.streaming.history.rejected import SURE, Rejected, check_width, names_of, started
from kampong.streaming.late import Waiting, check_delay
from kampong.streaming.learner import Learner, RefusedRowsError
from kampong.streaming.model_file import Counters, Course, Options, StreamState, read_model, with_stream, write_model
from kampong.streaming.outputs.rows import dead_letters, format_of, output
from kampong.streaming.outputs.targets import check_targets, key_file
from kampong.streaming.prediction import Said, check_learns, eigenvalues_of, settle, together
from kampong.streaming.sources.learnt import Learnt
from kampong.streaming.sources.source import Source

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from kampong._core.compute import Float
    from kampong.contract import StreamModel
    from kampong.files.signing import Key
    from kampong.predictor import Predictor
    from kampong.streaming.columns.records import Batch
    from kampong.streaming.columns.schema import Schema
    from kampong.streaming.outputs.appended import Written

MOST_CLASSES = 1000
SORTED = (
    "the records are sorted by class. The model is one of all rows, but the accuracy before learning says little: "
    "shuffle the records for one that does."
)
FREE = ("format", "max_record_bytes", "live", "out", "strict", "max_classes", "again", "label_delay", "reject")
"""Options that belong to a source, so that the next one may have others."""

COORDINATES = 2  # columns of coordinates in an output, where the number of directions is not fixed


@dataclass
class Run:
    """A run of `learn`: the model and what is known of the stream so far.

    Parameters
    ----------
    model : estimator
        The model. After a resumed run, use this one and not the one that you passed.
    counters : Counters
        Records, rows, dead letters, right predictions.
    history : History
        The course of the stream.
    schema : Schema
        What the columns are.
    predictor : Predictor or None
        What predicted the last batch, where the model can be frozen.
    place : dict or None
        The place in the source after the last batch.
    memory : Memory or None
        What the stream remembers of its columns.
    finished : bool
        Whether the source was read to its end.
    resumed : bool
        Whether the run went on from a model file.
    stopped : bool
        Whether it was asked to stop before the end.
    learnt : Learnt
        The sources that the model has learnt to their end, in this run and before.
    skipped : tuple of str
        The files of this run that were left out, because they were learnt before.
    earlier : Counters
        What had come before this source; all zero where the model begins with it.
    remark : str
        What a user should know of the order of the records, "" without anything.
    rejected : Rejected or None
        What is known of rows that look like no class, where they are asked for.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from kampong import FisherDiscriminant
    >>> from kampong.streaming import learn
    >>> flowers = Path(tempfile.mkdtemp()) / "flowers.csv"
    >>> lines = [f"{i % 7},{i % 3 + 5 * (i % 2)},{'rose' if i % 2 else 'lily'}" for i in range(60)]
    >>> _ = flowers.write_text("length,width,kind" + chr(10) + chr(10).join(lines))
    >>> run = learn(str(flowers), FisherDiscriminant(), label="kind")
    >>> run.counters.rows, run.finished
    (60, True)
    """

    model: Any
    counters: Counters = field(default_factory=Counters)
    history: History = field(default_factory=History)
    schema: Schema | None = None
    predictor: Predictor | None = None
    place: dict[str, Any] | None = None
    memory: Memory | None = None
    finished: bool = False
    resumed: bool = False
    stopped: bool = False
    learnt: Learnt = field(default_factory=Learnt)
    skipped: tuple[str, ...] = ()
    earlier: Counters = field(default_factory=Counters)
    remark: str = ""
    rejected: Rejected | None = None

    def rejections(self) -> dict[str, Any] | None:
        """Return what is known of rows that look like no class as plain values, None where they are not asked for."""
        return None if self.rejected is None else self.rejected.summary(names_of(self.memory))


def learn(
    source: Source | str | os.PathLike[str],
    model: Any,
    *,
    label: str | None = None,
    model_file: str | os.PathLike[str] = "",
    out: str | os.PathLike[str] = "",
    dead_letters: str | os.PathLike[str] = "",
    classes: Sequence[Any] = (),
    strict: bool = False,
    max_classes: int = MOST_CLASSES,
    checkpoint_every: float = 30.0,
    watch: Callable[[Run], None] | None = None,
    stop: threading.Event | None = None,
    key: Key = None,
    again: bool = False,
    label_delay: int = 0,
    reject: float = 0.0,
) -> Run:
    """Learn a stream, batch by batch; if called again with the same arguments, go on from the last save.

    Where the run saved in `model_file` has come to the end of its source, the model goes on with the new files of this
    one. Files that it has learnt before are recognised by their bytes and left out; `LearntError` says that there is no
    other.

    Each batch is predicted before it is learnt, so the accuracy is honest. The same source and arguments give the same
    model, bit for bit, however often the run was stopped or killed, and both from Python and from the command line.

    Parameters
    ----------
    source : Source, str or path
        What to learn from, or where it is.
    model : estimator
        An estimator with `partial_fit`, such as `FisherDiscriminant`. One of scikit-learn learns too, without a
        model file; see `kampong.contract`.
    label : str, optional
        The column of the class, where `source` is a path; by default that of the model in `model_file`.
    model_file : str or path
        Where the model and the state of the run are saved; if a run is saved there already, it is resumed.
    out : str or path
        Where to write row, label, prediction and coordinates of each good record: a file, "-" for stdout, or the
        address of a broker, where each is a message with the key of its record.
    dead_letters : str or path
        Where bad records go, a file or the address of a broker; by default `model_file` with ".dead.jsonl" added.
    classes : sequence
        The classes that may come. A record of another class is a dead letter.
    strict : bool
        Stop at the first bad record.
    max_classes : int
        Stop at more classes than this: the column is then probably not a label.
    checkpoint_every : float
        Seconds between two saves.
    watch : callable, optional
        Called with the run after each batch.
    stop : threading.Event, optional
        Set it to save and stop after the current batch.
    key : bytes, str or path, optional
        The key of the model file, or the file that holds it, where model files are signed.
    again : bool
        Learn files that were learnt before once more.
    label_delay : int
        Learn each row's label only when this many more rows have been predicted, as where labels come late. Default 0.
        The rows that wait are kept in the model file, and learnt at the end of the source.
    reject : float
        Count and list rows that look like no class before they are learnt: at most this share of rows of known classes;
        see `predict_known`. Those that lie together are offered as candidates for a new class. Default 0, for none.

    Returns
    -------
    Run
        The model, counters and history.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from kampong import FisherDiscriminant
    >>> from kampong.streaming import learn
    >>> folder = Path(tempfile.mkdtemp())
    >>> lines = [f"{i % 7},{i % 3 + 5 * (i % 2)},{'rose' if i % 2 else 'lily'}" for i in range(60)]
    >>> _ = (folder / "flowers.csv").write_text("length,width,kind" + chr(10) + chr(10).join(lines))
    >>> file = str(folder / "flowers.kampong")
    >>> run = learn(str(folder / "flowers.csv"), FisherDiscriminant(), label="kind", model_file=file)
    >>> run.model.predict([[3.0, 6.0], [3.0, 1.0]])
    array(['rose', 'lily'], dtype='<U4')
    >>> _ = (folder / "more.csv").write_text("length,width,kind" + chr(10) + chr(10).join(lines[7:]))
    >>> learn(str(folder / "more.csv"), FisherDiscriminant(), model_file=file).counters.rows
    113
    """
    model_file, out = os.fspath(model_file), os.fspath(out)
    if not isinstance(source, Source):
        source = Source(os.fspath(source), Layout(label=label))
    letters = os.fspath(dead_letters) or (f"{model_file}.dead.jsonl" if model_file else "")
    targets = {"--model": model_file, "--out": out, "--dead-letters": letters}
    check_targets({**source.inputs(), **key_file(key)}, targets, source.endings())
    work = _OpenRun(
        source, model, model_file, out, tuple(classes), strict, max_classes, key_bytes(key), again, label_delay, reject
    )
    with held(model_file):
        return _run(work, letters, checkpoint_every, watch, stop)


def _run(
    work: _OpenRun,
    letters: str,
    checkpoint_every: float,
    watch: Callable[[Run], None] | None,
    stop: threading.Event | None,
) -> Run:
    """Resume or begin, learn to the end of the source, save."""
    with one_blas_thread():  # as below: what a file leaves out is computed again, with the same bits
        run = work.prepare()
    try:
        work.open(letters, stop)
        with one_blas_thread():  # the other cores parse
            _loop(work, checkpoint_every, watch, stop)
            work.finish(stop)
    except SourceError:
        if run.counters.rows and work.began:  # a damaged source may be repaired
            work.save()
        raise
    finally:
        work.close()
    return run


def _loop(
    work: _OpenRun,
    checkpoint_every: float,
    watch: Callable[[Run], None] | None,
    stop: threading.Event | None,
) -> None:
    """Read batch after batch: predict it, learn it, write what was said of it, note its figures; save now and then."""
    saved = last = time.monotonic()
    for batch in work.batches:
        work.begin()
        work.take(batch)
        now = time.monotonic()
        work.note(now - last)
        last = now
        if watch is not None:
            watch(work.run)
        if stop is not None and stop.is_set():
            break
        if now - saved >= checkpoint_every:
            work.save()
            saved = time.monotonic()


class _OpenRun:
    """A run with its source, its outputs and its model file: what `learn` does, step by step."""

    def __init__(
        self,
        source: Source,
        model: Any,
        model_file: str,
        out: str,
        classes: tuple[Any, ...],
        strict: bool,
        max_classes: int,
        key: bytes | None,
        again: bool,
        label_delay: int,
        reject: float,
    ) -> None:
        self.key, self.again = key, again
        self.source, self.model_file, self.out_path = source, model_file, out
        self.strict, self.max_classes = strict, max_classes
        self.classes = classes
        self.run = Run(model)
        waiting = Waiting(check_delay(label_delay))
        self.learner = Learner(model, self.run.counters, self.run.history, waiting=waiting)
        check_learns(self.model, model_file)
        self.run.rejected = self.learner.rejected = started(self.model, reject)
        self.written: dict[str, Written] = {}
        self.files: list[str] = []
        self.letters, self.began = "", False
        self.before = source.name  # the source of the saved place
        self.start: dict[str, Any] | None = None  # the place before the first batch of a new source
        self.observed: dict[str, Any] = {}
        self.shown: Predictor | None = None
        self.centres: tuple[np.ndarray, Float] | None = None
        self.batches: Any = None
        self.out: Any = None
        self.dead: Any = None

    @property
    def model(self) -> StreamModel:
        """What learns."""
        return self.learner.model

    def prepare(self) -> Run:
        """Return the run, as it was saved if there is a model file."""
        if self.model_file and Path(self.model_file).exists():
            self._resume()
        return self.run

    def open(self, dead_letters: str, stop: threading.Event | None) -> None:
        """Open the source: at its place, or at its start where what was saved had come to its end."""
        run, new, self.letters = self.run, self.run.finished, dead_letters
        place = run.place
        self._check_kind()
        if new and run.schema is not None:
            place = _place_of(run, self.before).next_source().to_state()
            found = self.source.format()
            if found != run.schema.format:
                raise SourceError(
                    f"{self.source.path}: this is {found}, and {self.model_file} was learnt from {run.schema.format}. "
                    f"Convert it; or learn it with another --model."
                )
        known = None if self.again else tuple(run.learnt.sources)
        schema = run.schema if place else None  # if nothing was read yet, the columns are found again
        source = replace(self.source, known=known)
        self.batches = source.open(schema=schema, place=place, classes=self.classes, stop=stop)
        run.schema, self.files = self.batches.schema, source.files(formats.get(self.batches.schema.format))
        if run.schema.label is None:
            names = ", ".join(repr(name) for name in run.schema.columns[:12])
            raise ColumnError(f"{self.source.path}: name the column of the class with --label. There are {names}.")
        if run.memory is None or not place:
            run.memory = Memory(run.schema, grows=self.model.can.widen)
        if run.rejected is not None:
            check_width(run.schema.width)
        if run.memory.grows and run.schema.hash_width:
            self.model.expect_width(run.schema.width)
        run.history.baselines.delay = self.learner.waiting.delay
        self.learner.memory, self.learner.points = run.memory, bool(self.out_path)
        self.learner.declared = run.schema.classes
        if new:
            run.earlier, self.start = replace(run.counters), place
        else:
            self.begin()

    def begin(self) -> None:
        """Open the outputs: at what was saved of them, or after what is there where a new source begins."""
        run, new = self.run, self.run.finished
        if self.began:
            return
        wanted = self.model.read("n_components")
        count = int(wanted) if isinstance(wanted, int) else COORDINATES
        columns = ("row", "label", "predicted", *(f"z{i + 1}" for i in range(count)))
        self.out = output(self.out_path, columns, self.written.get("out"), goes_on=new)
        named = self.letters != f"{self.model_file}.dead.jsonl"
        self.dead = dead_letters(self.letters, self.written.get("dead_letters"), goes_on=new, follow=named)
        self.began, run.finished = True, False
        if new:
            run.place = self.start
        if new or (self._to_brokers and not self.written):
            self.save()  # from here on a run that is killed goes on with this source, and what it writes with that

    @property
    def _to_brokers(self) -> bool:
        """Whether something is written to a broker."""
        return any(map(sources.scheme_of, (self.out_path, self.letters)))

    def take(self, batch: Batch) -> None:
        """Predict a batch, learn it, and write what is to be written."""
        run, learner = self.run, self.learner
        if batch.dead and self.strict:
            self._refuse(batch)
        self._end_file(batch.place)
        if batch.dead:
            keys = batch.keys_of((one.record for one in batch.dead), run.counters.records)
            self.dead.add(batch.dead, self._file_of(batch.place or {}), keys)
        batch = learner.remember(batch)
        self._check_classes()
        numbers, parts = run.counters.records + batch.good + 1, []
        keys = batch.keys_of(batch.good.tolist(), run.counters.records) if self._to_brokers else []
        try:
            for rows, answers in learner.take(batch):
                assert batch.y is not None
                values = {"label": batch.y[rows], "predicted": answers.labels}
                self.out.add(numbers[rows], values, answers.points, keys[rows])
                parts.append((rows.stop - rows.start, answers))
        except RefusedRowsError as error:  # not saved: a part of the batch is learnt, and would be learnt again
            raise StreamError(f"{self.source.path}: {error}") from None
        finally:
            run.predictor = learner.predictor
        self.observed = self._observed(batch, together(parts) if parts else Said.nothing(batch.rows))
        run.place = batch.place
        if run.counters.arrived == 0 and run.counters.dead >= 1000:
            raise SourceError(
                f"{self.source.path}: none of the first {run.counters.dead:,} records could be used; the first says: "
                f"{batch.dead[0].reason}. Check --format and --label; the others are in the dead letters."
            )

    def _file_of(self, place: Mapping[str, Any]) -> str:
        """Return the path of the file of a place."""
        return self.files[int(place.get("file", 0))]

    def _end_file(self, following: Mapping[str, Any] | None = None) -> None:
        """Remember the file of the last batch as learnt, where the next one is of another file or does not come."""
        run = self.run
        if not run.place or (following is not None and following.get("file", 0) == run.place.get("file", 0)):
            return
        place = _place_of(run, self.source.name)
        if place.started:
            run.learnt.add(self._file_of(run.place), place.fingerprint(), run.counters.arrived, run.counters.dead)

    def note(self, seconds: float) -> None:
        """Add the last batch to the history."""
        run, seen = self.run, self.observed
        points = seen.pop("points")
        run.history.observe(**seen, seconds=seconds, eigenvalues=eigenvalues_of(self.model, run.predictor))
        if points is not None:
            points["row_numbers"] += run.counters.arrived - len(seen["labels"]) + 1
            run.history.keep_points(**points, centres=self.centres)

    def _observed(self, batch: Batch, said: Said) -> dict[str, Any]:
        """Return what the history takes of a batch.

        Its points are where the directions lie after it, so that all rows of a short stream can be drawn together.
        """
        run = self.run
        seen: dict[str, Any] = {"labels": (), "predicted": (), "dead": batch.dead, "points": None}
        if batch.y is None or batch.X is None or not batch.rows:
            return seen
        seen |= {"labels": batch.y, "predicted": said.predicted}
        shown = candidates(batch.rows)
        points = None if said.points is None else said.points[shown]
        if run.predictor is not None:
            if run.predictor is not self.shown:
                self.shown, self.centres = run.predictor, (run.predictor.classes, run.predictor.centres)
            points = run.predictor.points(batch.X[shown])
        if points is not None:
            some = {"labels": batch.y[shown], "predicted": said.predicted[shown], "probability": said.chances[shown]}
            seen["points"] = {"projected": points, "row_numbers": shown.copy(), **some}
        return seen

    def save(self) -> None:
        """Save the run: outputs first, then the model file that says how long they are."""
        self.written = {"out": self.out.commit(), "dead_letters": self.dead.commit()}
        self.model.let_all_rows_answer(self.run.history.delays.all_rows_answer)
        if self.model_file:
            write_model(self.model_file, *self._to_state(), key=self.key)
            self.batches.saved(self.run.place)

    def finish(self, stop: threading.Event | None) -> None:
        """Save, and say whether the source was read to its end."""
        run = self.run
        run.stopped, run.skipped = stop is not None and stop.is_set(), tuple(self.batches.skipped)
        if not self.began:
            self._refuse_nothing()
            return
        run.finished = not run.stopped
        if run.finished:
            try:
                self.learner.learn_waiting(len(self.learner.waiting))
            except RefusedRowsError as error:
                raise StreamError(f"{self.source.path}: {error}") from None
            run.history.baselines.flush()
        if run.finished and run.counters.rows == 0:
            raise SourceError(f"{self.source.path}: the source holds no record that could be used.")
        if run.finished:
            self._end_file()
        is_sorted = run.finished and self._is_sorted()
        run.remark = SORTED if is_sorted else run.remark
        pa.default_memory_pool().release_unused()  # what parsing and learning took, for the solve
        give_back()
        if run.finished:
            self.learner.arrive()
        run.predictor = self.learner.predictor
        if run.counters.rows:
            settle(self.model, run.predictor, run.counters.rows, is_sorted=is_sorted)
        self.save()

    def _refuse_nothing(self) -> None:
        """Refuse sources that hold nothing new, unless the run was stopped while it waited for more."""
        run = self.run
        if run.skipped and not run.stopped:
            names = ", ".join(run.skipped[:3]) + (f" and {len(run.skipped) - 3:,} more" if run.skipped[3:] else "")
            raise LearntError(
                f"{names}: {self.model_file} has learnt this already ({run.counters.rows:,} rows in all). Give other "
                "files, or --again to learn it once more."
            )
        if not run.stopped:
            raise SourceError(f"{self.source.path}: the source holds no record.")

    def _is_sorted(self) -> bool:
        """Tell whether all rows of a class came together, and not by chance."""
        found = self.model.read("class_counts_")
        counts = np.asarray(() if found is None else found, dtype=np.float64)
        counters, classes = self.run.counters, len(self.learner.known)
        if classes < 2 or not counts.sum() or counters.turns >= classes:
            return False
        mixed = counters.pairs * (1.0 - float(np.sum((counts / counts.sum()) ** 2)))  # turns of rows in random order
        return bool(special.pdtr(counters.turns, mixed) < SURE)

    def close(self) -> None:
        """Close what is open."""
        for one in (self.batches, self.out, self.dead):
            if one is not None:
                one.close()

    def _refuse(self, batch: Batch) -> None:
        """Stop a strict run; what was learnt before the batch is saved."""
        letter = batch.dead[0]
        if self.run.counters.rows:
            self.save()
        raise RecordError(
            f"{self.source.path}: line {letter.line:,} (offset {letter.offset:,}): {letter.reason}. The record begins "
            f"{letter.text[:80]!r}. Repair it, or leave out --strict to set bad records aside."
        )

    def _check_classes(self) -> None:
        known = self.learner.known
        if len(known) > self.max_classes:
            examples = ", ".join(repr(label) for label in sorted(known)[:3])
            raise StreamError(
                f"{self.source.path}: more than {self.max_classes:,} classes ({examples}, …). Is "
                f"{self.source.layout.label!r} the label? --max-classes allows more."
            )

    def _options(self) -> Options:
        """Return what must stay the same when a run is resumed."""
        return Options(
            layout=self.source.layout,
            classes=tuple(str(label) for label in self.classes),
            strict=self.strict,
            max_classes=self.max_classes,
            live=self.source.live,
            out=format_of(self.out_path) if self.out_path else "",
            again=self.again,
            label_delay=self.learner.waiting.delay,
            reject=0.0 if self.run.rejected is None else self.run.rejected.rate,
        )

    def _to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        run = self.run
        assert run.schema is not None
        assert self.run.memory is not None
        course = Course(
            self.source.name,
            self._options(),
            run.place,
            self.written,
            run.history,
            run.predictor,
            self.learner.solved_beside(),
            run.learnt,
            self.learner.waiting,
            run.rejected,
        )
        return with_stream(run.model, StreamState(run.schema, run.counters, run.finished, self.run.memory, course))

    def _resume(self) -> None:
        """Take the state of a model file, if its run had the same options."""
        model, state, facts = read_model(self.model_file, key=self.key)
        if state is None or state.course is None:
            raise ResumeError(
                f"{self.model_file}: this model does not hold a run that can go on (it was saved from Python, or "
                "merged). Use another --model, and merge both afterwards."
            )
        run, course, layout = self.run, state.course, self.source.layout
        usual, before = vars(Layout()), vars(course.options.layout)
        given = {*FREE, *(name for name, value in vars(layout).items() if value != usual[name])}
        layout = replace(layout, **{name: before[name] for name in usual if name not in given})  # as before
        if layout.format == "auto" and self.source.path == "-":
            layout = replace(layout, format=course.options.layout.format)
            if state.finished and layout.format == "auto":
                layout = replace(layout, format=state.schema.format)
        self.source = replace(self.source, layout=layout)
        self._check_same(facts["model"], course.options, free=FREE if state.finished else ())
        run.model, run.schema, run.counters = model, state.schema, state.counters
        run.place, run.history, self.written = course.place, course.history, course.written
        self.before = course.source
        run.learnt = course.learnt
        if run.rejected is not None and course.rejected is not None and course.rejected.rate == run.rejected.rate:
            run.rejected = course.rejected
        run.memory, run.predictor = state.memory, course.predictor
        run.finished, run.resumed = state.finished, True
        self.learner = Learner(
            model,
            run.counters,
            run.history,
            run.memory,
            predictor=run.predictor,
            waiting=course.waiting or self.learner.waiting,
            coming=course.coming,
            rejected=run.rejected,
        )

    def _check_kind(self) -> None:
        """Refuse a source in which the saved place is none."""
        run = self.run
        if run.place and run.schema is not None:
            chosen = formats.get(run.schema.format)
            was, now = sources.saved_kind(self.before), self.source.kind
            if was.place_type(chosen) is not now.place_type(chosen):
                raise ResumeError(
                    f"{self.source.path}: {self.model_file} was learnt from {self.before}, and goes on with sources of "
                    f"that kind only. Learn this one with another --model, and merge both models."
                )

    def _check_same(self, model: Mapping[str, Any], options: Options, free: Sequence[str]) -> None:
        """Refuse to go on with other options than those that are free."""
        mine = pack(self.run.model)[1]["model"]
        before = {**model["parameters"], **options.by_name(), "model": model["class"]}
        now = {**mine["parameters"], **self._options().by_name(), "model": mine["class"]}
        differ = [key for key in sorted({*before, *now} - {*free}) if before.get(key) != now.get(key)]
        if differ:
            said = "; ".join(f"{key} was {before.get(key)!r} and is now {now.get(key)!r}" for key in differ)
            raise ResumeError(
                f"{self.model_file}: the run saved here had other options: {said}. Start with the same ones to go on, "
                "or use another --model to start again."
            )


def _place_of(run: Run, source: str) -> Any:
    """Return the place of a run, in a source of this name, as an object of its kind and format."""
    assert run.schema is not None
    assert run.place is not None
    return sources.saved_kind(source).place_type(formats.get(run.schema.format))(**run.place)
