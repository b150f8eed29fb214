"""Parts of a Dask source, the tree of tasks over them, and how it is computed: what the adapter to Dask is built on."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dask
import numpy as np
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.task_spec import DataNode, List, Task, TaskRef

from kampong.adapters.file_parts import Counts, batches_of, files_of, packed, schema_of, unpacked
from kampong.merging import FAN_IN, grouped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kampong.streaming.columns.schema import Layout

    Watch = Callable[[int, int], None]


class NoWorkersError(RuntimeError):
    """All workers of a cluster were gone for longer than a fit waits, or its scheduler is.

    Examples
    --------
    >>> from kampong.adapters.dask import NoWorkersError
    >>> try:
    ...     raise NoWorkersError("no workers for 60 seconds")
    ... except RuntimeError as error:
    ...     print(error)
    no workers for 60 seconds
    """


class KilledPartError(RuntimeError):
    """Worker after worker died with the same part."""


@dataclass
class Parts:
    """Where the rows are: for every part what its task is given, and how that is read."""

    reader: Reader
    arguments: list[tuple[Any, ...]]
    collections: list[Delayed] = field(default_factory=list)
    token: str = ""


@dataclass(frozen=True)
class Reader:
    """How a task makes batches of what it is given: blocks, frames or files."""

    kind: str
    label: str | None = None
    weight: str | None = None
    files: Files | None = None

    def batches(self, counts: Counts, number: int, *given: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the batches of a part, and count them.

        Parameters
        ----------
        counts : Counts
            Is added to.
        number : int
            The number of the part.
        *given : object
            What the task was given: its blocks or its frame.

        Yields
        ------
        tuple
            Rows, labels, and weights or None.
        """
        if self.files is not None:
            files = self.files
            yield from batches_of(unpacked(files.packed)[number], files.layout, files.schema, counts)
            return
        if self.kind == "frames":
            (frame,) = given
            apart = [name for name in (self.label, self.weight) if name is not None]
            labels = frame[self.label].to_numpy()
            batch = (frame.drop(columns=apart), labels, None if self.weight is None else frame[self.weight].to_numpy())
        else:
            batch = (*given, None)[:3]
        counts.records += batch[0].shape[0]
        counts.rows += batch[0].shape[0]
        yield batch


@dataclass(frozen=True)
class Files:
    """The names of the files of a source, packed to go to every worker, and what is known of their columns."""

    packed: bytes
    layout: Layout
    schema: Any


def parts_of(X: Any, y: Any, weights: Any, layout: Layout | None) -> Parts:
    """Return the parts of a source of any kind."""
    kind = type(X).__module__.partition(".")[0], type(X).__name__
    if kind == ("dask", "Array"):
        return _array_parts(X, y, weights)
    if kind[0] in ("dask", "dask_expr") and hasattr(X, "map_partitions"):
        return _frame_parts(X, y, weights)
    if isinstance(X, str | list | tuple | os.PathLike):
        if weights is not None:
            raise ValueError("fit: files have no column of weights here. Read them as a dask dataframe for that.")
        return _file_parts(X, y, layout)
    raise TypeError(
        f"fit: X is a {type(X).__name__}; it needs to be a dask array, a dask dataframe, a path or a list of paths. "
        "Use dask.array.from_array for an array in memory, or the estimator's own fit."
    )


def _array_parts(X: Any, y: Any, weights: Any) -> Parts:
    import dask.array as da

    if X.ndim != 2:
        raise ValueError(f"fit: X has {X.ndim} dimension(s); it needs 2.")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    if y is None:
        raise ValueError("fit: y is missing. Give the labels as a dask array that is cut like X.")
    columns = [X, _cut_like(X, y, "y", da)]
    if weights is not None:
        columns.append(_cut_like(X, weights, "sample_weight", da))
    # optimised together: apart, what rows and labels are both made of would be made twice
    keys = [list(dask.core.flatten(column.__dask_keys__())) for column in columns]
    every = [key for several in keys for key in several]
    whole = X.__dask_optimize__(HighLevelGraph.merge(*(column.dask for column in columns)), every)
    token = dask.base.tokenize(*(column.name for column in columns))
    graph = HighLevelGraph.from_collections(f"kampong-blocks-{token}", dict(whole))
    arguments = [tuple(map(TaskRef, part)) for part in zip(*keys, strict=True)]
    return Parts(
        Reader("blocks"), arguments, [Delayed(keys[0][0], graph, layer=f"kampong-blocks-{token}")], token=token
    )


