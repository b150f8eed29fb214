"""The arrays that the history of a stream is written to: limits, names, shapes, and the check when read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kampong._runtime.arrays import Integer

CAPACITY = 512
"""Entries of the curves."""

DIRECTIONS = 8
"""Leading eigenvalues and coordinates that are kept."""

POINTS = 2048
"""Recent points that are kept."""

BATCH_SHARE = 8
"""A batch gives at most one part in so many of the kept points, so that they span several batches."""

CLASSES = 1024
"""Classes with counts of their own; later ones are counted together."""

LONGEST_NAME = 120
"""Longer class names are cut."""

RECENT_SLOTS, SLOT_ROWS = 16, 256
"""What counts as recent: so many slots, each of at least so many rows (4,096 rows) or of one larger batch."""

OTHER, ALL = 0, -1
"""Codes of the classes that are counted together, and of all rows."""

OTHER_NAME = "(other classes)"

SHAPES: dict[str, tuple[type, tuple[int, ...]]] = {
    "clock": (np.int64, ()),
    "counts": (np.int64, (5,)),
    "states": (np.float64, (1 + DIRECTIONS,)),
    "states_known": (np.int64, (3,)),
    "class_names": (np.uint8, ()),
    "class_ends": (np.int64, ()),
    "class_counts": (np.int64, (3,)),
    "recent": (np.int64, (4,)),
    "points": (np.float32, (DIRECTIONS,)),
    "point_facts": (np.int64, (4,)),
    "centres": (np.float64, (DIRECTIONS,)),
    "centre_facts": (np.int64, (2,)),
}


def check(arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse arrays that `to_arrays` cannot have written."""

    def need(truth: bool, what: str) -> None:
        if not truth:
            raise ValueError(f"History.from_arrays: {what}. The state is damaged: start from another checkpoint.")

    need(set(arrays) == set(SHAPES), f"the names are {sorted(arrays)}, expected {sorted(SHAPES)}")
    for name, (dtype, tail) in SHAPES.items():
        array = arrays[name]
        good = array.dtype == dtype and array.ndim == 1 + len(tail) and array.shape[1:] == tail
        need(good, f"{name} is {array.dtype} of shape {array.shape}, expected {np.dtype(dtype)} of (n, {tail})")
        need(bool(np.isfinite(array).all()), f"{name} is not finite")
    clock, ends, recent = arrays["clock"], arrays["class_ends"], arrays["recent"]
    facts, centre_facts = arrays["point_facts"], arrays["centre_facts"]
    need(len(clock) == 3 and min(clock) >= 1, f"the clock is {clock.tolist()}")
    capacity, stride, filled = clock.tolist()
    n, n_classes = len(arrays["counts"]), len(ends)
    need(n <= capacity and filled <= stride, f"{n} entries, {filled} of {stride} batches, do not fit {capacity}")
    need(len(arrays["states"]) == len(arrays["states_known"]) == n, "entries and states differ in number")
    known = arrays["states_known"]
    need(bool((known >= 0).all() and (known[:, :2] <= [1, DIRECTIONS]).all()), "states_known is out of range")
    need(all((arrays[name] >= 0).all() for name in ("counts", "class_counts")), "a count is negative")
    need(1 <= n_classes <= CLASSES and len(arrays["class_counts"]) == n_classes, f"{n_classes} classes are counted")
    need(bool((np.diff(ends, prepend=0) >= 0).all()) and ends[-1] == len(arrays["class_names"]), "names end wrongly")
    need(_are_slots(recent, n_classes), "the recent window is out of order")
    need(len(facts) == len(arrays["points"]) <= POINTS, f"{len(facts)} points are described")
    codes, widths = facts[:, 1:3], facts[:, 3]
    need(bool((codes >= [OTHER, -1]).all() and (codes < n_classes).all()), "a point has no such class")
    need(bool((widths >= 0).all() and (widths <= DIRECTIONS).all()), "a point has no such width")
    need(len(arrays["centres"]) == len(centre_facts) < n_classes, f"{len(centre_facts)} centres are described")
    inside = (centre_facts >= [OTHER + 1, 0]).all() and (centre_facts <= [n_classes - 1, DIRECTIONS]).all()
    need(bool(inside), "a centre has no such class or width")


def _are_slots(recent: Integer, n_classes: int) -> bool:
    """Whether the rows are slots one after the other, each beginning with its total."""
    if not len(recent):
        return True
    slots, codes = recent[:, 0], recent[:, 1]
    steps = np.diff(slots, prepend=-1)
    first = steps == 1
    in_order = bool(((steps == 0) | first).all()) and slots[-1] < RECENT_SLOTS
    return bool(
        in_order and (codes[first] == ALL).all() and (codes[~first] >= OTHER).all() and (codes < n_classes).all()
    )
