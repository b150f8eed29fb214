"""The parts of pyarrow that the other files use, imported in one place because pyarrow has no types."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np

from kampong._core.extras import extra

with extra("stream", "kampong.streaming"):
    for _part in ("compute", "csv", "fs", "ipc", "json", "parquet"):
        importlib.import_module(f"pyarrow.{_part}")
    pa: Any = importlib.import_module("pyarrow")


# pyarrow loads pandas if it is installed, wherever it makes a scalar or an array of NumPy. That takes longer than to
# learn a short stream, so the commonest columns do without.


def filled(column: Any, value: Any) -> Any:
    """Return a column with a value in place of each missing one."""
    return column.fill_null(value) if column.null_count else column


def numbers_of(column: Any) -> np.ndarray:
    """Return a column of numbers, NaN where one is missing."""
    kind = column.type
    if isinstance(column, pa.Array) and len(column) and (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        full = filled(column, math.nan) if pa.types.is_floating(kind) else column
        if not full.null_count:
            return np.from_dlpack(full)
    values: np.ndarray = column.to_numpy(zero_copy_only=False)
    return values
