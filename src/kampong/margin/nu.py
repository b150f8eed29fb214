"""The number of patterns that ν stands for in each problem, and the smallest one that has a soft margin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong.data.validation import check_number
from kampong.margin.core_set import solve

if TYPE_CHECKING:
    from kampong._core.compute import Float
    from kampong.margin.hull import Hull
    from kampong.margin.kernel_rows import KernelRows
    from kampong.margin.problem import Options


def check_nu(owner: str, nu: Any, n_problems: int) -> list[float]:
    """Return ν of each problem: one number for all, or one per problem."""
    step = 'Use None for a hard margin, "auto" for the smallest nu that has one.'
    if isinstance(nu, Sequence | np.ndarray) and not isinstance(nu, str):
        if len(nu) != n_problems:
            raise ValueError(
                f"{owner}: nu has {len(nu)} values for {n_problems} problems of two classes. Give one number, or one a "
                "problem (one per class, or a single one for two classes)."
            )
        return [check_number(owner, "nu", value, low=0.0, high=1.0, next_step=step) for value in nu]
    return [check_number(owner, "nu", nu, low=0.0, high=1.0, next_step=step)] * n_problems


def most_patterns(signs: Float, split: bool, whole: bool, weights: Float | None = None) -> int:
    """Return the most patterns of a step: a class for a split hull, all of them with `whole`, else 2·min(M₊, M₋).

    A pattern of weight 2 counts twice. Past the last, ν no longer makes sense: the weights of one class are all at the
    cap (Martinetz 2004, section IV.B).
    """
    plus, minus = (_weight_of(signs, sign, weights) for sign in (1.0, -1.0))
    smaller, total = min(plus, minus) or plus + minus, plus + minus
    if split:
        return int(smaller + 1e-9)
    return int((total if whole else min(2 * smaller, total)) + 1e-9)


def _weight_of(signs: Float, sign: float, weights: Float | None) -> float:
    """Return the weight of the patterns of one side."""
    return float(np.count_nonzero(signs == sign) if weights is None else weights[signs == sign].sum())


def count_patterns(
    owner: str,
    nu: float,
    signs: Float,
    *,
    split: bool,
    whole: bool,
    of_largest: bool,
    weights: Float | None = None,
) -> int:
    """Return K: νM patterns, or ν times the most of this problem; half as many of each class for a split hull."""
    plus, minus = (_weight_of(signs, sign, weights) for sign in (1.0, -1.0))
    n, most = plus + minus, most_patterns(signs, split, whole, weights)
    total = n / 2 if split else n
    count = max(1, math.ceil((nu * most if of_largest else nu * total) - 1e-9))
    if count > most:
        smaller = min(plus, minus)
        more = "" if split else ', walk="paper" goes up to 1'
        raise ValueError(
            f"{owner}: nu={nu:g} asks for {math.ceil(nu * n - 1e-9)} of {n:g} patterns, but the smaller side of a "
            f"problem has {smaller:g}; nu must be at most 2·{smaller:g}/{n:g} = {2 * smaller / n:.4g}. Lower nu, or "
            f'give each problem its own: a sequence, or nu_of="largest" for a share of the most it can have{more}.'
        )
    return count


def smallest_patterns(
    rows: KernelRows,
    hull: Hull,
    most: int,
    options: Options,
    rng: np.random.RandomState,
    weights: Float | None = None,
) -> int:
    """Return the smallest K whose reduced hull leaves the origin out, by bisection; `most` where none does.

    The margin d_K grows with K (section IV.A), so that one bound above zero at K proves it for all larger K. A solve
    that ends without such a bound counts as none.
    """

    def exists(count: int) -> bool:
        reduced = replace(hull, cap=(1.0 if weights is None else weights) * hull.group_sum / count)
        return solve(rows, [reduced], options, rng)[0].gap.relative < 1

    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if exists(middle):
            high = middle
        else:
            low = middle + 1
    return high
