"""Writes the README and the addresses of a package, when it is built.

A README on a package index needs whole addresses, and only whoever publishes knows where the project lives. Built with
`KAMPONG_HOME=https://…/kampong`, its links and pictures lead there, and the package names its pages. Without it, links
to files become plain words and pictures are left out, so that nothing leads nowhere.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)\s]+)\)")


class CustomMetadataHook(MetadataHookInterface):
    """Hatchling asks this class for the fields that are `dynamic`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme` and `urls`."""
        home = os.environ.get("KAMPONG_HOME", "").rstrip("/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": readme(text, home)}
        metadata["urls"] = urls(home)


def readme(text: str, home: str) -> str:
    """Return the README as a package index can show it."""

    def whole(found: re.Match[str]) -> str:
        picture, words, path = found.groups()
        if not home:
            return "" if picture else words
        return f"{picture}[{words}]({home}/{'raw' if picture else 'blob'}/main/{path})"

    return re.sub(r"\n{3,}", "\n\n", LINK.sub(whole, text))


def urls(home: str) -> dict[str, str]:
    """Return the pages of the project, none where its home is not known."""
    if not home:
        return {}
    return {
        "Source": home,
        "Changelog": f"{home}/blob/main/CHANGELOG.md",
        "Issues": f"{home}/issues",
    }