def _cut_like(X: Any, column: Any, name: str, da: Any) -> Any:
    """Return labels or weights as a dask array in the same parts as the rows."""
    known = not any(np.isnan(X.chunks[0]))
    if not isinstance(column, da.Array):
        if not known:
            raise ValueError(
                f"fit: the parts of X have unknown lengths, so {name} must be a dask array with the same parts, or "
                "call X.compute_chunk_sizes() first."
            )
        column = np.asarray(column)
        if len(column) != X.shape[0]:
            raise ValueError(f"fit: {name} has {len(column)} entries, but X has {X.shape[0]} rows.")
        return da.from_array(column, chunks=(X.chunks[0], *((n,) for n in column.shape[1:])))
    if known and not any(np.isnan(column.chunks[0])):
        if column.shape[0] != X.shape[0]:
            raise ValueError(f"fit: {name} has {column.shape[0]} entries, but X has {X.shape[0]} rows.")
        return column.rechunk((X.chunks[0], *((n,) for n in column.shape[1:])))
    if column.numblocks[0] != X.numblocks[0]:
        raise ValueError(
            f"fit: {name} has {column.numblocks[0]} parts, but X has {X.numblocks[0]}: cut both the same way."
        )
    return column


def _frame_parts(frame: Any, label: Any, weight: Any) -> Parts:
    names = frame.columns.tolist()
    for what, column in (("y", label), ("sample_weight", weight)):
        if (what == "y" or column is not None) and (not isinstance(column, str) or column not in names):
            raise ValueError(
                f"fit: {what} must be the name of a column of the dataframe, got {column!r:.60}. There are "
                f"{', '.join(map(repr, names[:12]))}."
            )
    blocks = frame.to_delayed()
    arguments: list[tuple[Any, ...]] = [(TaskRef(block.key),) for block in blocks]
    token = dask.base.tokenize(blocks[0].key, len(blocks), label, weight)
    return Parts(Reader("frames", label, weight), arguments, list(blocks[:1]), token=token)


def _file_parts(where: Any, label: Any, layout: Layout | None) -> Parts:
    paths = files_of(where)
    layout, schema = schema_of(paths, label, layout)
    reader = Reader("files", files=Files(packed(paths), layout, schema))
    return Parts(reader, [()] * len(paths), token=dask.base.tokenize(paths, layout))


def tree(
    parts: Parts,
    title: str,
    leaf: Callable[..., Any],
    join: Callable[..., Any],
    given: Any,
    where: dict[str, Any] | None = None,
) -> Delayed:
    """Return a graph: `leaf((given, reader), number, *part)` for every part, and `join` of eight in their order.

    Parameters
    ----------
    parts : Parts
        Where the rows are.
    title : str
        What the tasks are called on Dask's dashboard.
    leaf : callable
        A pure function of one part.
    join : callable
        Makes one result of a list of results of `leaf` or of itself.
    given : object
        Given to every leaf, and once in the graph.
    where : dict, optional
        Dask's annotations of the leaves, for instance on which worker each should rather run.

    Returns
    -------
    Delayed
        The last result.
    """
    token = dask.base.tokenize(parts.token, title, given)
    name, key = f"kampong-{title}-{token}", f"kampong-{title}-with-{token}"
    common = DataNode(key, (given, parts.reader))
    leaves: dict[Any, Any] = {
        (name, number): Task((name, number), leaf, TaskRef(key), number, *arguments)
        for number, arguments in enumerate(parts.arguments)
    }
    return merged_tree(parts.collections, common, leaves, join, where)


def merged_tree(
    below: list[Delayed],
    common: DataNode,
    leaves: dict[Any, Any],
    join: Callable[..., Any],
    where: dict[str, Any] | None = None,
    *arguments: Any,
) -> Delayed:
    """Return a graph of leaves and of what joins eight of their results at a time.

    Parameters
    ----------
    below : list of Delayed
        What the leaves need.
    common : DataNode
        What all leaves are given.
    leaves : dict
        The tasks of the parts, by (name, number).
    join : callable
        Called with `arguments` and a list of results.
    where : dict, optional
        Dask's annotations of the leaves.
    *arguments : object
        See `join`.

    Returns
    -------
    Delayed
        The last result.
    """
    level = list(leaves)
    name, height, above = level[0][0], 0, dict[Any, Any]()
    joined = name.replace("kampong-", "kampong-merge-", 1)
    while len(level) > 1 or height == 0:
        higher = []
        for number, group in enumerate(grouped(level, FAN_IN)):
            one = (joined, height, number)
            above[one] = Task(one, join, *arguments, List([TaskRef(key) for key in group]))
            higher.append(one)
        level, height = higher, height + 1
    graph = leaf_graph(below, common, leaves, where)
    layers: dict[str, Any] = {**graph.layers, joined: MaterializedLayer(above)}
    needs = {**graph.dependencies, joined: {name, common.key}}
    return Delayed(level[0], HighLevelGraph(layers, needs), layer=joined)


