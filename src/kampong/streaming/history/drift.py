"""When the accuracy of a stream changed: ADWIN's rule on right and wrong predictions, in logarithmic memory.

A window of the latest predictions is kept as an exponential histogram: at most 5 buckets of each power of two, the
oldest two joined where there are more. Every 32 rows each cut of the window between two buckets is tried. With n0 and
n1 rows on its sides, error rates e0 and e1, W rows in the window and their variance v, the older part is dropped where

    |e0 − e1| > sqrt(2·v·D/m) + 2·D/(3·m),   D = ln(2·ln W / δ),   1/m = 1/(n0 − 4) + 1/(n1 − 4)

and that is an alarm. Since errors are 0 or 1, a bucket is its number of errors, and all variances follow.

Bifet and Gavaldà, Learning from time-changing data with adaptive windowing, 2007; the constants are river's.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from kampong._core.loops import Loop, part
from kampong.files.fields import array, plain, read, written

if TYPE_CHECKING:
    from kampong._core.compute import Integer
    from kampong.files import Contents

DELTA, CLOCK, BUCKETS, SHORTEST, GRACE = 0.002, 32, 5, 5, 10
"""Confidence, rows between two checks, buckets of a size, the shortest side of a cut, rows before the first check."""

LEVELS = 48
"""Sizes of buckets; the largest holds more rows than any stream."""

ALARMS = 64
"""The latest alarms that are kept."""

FIELDS = (
    array("_sizes", str(LEVELS), dtype=np.int64, low=0, high=BUCKETS),
    array("_errors", str(LEVELS), str(BUCKETS + 1), dtype=np.int64, low=0),
    array("_alarms", "alarms", "5", dtype=np.int64, low=0),
    plain("n_alarms", int, high=lambda sizes: sizes["checks"]),
)
"""What a file holds of a detector."""


class Alarm(NamedTuple):
    """A change of the accuracy: after how many rows; the rows before and after it in the window, and the right ones."""

    row: int
    rows_before: int
    right_before: int
    rows_after: int
    right_after: int

    @property
    def before(self) -> float:
        """The accuracy before."""
        return self.right_before / self.rows_before

    @property
    def after(self) -> float:
        """The accuracy after."""
        return self.right_after / self.rows_after


class DriftDetector:
    """ADWIN on the errors of a stream."""

    def __init__(self) -> None:
        self._sizes: Integer = np.zeros(LEVELS, dtype=np.int64)  # buckets of each size
        self._errors: Integer = np.zeros((LEVELS, BUCKETS + 1), dtype=np.int64)  # errors in each, the oldest first
        self._ticks: Integer = np.zeros(1, dtype=np.int64)
        self._alarms: Integer = np.zeros((0, 5), dtype=np.int64)
        self.n_alarms = 0

    def update(self, right: np.ndarray, rows: Integer) -> None:
        """Take the next predictions.

        Parameters
        ----------
        right : array of bool
            Which of them were right, in the order of the stream.
        rows : array of int
            Their row numbers, for the alarms.
        """
        wrong = (~right).astype(np.int64)
        found: Integer = np.zeros((len(wrong) // CLOCK + 1, 5), dtype=np.int64)
        n = watch_errors(self._sizes, self._errors, self._ticks, wrong, found)
        if n:
            found = found[:n].copy()
            found[:, 0] = rows[found[:, 0]]
            self._alarms = np.concatenate([self._alarms, found])[-ALARMS:]
            self.n_alarms += int(n)

    @property
    def width(self) -> int:
        """The rows in the window."""
        return int(self._sizes @ (1 << np.arange(LEVELS)))

    @property
    def errors(self) -> int:
        """The errors in the window."""
        return int(self._errors.sum())

    def alarms(self) -> list[Alarm]:
        """Return the latest alarms, the oldest first."""
        return [Alarm(*values) for values in self._alarms.tolist()]

    def to_state(self) -> dict[str, Any]:
        """Return everything by name."""
        return written(FIELDS, self)

    @classmethod
    def from_state(cls, contents: Contents, scored: int, rows: int) -> Self:
        """Return what `to_state` wrote, if it can be of this many predictions in this many rows."""
        detector, require = cls(), contents.require
        vars(detector).update(copy.deepcopy(read(FIELDS, contents, {"checks": scored // CLOCK})))
        contents.finish()
        errors, alarms = detector._errors, detector._alarms
        empty = np.arange(BUCKETS + 1) >= detector._sizes[:, None]
        full = errors <= (1 << np.arange(LEVELS))[:, None]
        require(bool(full.all()) and not errors[empty].any(), "errors holds more than its buckets have room for")
        held = len(alarms) == min(ALARMS, detector.n_alarms)
        require(held, f"alarms are {len(alarms)}, and n_alarms says {detector.n_alarms}")
        cut = detector.n_alarms > 0
        require(detector.width == scored or (cut and 0 < detector.width < scored), "sizes are not of all predictions")
        order = bool((np.diff(alarms[:, 0]) > 0).all()) and bool((alarms[:, 0] <= rows).all())
        require(order, "alarms are not in order")
        fits = (alarms[:, [2, 4]] <= alarms[:, [1, 3]]).all() and (alarms[:, [1, 3]] >= 1).all()
        require(bool(fits), "alarms holds more right predictions than rows")
        detector._ticks[0] = scored
        return detector


@Loop
def watch_errors(sizes: Integer, errors: Integer, ticks: Integer, wrong: Integer, found: Integer) -> int:
    """Add errors one by one; return how many alarms there were.

    Of each alarm write its place, and the rows and right predictions before and after it.
    """
    n_found = 0
    width, total = 0, 0
    for level in range(LEVELS):
        width += sizes[level] << level
        for k in range(sizes[level]):
            total += errors[level, k]
    for i in range(len(wrong)):
        errors[0, sizes[0]] = wrong[i]
        sizes[0] += 1
        width += 1
        total += wrong[i]
        for level in range(LEVELS - 1):
            if sizes[level] <= BUCKETS:
                break
            errors[level + 1, sizes[level + 1]] = errors[level, 0] + errors[level, 1]
            sizes[level + 1] += 1
            _drop(sizes, errors, level)
            _drop(sizes, errors, level)
        ticks[0] += 1
        if ticks[0] % CLOCK != 0 or width <= GRACE:
            continue
        width_before, total_before = width, total
        while True:
            if not _differs(sizes, errors, width, total):
                break
            oldest = LEVELS - 1
            while sizes[oldest] == 0:
                oldest -= 1
            width -= 1 << oldest
            total -= errors[oldest, 0]
            _drop(sizes, errors, oldest)
        if width < width_before:
            gone, errors_gone = width_before - width, total_before - total
            found[n_found, 0], found[n_found, 1], found[n_found, 2] = i, gone, gone - errors_gone
            found[n_found, 3], found[n_found, 4] = width, width - total
            n_found += 1
    return n_found


@part
def _drop(sizes: Integer, errors: Integer, level: int) -> None:
    """Take the oldest bucket of a size out."""
    sizes[level] -= 1
    for k in range(sizes[level]):
        errors[level, k] = errors[level, k + 1]
    errors[level, sizes[level]] = 0


@part
def _differs(sizes: Integer, errors: Integer, width: int, total: int) -> bool:
    """Tell whether some cut of the window separates two error rates."""
    n0, u0 = 0, 0
    variance = total * (width - total) / (width * width)
    depth = math.log(2.0 * math.log(float(width)) / DELTA)
    for level in range(LEVELS - 1, -1, -1):
        for k in range(sizes[level]):
            n0 += 1 << level
            u0 += errors[level, k]
            n1 = width - n0
            if n0 < SHORTEST or n1 < SHORTEST:
                continue
            m = 1.0 / (n0 - SHORTEST + 1) + 1.0 / (n1 - SHORTEST + 1)
            least = np.sqrt(2.0 * m * variance * depth) + 2.0 / 3.0 * depth * m
            if abs(u0 / n0 - (total - u0) / n1) > least:
                return True
    return False
