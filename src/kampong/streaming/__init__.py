"""Learn a labelled stream, keep a subspace up to date, and predict: sources, dead letters, the loop, exact resume.

Needs the `stream` extra (pyarrow, msgspec). Names are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kampong._core.extras import extra

if TYPE_CHECKING:
    from kampong.streaming.card import model_card
    from kampong.streaming.columns.schema import Layout
    from kampong.streaming.history.history import History
    from kampong.streaming.run import Run, learn
    from kampong.streaming.sources.source import Source

__all__ = ["History", "Layout", "Run", "Source", "learn", "model_card"]

_HOMES = {
    "History": "history.history",
    "Layout": "columns.schema",
    "Run": "run",
    "Source": "sources.source",
    "learn": "run",
    "model_card": "card",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with extra("stream", f"{__name__}.{name}"):
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
