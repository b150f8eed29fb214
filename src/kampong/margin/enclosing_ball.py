"""The ball vector machine (Tsang, Kocsor and Kwok 2007): a ball of fixed radius around all patterns, without a solver.

All patterns have the same length r, and r is the radius. As long as a pattern is further than (1 + ε) r from the
centre, the centre moves towards the furthest one until this is at distance r.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kampong.kernels.functions import BLOCK_ROWS
from kampong.margin.core_set import Solution
from kampong.margin.problem import UNKNOWN

if TYPE_CHECKING:
    from kampong._core.compute import Float
    from kampong.margin.hull import Hull
    from kampong.margin.kernel_rows import KernelRows
    from kampong.margin.problem import Options


def enclose_all(rows: KernelRows, hulls: list[Hull], options: Options) -> list[Solution]:
    """Find a ball for each problem, one after another; the point of the hull is its centre.

    Parameters
    ----------
    rows : KernelRows
        The kernel values, shared by all problems.
    hulls : list of Hull
        The problems, with patterns of equal length.
    options : Options
        How to solve: `tol` is ε.

    Returns
    -------
    list of Solution
        One per hull, with the duality gap that the ball leaves.
    """
    found: list[Solution] = []
    n, stopped, watcher = rows.n_samples, False, options.watcher
    unknown = Solution(np.zeros(n), np.full(n, math.inf), UNKNOWN, 0, 0, "interrupted")
    for place, hull in enumerate(hulls):
        if watcher is not None and not stopped:
            watcher.begin()
        # after an interrupt the other problems get as few steps as a model needs
        one = enclose(rows, hull, options.tol, 1 if stopped else options.max_steps)
        found.append(
            Solution(one.alpha, one.gradient, one.gap, one.n_core, one.steps, "interrupted") if stopped else one
        )
        stopped = stopped or one.status == "interrupted"
        if watcher is not None and not stopped:
            others = [unknown] * (len(hulls) - place - 1)
            stopped = watcher.end(partial(list, [*found, *others])) and bool(others)
    return found


def enclose(rows: KernelRows, hull: Hull, epsilon: float, steps: int) -> Solution:
    """Move the centre until all patterns are within (1 + ε) times the radius, or this many steps are taken."""
    squared_radius = float(hull.squared_norms(rows.diagonal)[0])
    alpha: Float = np.zeros(rows.n_samples)
    gradient: Float = np.zeros(rows.n_samples)
    length, taken, status, nearer = squared_radius, 0, "steps", 0.0
    furthest = 0
    try:
        while True:
            row = hull.signs[furthest] * hull.signs * (_kernel_row(rows, furthest, gradient) + hull.offset)
            row[furthest] += hull.ridges[furthest]
            moved = nearer * alpha
            moved[furthest] += 1.0 - nearer
            # together, so that an interrupt finds them of one point
            alpha, gradient = moved, nearer * gradient + (1.0 - nearer) * row
            length = float(alpha @ gradient)
            furthest = int(np.argmin(gradient))
            squared = length + squared_radius - 2.0 * float(gradient[furthest])
            if squared <= (1.0 + epsilon) ** 2 * squared_radius:
                status = "converged"
                break
            if taken == steps:
                break
            nearer, taken = math.sqrt(squared_radius / squared), taken + 1
    except KeyboardInterrupt:
        if not alpha.any():
            raise
        status = "interrupted"
    gap = hull.gap(alpha, gradient)
    return Solution(alpha, gradient, gap, int(np.count_nonzero(alpha)), taken, status)


def _kernel_row(rows: KernelRows, place: int, gradient: Float) -> Float:
    """Return a row of kernel values, float64."""
    if rows.slot_of[place] < 0:
        # a block of them costs little more than one; the furthest patterns will be needed next
        near = np.argpartition(gradient, min(BLOCK_ROWS, len(gradient) - 1))[:BLOCK_ROWS]
        rows.fetch(np.append(near[near != place][: rows.capacity - 1], place))
    row: Float = rows.store[rows.slot_of[place]].astype(np.float64)
    return row
