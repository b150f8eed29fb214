"""Files learnt in parts, by processes of this machine, Dask or Spark, to one model file: `kampong learn --engine`.

    file → the bytes of a model file that has learnt it alone → merged by eight, as `kampong merge` does → MODEL

All engines carry the same pure functions, `learn_file` and `join_files`, so they give the same model.
"""

from __future__ import annotations

import dataclasses
import json
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong._core.compute import alone
from kampong._core.extras import how_to_install
from kampong.adapters.file_parts import files_of, packed, records_of, schema_of, unpacked
from kampong.contract import stream_model
from kampong.estimators.kernel_subspace import KernelSubspace
from kampong.files import held
from kampong.files.replace import write_bytes
from kampong.merging import FAN_IN, check_mergeable, statistics_of
from kampong.registry import from_bytes
from kampong.streaming.columns.column_memory import Memory
from kampong.streaming.errors import RecordError, ResumeError, SourceError, StreamError, UsageError
from kampong.streaming.inspection import merge_states
from kampong.streaming.model_file import Counters, StreamState, model_bytes, read_model_bytes, with_stream, write_model
from kampong.streaming.outputs.targets import check_targets, key_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kampong.files.signing import Key
    from kampong.streaming.columns.schema import Layout, Schema

    Watch = Callable[[int, int], None]

ENGINES = ("local", "dask", "spark")
LETTERS = 100
"""Dead letters of a part that are kept word for word; all are counted."""


@dataclass
class PartsRun:
    """What `learn_files` returns.

    Attributes
    ----------
    model : estimator
        The model of all parts.
    counters : Counters
        Records, rows and dead letters of all parts.
    schema : Schema
        What the columns are.
    parts : int
        How many files there were.
    memory : Memory
        What is remembered of the columns: their names, and words.
    dead : list of dict
        The parts that have dead letters: source, records, dead, and the first letters.
    """

    model: Any
    counters: Counters
    schema: Schema
    parts: int
    memory: Memory
    dead: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class FileTask:
    """What every task is given: the model, the packed names of the files, what is known of their columns."""

    model: bytes
    packed: bytes
    count: int
    layout: Layout
    schema: Schema
    strict: bool = False
    max_classes: int = 1000
    untrusted: bool = False


def learn_files(
    engine: str,
    where: Sequence[str],
    model: Any,
    *,
    layout: Layout,
    model_file: str,
    dead_letters: str = "",
    classes: Sequence[Any] = (),
    strict: bool = False,
    max_classes: int = 1000,
    key: Key = None,
    untrusted: bool = False,
    watch: Watch | None = None,
    tell: Callable[[Schema], None] | None = None,
) -> PartsRun:
    """Learn files in parts on an engine, and write the model of all of them.

    Parameters
    ----------
    engine : str
        "local" uses processes of this machine, "local=N" this many; "dask" does so with Dask, "dask=ADDRESS" uses its
        cluster; "spark" uses the session of Spark.
    where : sequence of str
        Files, folders, or patterns such as "rows/*.parquet". Every worker must see them under the same names.
    model : estimator
        What to learn with; it must merge.
    layout : Layout
        What is known of the files.
    model_file : str
        Where the model goes. A file that exists is refused: merge two models instead.
    dead_letters : str
        Where the first bad records of each part go, "" for nowhere; all are counted.
    classes : sequence
        The classes that may come. A record of another class is a dead letter.
    strict : bool
        Stop at the first bad record.
    max_classes : int
        Stop at more classes than this.
    key : bytes, str or path, optional
        The key that signs the model file, or the file that holds it.
    untrusted : bool
        Whether to take only formats that withstand any bytes, as in `Source`.
    watch : callable, optional
        Called with the number of parts that are done, and of all.
    tell : callable, optional
        Called once with what the columns are.

    Returns
    -------
    PartsRun
        The model, the counters, and which parts have dead letters.
    """
    name, _, address = engine.partition("=")
    if name not in ENGINES or (name == "spark" and address):
        raise UsageError(f"--engine {engine!r} is unknown. Use local, local=N, dask, dask=ADDRESS or spark.")
    try:
        check_mergeable(model)
    except (TypeError, ValueError) as error:
        raise UsageError(f"--engine {name}: {error}") from None
    paths = files_of(where)
    check_targets({"the source": paths, **key_file(key)}, {"--model": model_file, "--dead-letters": dead_letters})
    layout, schema = schema_of(paths, None, layout, classes, untrusted=untrusted)
    if tell is not None:
        tell(schema)
    with held(model_file):
        if Path(model_file).exists():
            raise ResumeError(
                f"{model_file}: there is a model already, and a fit in parts starts again. Choose another --model, and "
                "merge both with `kampong merge`."
            )
        run = {"local": _on_this_machine, "dask": _on_dask, "spark": _on_spark}[name]
        task = FileTask(b"", packed(paths), len(paths), layout, schema, strict, max_classes, untrusted)
        data, notes = run(task, model, address, watch)
        found = _finished(data, notes, model, where, schema, len(paths))
        if dead_letters and found.dead:
            write_bytes(dead_letters, b"".join(_lines(part) for part in found.dead))
        state = StreamState(schema, found.counters, True, found.memory, merged=tuple(map(str, where)))
        write_model(model_file, *with_stream(found.model, state), key=key)
    return found


