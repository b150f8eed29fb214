"""Parameters of estimators: a number within bounds, a word out of a few, or a message that says so."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_number(owner: str, name: str, value: Any, *, low: float, high: float, next_step: str) -> float:
    """Return a real parameter within [low, high], or say what it must be."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real) or not low <= float(value) <= high:
        bound = f"≥ {low:g}" if math.isinf(high) else f"in [{low:g}, {high:g}]"
        raise ValueError(f"{owner}: {name} must be a number {bound}, got {value!r}. {next_step}")
    return float(value)


def check_choice(owner: str, name: str, value: Any, choices: Sequence[str]) -> str:
    """Return a parameter that is one of a few words, or list them."""
    if value not in choices:
        raise ValueError(f"{owner}: {name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")
    return str(value)
