"""Check every link inside a built site, anchors included: `python docs/check_links.py build/site`."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The places that a page offers (`names`) and those that it points to (`links`)."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the id, the name and the target of an element."""
        for key, value in attrs:
            if value and (key == "id" or (tag == "a" and key == "name")):
                self.names.add(value)
            elif value and key in ("href", "src"):
                self.links.append(value)


def broken(site: Path) -> list[str]:
    """Return a line for every link that leads nowhere, with the page that holds it."""
    site = site.resolve()
    pages = {path: Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            target = target / "index.html" if target.is_dir() else target
            where = f"{path.relative_to(site)}: {link}"
            if not target.is_relative_to(site) or not target.exists():
                found.append(f"{where} leads to no file")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].names:
                found.append(f"{where} leads to no such place on the page")
    return found


def main(folder: str) -> None:
    """Print the broken links, and fail if there are any."""
    site = Path(folder)
    if not (site / "index.html").exists():
        sys.exit(f"{site} holds no built site; run `make docs` first")
    lines = broken(site)
    print("\n".join(lines) or f"no broken link inside {site}")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "build/site")