def _finished(data: bytes, notes: str, model: Any, where: Sequence[str], schema: Schema, parts: int) -> PartsRun:
    if not data:
        raise SourceError(f"{', '.join(map(str, where))}: no part holds a record that could be used.{_first(notes)}")
    learnt, state = read_model_bytes(data, "the model of all parts")
    assert state is not None
    dead = json.loads(notes)
    lost = sum(part["dead"] for part in dead if not part["rows"])  # parts without a good record have no state
    counters = dataclasses.replace(state.counters)
    counters.records, counters.dead = counters.records + lost, counters.dead + lost
    learnt.random_state = model.random_state
    if isinstance(learnt, KernelSubspace):
        learnt.landmarks = model.landmarks
    stream_model(learnt).settle()  # a loaded model then answers at once
    return PartsRun(learnt, counters, schema, parts, state.memory, dead)


def _first(notes: str) -> str:
    letters = [letter for part in json.loads(notes) for letter in part["letters"]]
    return f" The first says: {letters[0]['reason']}." if letters else ""


def _lines(part: dict[str, Any]) -> bytes:
    lines = [json.dumps({"source": part["source"], **letter}, ensure_ascii=False) for letter in part["letters"]]
    return b"".join(line.encode("utf-8", "replace") + b"\n" for line in lines)


# What runs on the cluster.


def learn_file(task: FileTask, number: int) -> tuple[bytes, str]:
    """Learn one file: a pure function of it.

    Parameters
    ----------
    task : FileTask
        What to learn with, and the files.
    number : int
        Which file.

    Returns
    -------
    bytes
        Those of a model file, "" without a good record.
    str
        JSON: what was set aside, for `join_files`.
    """
    path, schema, counters = unpacked(task.packed)[number], task.schema, Counters()
    letters: list[dict[str, Any]] = []
    with alone():
        learner = stream_model(statistics_of(from_bytes(task.model), [], number=number))
        model, memory = learner.estimator, Memory(schema, grows=learner.can.widen)
        if memory.grows and schema.hash_width:
            learner.expect_width(schema.width)
        for batch in records_of(path, task.layout, schema, untrusted=task.untrusted):
            if batch.dead and task.strict:
                raise RecordError(
                    f"{path}: line {batch.dead[0].line:,}: {batch.dead[0].reason}. Repair it, or leave out --strict to "
                    "set bad records aside."
                )
            batch = memory.take(batch)
            counters.records, counters.dead = counters.records + batch.records, counters.dead + len(batch.dead)
            counters.rows, counters.unknown = counters.rows + batch.rows, counters.unknown + batch.unknown
            for letter in batch.dead[: LETTERS - len(letters)]:
                facts = {"line": letter.line, "offset": letter.offset, "reason": letter.reason, "record": letter.text}
                letters.append(facts)
            if batch.rows:
                if learner.fitted and memory.width > model.n_features_in_:
                    learner.move_columns(np.arange(model.n_features_in_), memory.width)
                model.partial_fit(batch.X, batch.y)
                _check_classes(path, model, task)
        note = {"source": path, "records": counters.records, "rows": counters.rows, "dead": counters.dead}
        notes = json.dumps([{**note, "letters": letters}] if counters.dead else [], ensure_ascii=False)
        if not counters.rows:
            return b"", notes
        state = StreamState(schema, counters, True, memory, merged=("parts",))
        return model_bytes(*with_stream(model, state)), notes


def join_files(items: Sequence[tuple[bytes, str]]) -> tuple[bytes, str]:
    """Merge what `learn_file` or this function has returned, in its order."""
    notes = json.dumps([part for _, more in items for part in json.loads(more)], ensure_ascii=False)
    there = [data for data, _ in items if data]
    if len(there) < 2:
        return (there[0] if there else b""), notes
    with alone():
        names = [f"part {number}" for number in range(len(there))]
        model, state = merge_states([read_model_bytes(data, "a part") for data in there], names)
        assert state is not None
        return model_bytes(*with_stream(model, dataclasses.replace(state, merged=("parts",)))), notes


