"""Parts of README, ARCHITECTURE, CONTRIBUTING and CHANGELOG inside the site, so that no fact stands in two places.

A line `% from README.md | ## Install | ## Why kampong` gives way to what lies between these lines of the file;
without them, to the whole file. Links to documents of the repository lead to their pages; links
to its code become names.
"""

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
LINE = re.compile(r"^% from (?P<file>\S+)(?: \| (?P<start>[^|\n]+) \| (?P<end>[^|\n]+))?$", re.MULTILINE)
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "design.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
REPOSITORY = re.compile(r"https?://[^\s)]+?/(?:blob|raw|tree)/main/")


def part(name: str, start: str | None, end: str | None) -> str:
    """Return a file, or what lies between two of its lines, with links as a page beside `conf.py` needs them."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if start is not None and end is not None:
        lines = text.splitlines()
        text = "\n".join(lines[lines.index(start.strip()) + 1 : lines.index(end.strip())])
    text = REPOSITORY.sub("", text)
    text = re.sub(r"\]\(([A-Z]+\.md)", lambda match: f"]({PAGES.get(match[1], match[1])}", text)
    text = text.replace("[BSD-3-Clause](LICENSE)", "BSD-3-Clause")
    text = re.sub(r"\[([^\]]*)\]\((?:src|tests)/[^)]*\)", r"`\1`", text)
    return re.sub(r"\]\(docs/([^)]*)", lambda match: f"]({match[1]}", text)


def expand(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the parts that a page names in their place."""
    if "/" in docname:
        return

    def put(match: re.Match[str]) -> str:
        app.env.note_dependency(str(ROOT / match["file"]))
        return part(match["file"], match["start"], match["end"])

    source[0] = LINE.sub(put, source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register it."""
    app.connect("source-read", expand)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
