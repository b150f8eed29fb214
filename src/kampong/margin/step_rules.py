"""The step rules, compiled: MinOver, MaxMinOver (Martinetz 2004) and pairwise steps with exact line search.

Each takes at most this many steps, changes the state in place, and returns how many it took. The walks read rows from a
store and also return the row that is missing there, or −1; pairwise steps have all rows of their patterns in one block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.compute import compiled

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer


@compiled
def minover(
    store: Float,
    slot_of: Integer,
    signs: Float,
    offset: float,
    groups: Integer,
    n_groups: int,
    patterns: int,
    limit: float,
    counts: Integer,
    margins: Float,
    steps: int,
) -> tuple[int, int]:
    """Learn: v ← v + z_α, z_α the mean of the patterns of least margin (`limit` is not used)."""
    for t in range(steps):
        chosen = _extreme(margins, groups, n_groups, patterns, counts, False)
        for i in chosen:
            if slot_of[i] < 0:
                return t, i
        for i in chosen:
            counts[i] += 1
            _add(store[slot_of[i]], signs, offset, i, 1.0 / patterns, margins)
    return steps, -1


@compiled
def maxminover(
    store: Float,
    slot_of: Integer,
    signs: Float,
    offset: float,
    groups: Integer,
    n_groups: int,
    patterns: int,
    limit: float,
    counts: Integer,
    margins: Float,
    steps: int,
) -> tuple[int, int]:
    """Learn, and forget the stored z_ω of largest margin: v ← v + 2z_α − z_ω, where v · z_ω − v · z_α ≥ 4R²."""
    for t in range(steps):
        chosen = _extreme(margins, groups, n_groups, patterns, counts, False)
        forgotten = _extreme(margins, groups, n_groups, patterns, counts, True)
        difference = 0.0
        for i in forgotten:
            difference += margins[i] / patterns
        for i in chosen:
            difference -= margins[i] / patterns
        forget = len(forgotten) == n_groups * patterns and difference >= limit
        for i in chosen:
            if slot_of[i] < 0:
                return t, i
        if forget:
            for i in forgotten:
                if slot_of[i] < 0:
                    return t, i
        times = 2 if forget else 1
        for i in chosen:
            counts[i] += times
            _add(store[slot_of[i]], signs, offset, i, times / patterns, margins)
        if forget:
            for i in forgotten:
                counts[i] -= 1
                _add(store[slot_of[i]], signs, offset, i, -1.0 / patterns, margins)
    return steps, -1


@compiled
def _add(row: Float, signs: Float, offset: float, i: int, weight: float, margins: Float) -> None:
    factor = weight * signs[i]
    for j in range(len(margins)):
        margins[j] += factor * signs[j] * (row[j] + offset)


@compiled
def _extreme(margins: Float, groups: Integer, n_groups: int, patterns: int, counts: Integer, stored: bool) -> Integer:
    """Return the patterns of least margin in each group; or, of those stored, the patterns of largest margin."""
    chosen = np.empty(n_groups * patterns, dtype=np.int64)
    found = 0
    for group in range(n_groups):
        if patterns == 1:
            best, position = np.inf, -1
            for i in range(len(margins)):
                if groups[i] == group and (not stored or counts[i] > 0):
                    value = -margins[i] if stored else margins[i]
                    if value < best:
                        best, position = value, i
            if position >= 0:
                chosen[found] = position
                found += 1
        else:
            members = np.empty(len(margins), dtype=np.int64)
            n_members = 0
            for i in range(len(margins)):
                if groups[i] == group and (not stored or counts[i] > 0):
                    members[n_members] = i
                    n_members += 1
            values = margins[members[:n_members]]
            if stored:
                values = -values
            order = np.argsort(values, kind="mergesort")
            for position in order[:patterns]:
                chosen[found] = members[position]
                found += 1
    return chosen[:found]


@compiled
def pairwise(
    K: Float,
    diagonal: Float,
    signs: Float,
    offset: float,
    ridge: Float,
    groups: Integer,
    n_groups: int,
    cap: Float,
    alpha: Float,
    gradient: Float,
    tol: float,
    floor: float,
    steps: int,
    rest: float = 0.0,
    enough: float = 0.0,
) -> tuple[int, float, float]:
    """Move weight from one pattern to another of its group, with exact line search.

    The receiver has the least margin; the giver is the one that lowers the objective most (second order). Ends when no
    pair differs by more than `enough` or `tol` times the objective, or when the objective is below `floor`. Each
    pattern has a ridge and a cap of its own. Returns the steps taken, the largest difference, which bounds the duality
    gap of these patterns, and the objective. Patterns outside the block may have weight; `rest` is their α · gradient
    at the start.
    """
    objective = rest
    for i in range(len(alpha)):
        objective += alpha[i] * gradient[i]
    difference = np.inf
    for t in range(steps):
        receiver, difference = _receiver(groups, n_groups, cap, alpha, gradient)
        if receiver < 0 or difference <= max(enough, tol * objective) or objective <= floor:
            return t, difference, objective
        row, sign = K[receiver], signs[receiver]
        giver, curvature = _giver(row, diagonal, signs, offset, ridge, groups, alpha, gradient, receiver)
        if giver < 0:
            return t, difference, objective
        weight, room = alpha[giver], cap[receiver] - alpha[receiver]
        descent = gradient[giver] - gradient[receiver]
        step = min(weight, room)
        # with a kernel that is not an inner product the curvature may be negative: then move as much as possible
        if descent < curvature * step:
            step = descent / curvature
        alpha[giver] = 0.0 if step == weight else weight - step
        alpha[receiver] = cap[receiver] if step == room else alpha[receiver] + step
        other = K[giver]
        plus, minus = step * sign, step * signs[giver]
        shift = offset * (plus - minus)
        for j in range(len(alpha)):
            gradient[j] += signs[j] * (plus * row[j] - minus * other[j] + shift)
        gradient[receiver] += step * ridge[receiver]
        gradient[giver] -= step * ridge[giver]
        objective += step * (step * curvature - 2.0 * descent)
    return steps, difference, objective


@compiled
def _receiver(groups: Integer, n_groups: int, cap: Float, alpha: Float, gradient: Float) -> tuple[int, float]:
    """Return the pattern of least margin with room for weight, and how far the largest margin with weight is above."""
    receiver, difference = -1, -np.inf
    for group in range(n_groups):
        low, high, position = np.inf, -np.inf, -1
        for i in range(len(alpha)):
            if groups[i] == group:
                if gradient[i] < low and alpha[i] < cap[i]:
                    low, position = gradient[i], i
                if gradient[i] > high and alpha[i] > 0.0:
                    high = gradient[i]
        if position >= 0 and high - low > difference:
            receiver, difference = position, high - low
    return receiver, difference


@compiled
def _giver(
    row: Float,
    diagonal: Float,
    signs: Float,
    offset: float,
    ridge: Float,
    groups: Integer,
    alpha: Float,
    gradient: Float,
    receiver: int,
) -> tuple[int, float]:
    """Return the pattern of the receiver's group whose weight lowers the objective most, and the curvature there."""
    low, own, sign, group = gradient[receiver], diagonal[receiver], signs[receiver], groups[receiver]
    base = own + offset + ridge[receiver]
    least = 1e-12 * abs(base) + 1e-300
    giver, best, curvature = -1, 0.0, 0.0
    for j in range(len(alpha)):
        descent = gradient[j] - low
        if descent > 0.0 and alpha[j] > 0.0 and groups[j] == group:
            squared = base + diagonal[j] + offset + ridge[j] - 2.0 * sign * signs[j] * (row[j] + offset)
            gain = descent * descent / max(squared, least)
            if gain > best:
                giver, best, curvature = j, gain, squared
    return giver, curvature