def _check_classes(path: str, model: Any, task: FileTask) -> None:
    if len(model.classes_) > task.max_classes:
        examples = ", ".join(repr(label) for label in model.classes_.tolist()[:3])
        raise StreamError(
            f"{path}: more than {task.max_classes:,} classes ({examples}, …). Is {task.layout.label!r} the label? "
            "--max-classes allows more."
        )


# The engines.


def _on_this_machine(task: FileTask, model: Any, number: str, watch: Watch | None) -> tuple[bytes, str]:
    """Learn files in processes of joblib, each on one core, and join them as the other engines do."""
    import joblib
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    if number and not (number.isascii() and number.isdigit() and 0 < int(number) < 2**16):
        raise UsageError(
            f"--engine local={number}: how many processes? Give a whole number from 1 on, such as local=2."
        )
    _refuse_kernels(model, "local")
    task = dataclasses.replace(task, model=statistics_of(model, []).to_bytes(solve=False))
    tools: Any = joblib  # it has no types
    pool = tools.Parallel(n_jobs=min(int(number or os.cpu_count() or 1), task.count), return_as="generator")
    levels: list[list[tuple[bytes, str]]] = [[]]
    try:
        for done, one in enumerate(pool(tools.delayed(learn_file)(task, place) for place in range(task.count)), 1):
            _push(levels, 0, one)
            if watch is not None:
                watch(done, task.count)
    except TerminatedWorkerError as error:
        raise StreamError(
            f"--engine local: a process died ({str(error).splitlines()[0]}). Most often a file does not fit memory. "
            "Cut it, or use fewer processes. Nothing was written."
        ) from None
    for height in range(len(levels) - 1):
        if levels[height]:
            levels[height + 1].append(join_files(levels[height]))
    return join_files(levels[-1])


def _push(levels: list[list[tuple[bytes, str]]], height: int, one: tuple[bytes, str]) -> None:
    """Add the state of a file to the tree of eights that Dask and Spark merge by."""
    if height == len(levels):
        levels.append([])
    levels[height].append(one)
    if len(levels[height]) == FAN_IN:
        joined, levels[height] = join_files(levels[height]), []
        _push(levels, height + 1, joined)


def _refuse_kernels(model: Any, engine: str) -> None:
    if isinstance(model, KernelSubspace) and isinstance(model.landmarks, str | int):
        raise UsageError(
            f"--kernel needs landmarks from all parts first, which --engine {engine} does not do. Use dask."
        )


def _on_dask(task: FileTask, model: Any, address: str, watch: Watch | None) -> tuple[bytes, str]:
    try:
        from kampong.adapters import dask as on_dask
        from kampong.adapters.dask_groups import near, threads_of
        from kampong.adapters.dask_parts import Parts, Reader, compute, parts_of, tree
    except ImportError:
        raise UsageError(f"--engine dask needs the extra dask: {how_to_install('dask')}.") from None
    with _dask_client(address) as client:
        try:
            prepared = on_dask.prepared(model, parts_of(unpacked(task.packed), None, None, task.layout), client)
            task = dataclasses.replace(task, model=prepared.to_bytes(solve=False))
            parts = Parts(Reader("files"), [()] * task.count, token=f"{os.getpid()}")
            where = near(task.count, threads_of(client))
            made = tree(parts, "learn", _learn_numbered, join_files, task, where)
            found: tuple[bytes, str] = compute(made, client, on_dask.PATIENCE, watch)
            return found
        except RuntimeError as error:  # no workers, or a part that kills them
            raise StreamError(f"--engine dask: {error}") from None


def _learn_numbered(common: tuple[FileTask, Any], number: int) -> tuple[bytes, str]:
    return learn_file(common[0], number)


@contextmanager
def _dask_client(address: str) -> Iterator[Any]:
    from distributed import Client, LocalCluster

    if address:
        try:
            with Client(address, timeout="10s") as client:
                yield client
        except (OSError, TimeoutError) as error:
            raise StreamError(
                f"--engine dask={address}: no scheduler answers there within 10 seconds ({error}). Start one with "
                "`dask scheduler`, or leave out the address to use this machine."
            ) from None
        return
    settings: dict[str, Any] = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with LocalCluster(n_workers=os.cpu_count(), **settings) as cluster, Client(cluster) as client:
        yield client


def _on_spark(task: FileTask, model: Any, _: str, watch: Watch | None) -> tuple[bytes, str]:
    _refuse_kernels(model, "spark")
    try:
        from kampong.adapters import spark as on_spark
    except ImportError:
        raise UsageError(f"--engine spark needs the extra spark: {how_to_install('spark')}.") from None
    task = dataclasses.replace(task, model=statistics_of(model, []).to_bytes(solve=False))
    return on_spark.reduce_files(task, learn_file, join_files, watch)
