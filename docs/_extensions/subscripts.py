"""S_b, m_k and K_mm of running text, which read well in a terminal, with real subscripts on the page."""

import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import desc_signature, pending_xref
from sphinx.application import Sphinx

INDEX = re.compile(r"(?<![A-Za-z_`])([A-Za-zα-ωΑ-Ω]|Cov)_(\{[^}]+\}|[a-z0-9]{1,2})(?!\w)")
LEFT_ALONE = (
    nodes.literal,
    nodes.literal_block,
    nodes.math,
    nodes.reference,
    nodes.FixedTextElement,
    desc_signature,
    pending_xref,
)


def put_down(app: Sphinx, doctree: nodes.document) -> None:
    """Make a subscript of each short index, outside code, links and headings of names."""
    for text in list(doctree.findall(nodes.Text)):
        parent = text.parent
        above = parent
        while above is not None and not isinstance(above, LEFT_ALONE):
            above = above.parent
        if above is not None or not isinstance(parent, nodes.TextElement) or not INDEX.search(text):
            continue
        pieces: list[nodes.Node] = []
        end = 0
        for match in INDEX.finditer(text):
            pieces += [nodes.Text(text[end : match.start()] + match[1]), nodes.subscript(text=match[2].strip("{}"))]
            end = match.end()
        parent.replace(text, [*pieces, nodes.Text(text[end:])])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register it."""
    app.connect("doctree-read", put_down)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
