"""For people to look at: pictures of classes in a subspace, the report of a stream, and its live page.

Names are imported when they are asked for: pictures need the `plot` extra, the pages the `stream` extra.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kampong.report.live import LivePage
    from kampong.report.page import write_report
    from kampong.report.pictures import draw_classes

__all__ = ["LivePage", "draw_classes", "write_report"]

_HOMES = {"LivePage": "live", "draw_classes": "pictures", "write_report": "page"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it offers {', '.join(__all__)}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
