"""What the history of a stream is written as: limits, names, shapes, and the check when it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kampong.checkpoint.contents import LARGEST

if TYPE_CHECKING:
    from kampong._runtime.compute import Float, Integer
    from kampong.checkpoint import Contents

CAPACITY = 512
"""Entries of the curves."""

DIRECTIONS = 8
"""Leading eigenvalues and coordinates that are kept."""

POINTS = 2048
"""Recent points that are kept."""

BATCH_SHARE = 8
"""A batch gives at most one in so many of the kept points, so that the points come from several batches."""

CLASSES = 1024
"""The most classes with their own counts; later classes are counted together."""

LONGEST_NAME = 120
"""Longer class names are cut."""

RECENT_SLOTS, SLOT_ROWS = 16, 256
"""Recent rows: so many slots, each of at least so many rows (4,096 rows in all) or of one larger batch."""

OTHER, ALL = 0, -1
"""Codes of the classes that are counted together, and of all rows."""

OTHER_NAME = "(other classes)"

SHAPES: dict[str, tuple[type, tuple[int | None, ...]]] = {
    "counts": (np.int64, (None, 5)),
    "states": (np.float64, (None, 1 + DIRECTIONS)),
    "states_known": (np.int64, (None, 3)),
    "class_counts": (np.int64, (None, 3)),
    "recent": (np.int64, (None, 4)),
    "points": (np.float32, (None, DIRECTIONS)),
    "point_facts": (np.int64, (None, 4)),
    "centres": (np.float64, (None, DIRECTIONS)),
    "centre_facts": (np.int64, (None, 2)),
}


class HistoryState(NamedTuple):
    """What a history is written as."""

    capacity: int
    stride: int
    filled: int
    class_names: tuple[str, ...]
    counts: Integer
    states: Float
    states_known: Integer
    class_counts: Integer
    recent: Integer
    points: Float
    point_facts: Integer
    centres: Float
    centre_facts: Integer


def checked(contents: Contents) -> HistoryState:
    """Return the state that `History.to_state` wrote, after all values that later code relies on are checked."""
    capacity = contents.whole("capacity", low=2)
    stride = contents.whole("stride", low=1)
    filled = contents.whole("filled", low=1, high=stride)
    names = contents.words("class_names")
    arrays: Any = {name: contents.array(name, dtype, shape) for name, (dtype, shape) in SHAPES.items()}
    contents.finish()
    state = HistoryState(capacity, stride, filled, names, **arrays)
    _check_entries(contents, state)
    _check_classes(contents, state)
    _check_points(contents, state)
    return state


def _check_entries(contents: Contents, state: HistoryState) -> None:
    """Check the entries, and that their number fits the stride."""
    n, require = len(state.counts), contents.require
    require(state.capacity % 2 == 0, f"capacity is {state.capacity}, expected an even number")
    require(state.stride & (state.stride - 1) == 0, f"stride is {state.stride}, expected a power of two")
    require(n <= state.capacity, f"counts has {n} entries, more than capacity {state.capacity}")
    clock_fits = state.stride == 1 or n > state.capacity // 2
    require(clock_fits, f"stride is {state.stride}, which {n} entries of capacity {state.capacity} do not need")
    require(len(state.states) == len(state.states_known) == n, "counts, states and states_known differ in length")
    _require_counts(contents, "counts", state.counts)
    known, columns = state.states_known, np.arange(DIRECTIONS)
    in_range = (known >= 0).all() and (known[:, :2] <= [1, DIRECTIONS]).all() and (known[:, 1] <= known[:, 2]).all()
    require(bool(in_range), "states_known is out of range")
    unknown = np.c_[known[:, 0] == 0, columns >= known[:, 1:2]]
    require(not state.states[unknown].any(), "states holds numbers that states_known does not know")


def _check_classes(contents: Contents, state: HistoryState) -> None:
    """Check the classes and the recent window."""
    names, require = state.class_names, contents.require
    require(len(set(names)) == len(names) < CLASSES, "class_names are too many, or hold a name twice")
    require(all(len(name) <= LONGEST_NAME for name in names), "class_names holds a name that is too long")
    n_classes = len(names) + 1
    require(
        len(state.class_counts) == n_classes, f"class_names are {len(names)}, class_counts {len(state.class_counts)}"
    )
    _require_counts(contents, "class_counts", state.class_counts)
    require(_are_slots(state.recent, n_classes), "recent is out of order")
    require((len(state.recent) > 0) == (len(state.counts) > 0), "recent and counts do not begin together")
    pairs = state.recent[:, 2:]
    require(bool((pairs >= 0).all() and (pairs[:, 1] <= pairs[:, 0]).all()), "recent holds more right than predicted")


def _check_points(contents: Contents, state: HistoryState) -> None:
    """Check the kept points and the centres."""
    facts, centre_facts, require = state.point_facts, state.centre_facts, contents.require
    n_classes = len(state.class_names) + 1
    require(len(facts) == len(state.points) <= POINTS, f"points are {len(state.points)}, point_facts {len(facts)}")
    codes, widths = facts[:, 1:3], facts[:, 3]
    require(bool((codes >= [OTHER, -1]).all() and (codes < n_classes).all()), "point_facts holds no such class")
    require(bool((widths >= 0).all() and (widths <= DIRECTIONS).all()), "point_facts holds no such width")
    require(
        len(state.centres) == len(centre_facts) < n_classes,
        f"centres are {len(state.centres)}, centre_facts {len(centre_facts)}",
    )
    inside = (centre_facts >= [OTHER + 1, 0]).all() and (centre_facts <= [n_classes - 1, DIRECTIONS]).all()
    require(bool(inside), "centre_facts holds no such class or width")


def _require_counts(contents: Contents, name: str, counts: Integer) -> None:
    """Check that rows, predictions, right ones and what follows are not negative, and none exceeds the one before."""
    rows, scored, correct = counts[:, :3].T
    contents.require(bool((counts >= 0).all()), f"{name} holds a negative count")
    contents.require(bool((correct <= scored).all() and (scored <= rows).all()), f"{name} holds more than there are")
    largest = counts.astype(np.float64).sum(axis=0).max(initial=0.0)
    contents.require(bool(largest < LARGEST), f"{name} adds up to {largest:g}")


def _are_slots(recent: Integer, n_classes: int) -> bool:
    """Whether the rows are consecutive slots, each with its total first, then its classes in order."""
    if not len(recent):
        return True
    slots, codes = recent[:, 0], recent[:, 1]
    steps = np.diff(slots, prepend=-1)
    first = steps == 1
    in_order = bool(((steps == 0) | first).all()) and slots[-1] < RECENT_SLOTS
    ascending = bool((np.diff(codes, prepend=ALL)[~first] > 0).all())
    return bool(in_order and ascending and (codes[first] == ALL).all() and (codes < n_classes).all())
