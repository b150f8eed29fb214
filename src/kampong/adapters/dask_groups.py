"""Neighbouring parts of a Dask source learnt by one task, where they lie: fewer states are written, and few move.

    parts 0 1 2 3 → one task, part after part, merged in memory → bytes ┐
    parts 4 5 6 7 → …                                          → bytes ┴→ merged by eight → the model

What is merged with what is a binary tree over the numbers of the parts, 0 with 1, then 01 with 23, and so on. How many
parts a task takes follows from the number of workers; the tree does not, so all clusters give the same bits.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dask
from dask.task_spec import DataNode, GraphNode, Task, TaskRef

from kampong.adapters.dask_parts import current_client, merged_tree
from kampong.merging import FAN_IN, pairwise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dask.delayed import Delayed

    from kampong.adapters.dask_parts import Parts

SHARED = 4
"""Results of other tasks that a task over several parts may wait for; they would all be in its memory at once."""


@dataclass(frozen=True)
class Steps:
    """What a tree does: all pure functions.

    Attributes
    ----------
    leaf : callable
        Makes a value of one part: `leaf((given, reader), number, *blocks)`.
    join : callable
        Makes one value of two.
    pack, unpack : callable
        Turn a value into what travels, and back.
    """

    leaf: Callable[..., Any]
    join: Callable[[Any, Any], Any]
    pack: Callable[[Any], Any]
    unpack: Callable[[Any], Any]


@dataclass(frozen=True)
class Inside:
    """The tasks that only one group of parts needs: they run inside its own task.

    Attributes
    ----------
    blocks : tuple of tuple
        For every part the names of what its leaf is given.
    nodes : tuple
        The tasks of each part, each after those that it needs.
    outside : tuple
        The names of what comes from other tasks.
    """

    blocks: tuple[tuple[Any, ...], ...]
    nodes: tuple[tuple[Any, ...], ...]
    outside: tuple[Any, ...]

    def run(self, place: int, given: tuple[Any, ...]) -> list[Any]:
        """Run the tasks of one part, and return its blocks; a result is let go with the last that needs it."""
        nodes, wanted = self.nodes[place], self.blocks[place]
        left = Counter(below for node in nodes for below in node.dependencies)
        left.update(wanted)
        known = dict(zip(self.outside, given, strict=True))
        for node in nodes:
            known[node.key] = node({below: known[below] for below in node.dependencies})
            for below in node.dependencies:
                left[below] -= 1
                if not left[below]:
                    del known[below]
        return [known[key] for key in wanted]


def inside_of(inside: list[Inside], number: int) -> tuple[Any, ...]:
    """Return what the task of a group is given: nothing for files, which it reads itself."""
    return (inside[number], *map(TaskRef, inside[number].outside)) if inside else ()


def threads_of(client: Any) -> dict[str, int]:
    """Return the workers of a cluster and how many threads each has; without one, those of this machine."""
    client = current_client() if client is None else client
    found = {} if client is None else dict(client.nthreads())
    return found or {"": os.cpu_count() or 1}


def spread(parts: Parts, title: str, steps: Steps, given: Any, threads: dict[str, int]) -> Delayed:
    """Return a graph that makes one value of all parts.

    Parameters
    ----------
    parts : Parts
        Where the rows are.
    title : str
        What the tasks are called on Dask's dashboard.
    steps : Steps
        What the tasks do.
    given : object
        Given to every leaf, and once in the graph.
    threads : dict
        The threads of each worker, from `threads_of`: how many tasks keep them busy, and where neighbours go.
    """
    count = len(parts.arguments)
    size = group_size(count, sum(threads.values()))
    groups = [range(start, min(start + size, count)) for start in range(0, count, size)]
    inside = tasks_inside(parts, groups)
    if inside is None:
        size, groups = 1, [range(number, number + 1) for number in range(count)]
    token = dask.base.tokenize(parts.token, title, given, size, inside is None)
    name, key = f"kampong-{title}-{token}", f"kampong-{title}-with-{token}"
    leaves: dict[Any, Any] = {}
    common = TaskRef(key)
    for number in range(len(groups)):
        more = (None, *parts.arguments[number]) if inside is None else inside_of(inside, number)
        leaves[name, number] = Task((name, number), _run_group, common, number, *more)
    needed = inside is None or any(one.outside for one in inside)
    return merged_tree(
        parts.collections if needed else [],
        DataNode(key, (steps, given, parts.reader, size, count)),
        leaves,
        _merge_group,
        None if inside is None else near(len(leaves), threads),
        common,
    )


def group_size(parts: int, threads: int) -> int:
    """Return how many parts a task takes: a power of two, so that its parts are a branch of the tree.

    Each thread gets at least as many tasks as one step of the tree merges: with fewer, the last keep others waiting.
    """
    size = 1
    while parts >= 2 * size * FAN_IN * threads:
        size *= 2
    return size


@dataclass(frozen=True)
class Near:
    """Where each of many tasks should rather run: neighbours on the same worker."""

    workers: tuple[str, ...]
    tasks: int

    def __call__(self, key: tuple[str, int]) -> list[str]:
        """Return the worker for a task, by its number."""
        return [self.workers[key[1] * len(self.workers) // self.tasks]]


def near(tasks: int, threads: dict[str, int]) -> dict[str, Any] | None:
    """Return the wish that neighbours run on the same worker; if that one is gone or late, others take them."""
    workers = tuple(address for address, number in threads.items() for _ in range(number))
    return {"workers": Near(workers, tasks), "allow_other_workers": True} if len(threads) > 1 else None


# Tasks.


def _run_group(common: Any, number: int, inside: Inside | None = None, *given: Any) -> Any:
    """Make the values of neighbouring parts, one after another, and one value of all."""
    steps, about, reader, size, count = common

    def values() -> Iterable[Any]:
        for place, part in enumerate(range(number * size, min(number * size + size, count))):
            blocks = given if inside is None else inside.run(place, given)
            yield steps.leaf((about, reader), part, *blocks)

    return steps.pack(pairwise(values(), steps.join))


def _merge_group(common: Any, items: Sequence[Any]) -> Any:
    steps = common[0]
    if len(items) == 1:
        return items[0]
    return steps.pack(pairwise(map(steps.unpack, items), steps.join))


# What runs inside a task.


def tasks_inside(parts: Parts, groups: Sequence[range]) -> list[Inside] | None:
    """Return the tasks that run inside each group's own.

    None where blocks lie on workers, are cut from others, or are tasks of Dask's older form.
    """
    if not parts.collections:
        return []  # files: each task reads its own
    graph: dict[Any, Any] = {}
    for collection in parts.collections:
        graph.update(collection.dask)
    if not all(isinstance(node, GraphNode) for node in graph.values()):
        return None
    orders = []
    for arguments in parts.arguments:
        order = _order(graph, [argument.key for argument in arguments])
        if order is None:
            return None
        orders.append(order)
    users = Counter(key for order in orders for key in order)
    found: list[Inside] = []
    for group in groups:
        nodes = tuple(tuple(graph[key] for key in orders[part] if users[key] == 1) for part in group)
        blocks = tuple(tuple(argument.key for argument in parts.arguments[part]) for part in group)
        own = {node.key for several in nodes for node in several}
        needed = {below for several in nodes for node in several for below in node.dependencies}
        outside = tuple(sorted((needed | {key for several in blocks for key in several}) - own, key=str))
        if len(outside) > SHARED:
            return None
        found.append(Inside(blocks, nodes, outside))
    return found


def _order(graph: dict[Any, Any], wanted: Sequence[Any]) -> list[Any] | None:
    """Return all tasks below some, each after those that it needs; None where one lies on a worker already."""
    order: dict[Any, None] = {}
    stack = [(key, False) for key in reversed(wanted)]
    while stack:
        key, ready = stack.pop()
        if key in order:
            continue
        if key not in graph:
            return None
        if ready:
            order[key] = None
            continue
        stack.append((key, True))
        stack.extend((below, False) for below in sorted(graph[key].dependencies, key=str, reverse=True))
    return list(order)
