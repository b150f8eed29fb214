"""The parts of pyarrow, which brings no types with it, as the other files use them, imported in one place."""

from __future__ import annotations

import importlib
from typing import Any

for _part in ("compute", "csv", "ipc", "parquet"):
    importlib.import_module(f"pyarrow.{_part}")

pa: Any = importlib.import_module("pyarrow")
