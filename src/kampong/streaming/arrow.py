"""The parts of pyarrow that the other files use, imported in one place because pyarrow has no types."""

from __future__ import annotations

import importlib
from typing import Any

from kampong._core.extras import extra

with extra("stream", "kampong.streaming"):
    for _part in ("compute", "csv", "fs", "ipc", "json", "parquet"):
        importlib.import_module(f"pyarrow.{_part}")
    pa: Any = importlib.import_module("pyarrow")
