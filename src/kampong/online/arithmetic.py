"""Arithmetic of the members' loops: elementary functions that vector units can take, sums, and inverses of moments.

A loop that calls the system's `exp` handles one number at a time. These functions are a few multiplications without a
branch, so a compiler turns a loop over them into vector code. They are exact to about one unit of the last place.
Their polynomials are Taylor's, cut into parts that do not wait for each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kampong._core.loops import as_python, part, small

if TYPE_CHECKING:
    from kampong._core.compute import Float

SHIFT = 1.5 * 2.0**52
"""A whole number added to this stands in the last bits of the sum."""

SHIFT_BITS = int(np.float64(SHIFT).view(np.int64))
VECTORS = 32
"""Numbers that a compiled loop takes at once on wide vector units; what is left over it would take one by one."""

ONE_BITS, FRACTION = 1023 << 52, (1 << 52) - 1


@small
def exponential(x: float) -> float:
    """Return eˣ, and e^±700 for any x beyond ±700."""
    x = -700.0 if x < -700.0 else x
    result: float = _exponential_within(700.0 if x > 700.0 else x)
    return result


@small
def _exponential_within(x: Any) -> Any:
    """Return eˣ for numbers between −700 and 700; without a compiler for an array too."""
    n = np.floor(x * 1.4426950408889634 + 0.5)
    r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + r) + r2 * (0.5 + r * (1.0 / 6.0))
    middle = (1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0 + r * (1.0 / 5040.0))
    high = (1.0 / 40320.0 + r * (1.0 / 362880.0)) + r2 * (1.0 / 3628800.0 + r * (1.0 / 39916800.0))
    p = low + r4 * (middle + r4 * (high + r4 * (1.0 / 479001600.0)))
    power = np.int64((np.float64(n + SHIFT).view(np.int64) + np.int64(1023)) << np.int64(52))
    return p * power.view(np.float64)


@small
def logarithm(x: float) -> float:
    """Return the natural logarithm of a positive normal number."""
    bits = np.float64(x).view(np.int64)
    n = np.int64((bits >> np.int64(52)) + np.int64(SHIFT_BITS - 1023)).view(np.float64) - SHIFT
    m = np.int64((bits & np.int64(FRACTION)) | np.int64(ONE_BITS)).view(np.float64)
    large = m > 1.4142135623730951
    m = 0.5 * m if large else m
    n = n + 1.0 if large else n
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    q2 = q * q
    q4 = q2 * q2
    low = (1.0 / 3.0 + q * (1.0 / 5.0)) + q2 * (1.0 / 7.0 + q * (1.0 / 9.0))
    high = (1.0 / 11.0 + q * (1.0 / 13.0)) + q2 * (1.0 / 15.0 + q * (1.0 / 17.0))
    p = low + q4 * (high + q4 * (1.0 / 19.0 + q * (1.0 / 21.0)))
    return n * 0.6931471805599453 + (2.0 * s + 2.0 * s * q * p)


@small
def padded(count: int) -> int:
    """Return the room for this many numbers in whole vectors."""
    return (count + VECTORS - 1) & -VECTORS


@small
def exponentials(values: Float, count: int) -> None:
    """Turn the first numbers into their exponentials, and those after them that fill the last vectors: `padded`."""
    for m in range(padded(count)):
        values[m] = exponential(values[m])


@exponentials.in_numpy
def _exponentials(values: Float, count: int) -> None:
    """Do the same for all of them at once."""
    room = as_python(padded)(count)
    values[:room] = as_python(_exponential_within)(np.clip(values[:room], -700.0, 700.0))


@part
def cosines_and_sines(angles: Float, size: float, cosines: Float, sines: Float) -> None:
    """Write size·cos and size·sin of angles, none of which is beyond a million."""
    for f in range(len(angles)):
        n = np.floor(angles[f] * 0.6366197723675814 + 0.5)
        r = ((angles[f] - n * 1.5707963267341256) - n * 6.077100506303966e-11) - n * 2.0222662487959506e-21
        q = r * r
        s = -1.0 / 1307674368000.0
        s = s * q + 1.0 / 6227020800.0
        s = s * q - 1.0 / 39916800.0
        s = s * q + 1.0 / 362880.0
        s = s * q - 1.0 / 5040.0
        s = s * q + 1.0 / 120.0
        s = s * q - 1.0 / 6.0
        s = r + r * q * s
        c = 1.0 / 20922789888000.0
        c = c * q - 1.0 / 87178291200.0
        c = c * q + 1.0 / 479001600.0
        c = c * q - 1.0 / 3628800.0
        c = c * q + 1.0 / 40320.0
        c = c * q - 1.0 / 720.0
        c = c * q + 1.0 / 24.0
        c = c * q - 0.5
        c = 1.0 + q * c
        quarter = n - 4.0 * np.floor(0.25 * n)
        odd = abs(abs(quarter - 2.0) - 1.0) < 0.5  # the compiler needs no branch for what it may select
        cosine = s if odd else c
        sine = c if odd else s
        cosines[f] = size * (-cosine if abs(quarter - 1.5) < 1.0 else cosine)
        sines[f] = size * (-sine if quarter > 1.5 else sine)


@small
def dot(left: Float, right: Float) -> float:
    """Return the inner product of two vectors, by eight sums that do not wait for each other."""
    whole = len(left) & -8
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(0, whole, 8):
        a += left[j] * right[j]
        b += left[j + 1] * right[j + 1]
        c += left[j + 2] * right[j + 2]
        d += left[j + 3] * right[j + 3]
        e += left[j + 4] * right[j + 4]
        f += left[j + 5] * right[j + 5]
        g += left[j + 6] * right[j + 6]
        h += left[j + 7] * right[j + 7]
    rest = 0.0
    for j in range(whole, len(left)):
        rest += left[j] * right[j]
    return ((a + e) + (b + f)) + ((c + g) + (d + h)) + rest


@small
def to_probabilities(scores: Float, known: int, out: Float) -> None:
    """Write the softmax of the scores of the classes that have come."""
    most = scores[0]
    for k in range(1, known):
        most = max(most, scores[k])
    total = 0.0
    for k in range(known):
        out[k] = exponential(scores[k] - most)
        total += out[k]
    for k in range(known):
        out[k] /= total


@part
def add_to_inverse(inverse: Float, row: Float, weight: float, keep: float, gain: Float) -> None:
    """Turn A⁻¹ into B⁻¹, where B = keep·A + weight·x xᵀ, and write B⁻¹ times weight·x into `gain`."""
    grow = 1.0 / keep
    for m in range(len(row)):
        gain[m] = 0.0
    for j in range(len(row)):
        pace, line = row[j] * grow, inverse[j]
        for m in range(len(row)):
            gain[m] += pace * line[m]
    _take_off(inverse, gain, grow, weight / (1.0 + weight * dot(gain, row)))


@part
def add_ridge_to_inverse(inverse: Float, place: int, ridge: float, gain: Float) -> None:
    """Turn A⁻¹ into B⁻¹, where B has `ridge` more at a place of the diagonal; write that column of ridge·B⁻¹."""
    for m in range(len(gain)):
        gain[m] = inverse[place, m]
    _take_off(inverse, gain, 1.0, ridge / (1.0 + ridge * gain[place]))


@small
def _take_off(inverse: Float, gain: Float, grow: float, scale: float) -> None:
    """Turn A into grow·A − scale·g gᵀ, and multiply g by the scale.

    The root makes every product the same in both triangles: a difference between them would grow while rows fade.
    """
    size, root = len(gain), np.sqrt(scale)
    for m in range(size):
        gain[m] *= root
    for j in range(size):
        left, line = gain[j], inverse[j]
        for m in range(size):
            line[m] = line[m] * grow - left * gain[m]
    for m in range(size):
        gain[m] *= root
