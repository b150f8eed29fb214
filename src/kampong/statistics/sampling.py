"""The sampler: every row gets a random clock from its number and a seed; the rows of smallest key are the sample.

Row i of weight w_i draws a clock E_i ~ Exp(1) and has the key log(E_i / w_i). The k rows of smallest key are a weighted
sample without replacement (Efraimidis and Spirakis 2006). With τ the smallest key of all others, a row is in it with
the probability 1 − exp(−w_i τ). So totals over the sample are unbiased if a row counts w_i over that probability (Cohen
and Kaplan 2007). A clock depends only on the number and the seed: batches, threads and machines do not matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kampong._core.compute import mixed

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer

STEP = np.uint64(0x9E3779B97F4A7C15)


def row_keys(numbers: Integer, weights: Float, seed: int) -> Float:
    """Return the key of each row.

    Parameters
    ----------
    numbers : array of int of shape (n,)
        The number of each row in its stream, counted from 1.
    weights : array of shape (n,)
        Their weights; a row of weight 0 has the key infinity and is never drawn before another.
    seed : int
        The seed.

    Returns
    -------
    array of shape (n,)
        Keys; the rows of smallest key are the sample.
    """
    weights = np.asarray(weights, dtype=np.float64)
    with np.errstate(divide="ignore"):
        keys: Float = _clocks(np.asarray(numbers, dtype=np.uint64), seed) - np.log(weights)
    return keys


def first_keys(keys: Float, most: int) -> tuple[Integer, float]:
    """Return the rows of smallest key, in that order, and the smallest key of the others (infinity without any)."""
    order = np.argsort(keys, kind="stable")
    order = order[: np.count_nonzero(keys < np.inf)]
    threshold = float(keys[order[most]]) if most < len(order) else np.inf
    return order[:most], threshold


def first_keys_by_group(keys: Float, groups: Integer, most: int) -> Integer:
    """Return the rows whose key is among the smallest of their group, at most this many of each, in their own order."""
    return np.flatnonzero(ranks_in_groups(keys, groups) < most)


def ranks_in_groups(keys: Float, groups: Integer) -> Integer:
    """Return how many rows of its own group come before each row in the order of the keys."""
    order = np.lexsort((keys, groups))
    starts = np.searchsorted(groups[order], groups[order])
    ranks = np.empty(len(keys), dtype=np.int64)
    ranks[order] = np.arange(len(keys)) - starts
    return ranks


def stands_for(weights: Float, log_weights: Float, threshold: float) -> Float:
    """Return the weight that each row of a sample represents: its own over the probability that it was drawn.

    Parameters
    ----------
    weights : array of shape (n,)
        The weights, as they count now.
    log_weights : array of shape (n,)
        The logarithms of the weights, in the frame of the keys.
    threshold : float
        The smallest key that was left out, infinity where none was.

    Returns
    -------
    array of shape (n,)
        Weights whose totals are unbiased.
    """
    if threshold == np.inf:
        return weights
    # Beyond 50 the probability is 1 to the last digit, and its exponential would overflow.
    rate = np.minimum(log_weights + threshold, 50.0)
    result: Float = weights / -np.expm1(-np.exp(rate))
    return result


def draw(weights: Float, number: int, seed: int, frame: float, threshold: float) -> tuple[Integer, Float]:
    """Return the rows whose key is below the threshold, and their keys; `number` is how many rows came before."""
    found = np.flatnonzero(weights > 0.0)
    numbers = np.arange(1, len(found) + 1, dtype=np.uint64) + np.uint64(number)
    keys = _clocks(numbers, seed) - np.log(weights[found]) + frame
    below = keys < threshold
    return found[below], keys[below]


def _clocks(numbers: Any, seed: int) -> Float:
    """Return the logarithms of the exponential clocks of rows."""
    start = mixed(np.array([seed], dtype=np.uint64) + STEP)
    bits = mixed(mixed(numbers * STEP) ^ start) >> np.uint64(12)
    clocks: Float = np.log(-np.log((bits.astype(np.float64) + 0.5) * 2.0**-52))
    return clocks
