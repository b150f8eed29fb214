"""The report of a stream: one HTML file that opens from disk and needs no network."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bokeh.embed import file_html
from bokeh.resources import INLINE

from kampong.report.figures import figures

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from kampong.streaming.history import History

PAGE = """
{% block preamble %}
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <link rel="icon" href="data:,">
    <style>html, body { background: white; color: #1a1a1a; }</style>
{% endblock %}
"""
"""The HTML around the figures, for the report and the live page: blocks of bokeh's own template."""


def write_report(
    path: str | os.PathLike[str],
    model: Any,
    history: History,
    *,
    title: str = "kampong",
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Write a report: a single HTML file of a few megabytes at most, whatever the length of the stream.

    It contains everything it needs, so it opens from disk without a network. The file is written whole or not at all.

    Parameters
    ----------
    path : str or path
        The file to write. An existing one is replaced.
    model : object or None
        An estimator of the library.
    history : History
        The course of its stream.
    title : str
        The heading.
    provenance : mapping, optional
        Where the data came from and how the run was made; shown as it is given.
    """
    state = f"report of {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    layout = figures(model, history, title=title, state=state, provenance=provenance)
    text = file_html(layout, INLINE, title=title, template=PAGE, _always_new=True)
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("x", encoding="utf-8", errors="replace") as stream:
            stream.write(text)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
