"""Docstrings of ours are plain text for a terminal; here they become what reStructuredText needs.

A name in single backticks is code, a name that ends in an underscore is no link, and a reference of numpydoc to what
has no page here is code too.
"""

import re
from typing import Any

from link_names import public_names
from numpydoc.docscrape_sphinx import SphinxDocString
from sphinx.application import Sphinx

ROLE = re.compile(r":(?:py:)?obj:`(?P<text>[^`<]+?)(?: <(?P<target>[^>`]+)>)?`")
CODE = re.compile(r"(``.+?``|:[\w:]+:`[^`]+`|`[^`]+`)")


def plain(lines: list[str], known: dict[str, str]) -> list[str]:
    """Return the lines of a docstring after numpydoc, with code and names marked as such; examples stay as they are."""
    done, in_example = [], False
    for line in lines:
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        done.append(line if in_example else "".join(_piece(piece, known) for piece in CODE.split(line)))
    return done


def _piece(piece: str, known: dict[str, str]) -> str:
    role = ROLE.fullmatch(piece)
    if role:
        target = (role["target"] or role["text"]).strip("~")
        full = known.get(target) or known.get(target.rpartition(".")[2])
        return f":py:obj:`{role['text']} <{full}>`" if full else f"``{role['text']}``"
    if piece.startswith(("``", ":")) and CODE.fullmatch(piece):
        return piece
    if CODE.fullmatch(piece):
        return f"`{piece}`"
    return re.sub(r"(?<=\w)_(?!\w)", r"\\_", re.sub(r"(?<!\\)\|", r"\\|", piece))


def setup(app: Sphinx) -> dict[str, Any]:
    """Work after numpydoc."""
    app.setup_extension("sphinx.ext.autodoc")
    known = public_names()
    # The class says more of an attribute than the property behind it, which numpydoc would show in its place.
    written = SphinxDocString._str_param_list
    SphinxDocString._str_param_list = lambda self, name, fake_autosummary=False: written(self, name)

    def process(app: Sphinx, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
        lines[:] = plain(lines, known)

    app.connect("autodoc-process-docstring", process, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
