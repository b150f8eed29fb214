"""The HTML report of a stream: one file that opens from disk without a network. The live page shares it.

The page is plain HTML, CSS and SVG. Its scripts are the files in `assets`, put together into one; what it shows is one
JSON object. The report holds that object, the live page asks its server for it. A content security policy allows this
one script by its digest and nothing else, so nothing that a label or a title says can run or be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import math
import secrets
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kampong.report.snapshot import take

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from kampong.streaming.history.history import History

SCRIPTS = ("charts.js", "markers.js", "map.js", "classes.js", "explained.js", "page.js")


def write_report(
    path: str | os.PathLike[str],
    model: Any,
    history: History,
    *,
    title: str = "kampong",
    provenance: Mapping[str, Any] | None = None,
    **more: Any,
) -> None:
    """Write a report: a single HTML file of well under a megabyte, whatever the length of the stream.

    It contains everything it needs, so it opens from disk without a network. The file is written whole or not at all.

    Parameters
    ----------
    path : str or path
        The file to write. An existing one is replaced.
    model : object or None
        An estimator of the library.
    history : History
        The course of its stream.
    title : str, default="kampong"
        The heading.
    provenance : mapping, optional
        Where the data came from and how the run was made; shown as it is given.
    **more : object
        `predictor`, `memory` and `pictures`, as `kampong.report.snapshot.take` has them.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from kampong import FisherDiscriminant
    >>> from kampong.report import write_report
    >>> from kampong.streaming import History
    >>> X, y = load_iris(return_X_y=True)
    >>> page = Path(tempfile.mkdtemp()) / "iris.html"
    >>> write_report(page, FisherDiscriminant().fit(X, y), History(), title="iris")
    >>> page.read_text()[:15]
    '<!DOCTYPE html>'
    """
    state = f"Report of {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    data = take(model, history, title=title, state=state, provenance=provenance, **more)
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as stream:
            stream.write(report_of(to_json(data), title))
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def to_json(data: Mapping[str, Any]) -> bytes:
    """Return what the page shows as JSON that may stand inside an HTML file."""
    try:
        text = msgspec.json.encode(data)
    except UnicodeEncodeError:  # half a surrogate pair in a name
        text = msgspec.json.encode(_writable(data))
    return text.replace(b"<", b"\\u003c").replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")


def report_of(data: bytes, title: str) -> bytes:
    """Return the report of what `to_json` wrote."""
    start, end = _around(live=False)
    heading = f"<title>{escape(title)}</title>".encode("utf-8", "replace")
    return start + heading + b'<script type="application/json" id="data">' + data + b"</script>" + end


def live_page() -> bytes:
    """Return the page that asks its server for what it shows."""
    start, end = _around(live=True)
    return start + b"<title>kampong</title>" + end


@cache
def _around(*, live: bool) -> tuple[bytes, bytes]:
    """Return what stands before and after the title and the data."""
    folder = resources.files("kampong.report").joinpath("assets")
    style = folder.joinpath("page.css").read_text("utf-8")
    parts = "\n".join(folder.joinpath(name).read_text("utf-8") for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{parts}}})()\n'
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
    policy += "connect-src 'self'; base-uri 'none'; form-action 'none'"
    start = (
        f'<!DOCTYPE html>\n<html lang="en"{" data-live" if live else ""}>\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<style>\n{style}</style>\n"
    )
    end = "</head>\n<body>\n<noscript>This page needs JavaScript to draw.</noscript>\n"
    end += f"<script>{script}</script>\n</body>\n</html>\n"
    return start.encode(), end.encode()


def _writable(value: Any) -> Any:
    """Return the same values, with texts that UTF-8 can hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_writable(key): _writable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