def leaf_graph(
    below: list[Delayed], common: DataNode, leaves: dict[Any, Any], where: dict[str, Any] | None = None
) -> HighLevelGraph:
    """Return a graph of leaves, of what they need, and of what all are given; `where` are their annotations."""
    name = next(iter(leaves))[0]
    graph = HighLevelGraph.from_collections(name, leaves, dependencies=below)
    layers: dict[str, Any] = {**graph.layers, common.key: MaterializedLayer({common.key: common})}
    layers[name] = MaterializedLayer(leaves, annotations=where)
    needs = {**graph.dependencies, common.key: set[str]()}
    needs[name] = {*graph.dependencies[name], common.key}
    return HighLevelGraph(layers, needs)


def compute(what: Delayed, client: Any, patience: float, watch: Watch | None = None) -> Any:
    """Compute a graph on the cluster, or with Dask's own threads where there is none.

    The result is released at once: a cluster that still held it would compute it again whenever a worker dies.
    """
    client = current_client() if client is None else client
    if client is None:
        return what.compute()
    from distributed import CancelledError, KilledWorker

    done, total = threading.Event(), sum(str(key).startswith(f"('{_leaves(what)}'") for key in what.dask)
    future = client.compute(what, optimize_graph=True)
    future.add_done_callback(lambda _: done.set())
    try:
        _wait(done, client, patience, lambda: _tell(watch, client, _leaves(what), total))
        result = future.result()
        if watch is not None:
            watch(total, total)
        return result
    except KilledWorker as error:
        raise KilledPartError(
            f"the task {error.task} was running on {error.allowed_failures + 1} workers that died, the last at "
            f"{error.last_worker.address}, so it was given up. Most often a part does not fit the memory of a worker: "
            "make parts smaller, or give workers more memory."
        ) from None
    except CancelledError:
        raise _scheduler_gone(client) from None
    finally:
        if not done.is_set() and client.status == "running":
            future.cancel()
        future.release()


def _wait(done: threading.Event, client: Any, patience: float, look: Callable[[], Any]) -> None:
    """Wait for a result; give up where there has been no worker, or no scheduler, for some seconds."""
    alone_since: float | None = None
    while not done.wait(max(0.05, min(0.5, patience / 4))):
        workers = count_workers(client)
        alone_since = None if workers else alone_since or time.monotonic()
        if alone_since is not None and time.monotonic() - alone_since > patience:
            if workers is None:
                raise _scheduler_gone(client)
            raise NoWorkersError(
                f"the cluster at {client.scheduler.address} has had no worker for {patience:g} seconds. Nothing was "
                "changed: start workers, and fit again."
            )
        if workers:
            look()


def count_workers(client: Any) -> int | None:
    """Return how many workers a cluster has, None where its scheduler does not answer."""
    if client.status != "running":  # asking would wait for the scheduler to come back
        return None
    try:
        return len(client.nthreads())
    except OSError:
        return None


def _scheduler_gone(client: Any) -> NoWorkersError:
    return NoWorkersError(
        f"the scheduler at {client.scheduler.address} is gone, or has been restarted. Nothing was changed: start it, "
        "connect again, and fit again."
    )


def _tell(watch: Watch | None, client: Any, name: str, total: int) -> None:
    if watch is None:
        return
    try:
        finished = _finished(client, name)
    except OSError:  # the scheduler does not answer; the next look at the workers says so
        return
    watch(finished, total)


def _leaves(what: Delayed) -> str:
    """Return the name of the tasks of a tree that read the parts."""
    return str(what.key[0]).replace("kampong-merge-", "kampong-", 1)


def _finished(client: Any, name: str) -> int:
    """Return how many tasks of a name are done."""
    return int(client.run_on_scheduler(_count_finished, name=name))


def _count_finished(dask_scheduler: Any, name: str) -> int:
    group = dask_scheduler.task_groups.get(name)
    states = {} if group is None else group.states
    return sum(states.get(state, 0) for state in ("memory", "released", "forgotten"))


def current_client() -> Any:
    """Return the client that the caller has opened, or None."""
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None
