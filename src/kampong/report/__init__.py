"""Pictures of classes in a subspace, the report of a stream, and its live page.

Names are imported when they are asked for: pictures need the `plot` extra, the pages the `stream` extra.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kampong._core.extras import extra

if TYPE_CHECKING:
    from kampong.report.curves import ChoiceDisplay, EigenvalueDisplay
    from kampong.report.live import LivePage
    from kampong.report.maps import BiplotDisplay, ClassMapDisplay, LoadingsDisplay
    from kampong.report.margins import MarginDisplay
    from kampong.report.page import write_report
    from kampong.report.pictures import draw_classes
    from kampong.report.predictions import ConfusionDisplay, ReliabilityDisplay

__all__ = [
    "BiplotDisplay",
    "ChoiceDisplay",
    "ClassMapDisplay",
    "ConfusionDisplay",
    "EigenvalueDisplay",
    "LivePage",
    "LoadingsDisplay",
    "MarginDisplay",
    "ReliabilityDisplay",
    "draw_classes",
    "write_report",
]

_HOMES = {
    "BiplotDisplay": "maps",
    "ChoiceDisplay": "curves",
    "ClassMapDisplay": "maps",
    "ConfusionDisplay": "predictions",
    "EigenvalueDisplay": "curves",
    "LivePage": "live",
    "LoadingsDisplay": "maps",
    "MarginDisplay": "margins",
    "ReliabilityDisplay": "predictions",
    "draw_classes": "pictures",
    "write_report": "page",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it offers {', '.join(__all__)}")
    with extra("plot" if name == "draw_classes" or name.endswith("Display") else "stream", f"{__name__}.{name}"):
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
