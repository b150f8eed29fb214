"""What the curves and points of a history are written as: limits, names, shapes, and the check when they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kampong.files.contents import LARGEST

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer
    from kampong.files import Contents

CAPACITY = 512
"""Entries of the curves."""

PIECE = 512
"""The most rows that an entry gets at once; a larger batch is several entries."""

DIRECTIONS = 8
"""Leading eigenvalues and coordinates that are kept."""

POINTS = 2048
"""Recent points that are kept."""

BATCH_SHARE = 8
"""A batch gives at most one in this many of the kept points, so that the points come from several batches."""

SHAPES: dict[str, tuple[type, tuple[int | None, ...]]] = {
    "counts": (np.int64, (None, 5)),
    "eigenvalues": (np.float64, (None, DIRECTIONS)),
    "directions": (np.int64, (None, 2)),
    "recent": (np.int64, (None, 2)),
    "points": (np.float32, (None, DIRECTIONS + 1)),
    "point_facts": (np.int64, (None, 5)),
    "offsets": (np.float32, (None, DIRECTIONS)),
}


class HistoryState(NamedTuple):
    """What curves and points are written as."""

    capacity: int
    stride: int
    filled: int
    counts: Integer
    eigenvalues: Float
    directions: Integer
    recent: Integer
    points: Float
    point_facts: Integer
    offsets: Float


def checked(contents: Contents, n_codes: int) -> HistoryState:
    """Return the state that `History.to_state` wrote, after all values that later code relies on are checked."""
    capacity = contents.whole("capacity", low=2)
    stride = contents.whole("stride", low=1)
    filled = contents.whole("filled", low=1, high=stride)
    arrays: Any = {name: contents.array(name, dtype, shape) for name, (dtype, shape) in SHAPES.items()}
    contents.finish()
    state = HistoryState(capacity, stride, filled, **arrays)
    _check_entries(contents, state)
    _check_points(contents, state, n_codes)
    return state


def _check_entries(contents: Contents, state: HistoryState) -> None:
    """Check the entries, and that their number fits the stride."""
    n, require = len(state.counts), contents.require
    require(state.capacity % 2 == 0, f"capacity is {state.capacity}, expected an even number")
    require(state.stride & (state.stride - 1) == 0, f"stride is {state.stride}, expected a power of two")
    require(n <= state.capacity, f"counts has {n} entries, more than capacity {state.capacity}")
    clock_fits = state.stride == 1 or n > state.capacity // 2
    require(clock_fits, f"stride is {state.stride}, which {n} entries of capacity {state.capacity} do not need")
    for name in ("eigenvalues", "directions", "recent"):
        require(len(getattr(state, name)) == n, f"{name} and counts differ in length")
    rows, scored, correct = state.counts[:, :3].T
    require(bool((state.counts >= 0).all()), "counts holds a negative count")
    require(bool((correct <= scored).all() and (scored <= rows).all()), "counts holds more than there are")
    largest = state.counts.astype(np.float64).sum(axis=0).max(initial=0.0)
    require(bool(largest < LARGEST), f"counts adds up to {largest:g}")
    known = state.directions
    in_range = (known >= 0).all() and (known[:, 0] <= DIRECTIONS).all() and (known[:, 0] <= known[:, 1]).all()
    require(bool(in_range), "directions is out of range")
    unknown = np.arange(DIRECTIONS) >= known[:, :1]
    require(not state.eigenvalues[unknown].any(), "eigenvalues holds numbers of no direction")
    window, right = state.recent.T
    so_far = np.cumsum(scored)
    require(bool((right >= 0).all() and (right <= window).all() and (window <= so_far).all()), "recent is out of range")


def _check_points(contents: Contents, state: HistoryState, n_codes: int) -> None:
    """Check the kept points."""
    facts, require = state.point_facts, contents.require
    require(len(facts) == len(state.points) <= POINTS, f"points are {len(state.points)}, point_facts {len(facts)}")
    require(len(facts) == len(state.offsets), f"offsets are {len(state.offsets)}, point_facts {len(facts)}")
    codes, widths = facts[:, 1:3], facts[:, 3]
    require(bool((codes >= [0, -1]).all() and (codes < n_codes).all()), "point_facts holds no such class")
    require(bool((widths >= 0).all() and (widths <= DIRECTIONS).all()), "point_facts holds no such width")
    chances = state.points[:, DIRECTIONS]
    require(bool((chances >= -1).all() and (chances <= 1).all()), "points holds a probability that is none")
    known = facts[:, 4]
    require(bool(((known == 0) | (known == widths)).all()), "point_facts holds no such width")
    require(not state.offsets[np.arange(DIRECTIONS) >= known[:, None]].any(), "offsets holds what point_facts denies")
