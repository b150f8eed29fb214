"""Link every public name that stands in code type to its page: `FisherDiscriminant` and `FisherDiscriminant()` alike.

So the documents stay plain Markdown, which reads well without Sphinx too. Members that scikit-learn gives every
estimator are left out of the pages of ours.
"""

import importlib
import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

ROOMS = (
    "kampong",
    "kampong.datasets",
    "kampong.online",
    "kampong.report",
    "kampong.statistics",
    "kampong.streaming",
    "kampong.adapters.dask",
    "kampong.adapters.federated",
    "kampong.adapters.mlflow",
    "kampong.adapters.onnx",
    "kampong.adapters.river",
    "kampong.adapters.spark",
)


def public_names() -> dict[str, str]:
    """Return the full name for each way to write a public name: short for those of `kampong`, whole for all."""
    names = {}
    for room in ROOMS:
        for name in importlib.import_module(room).__all__:
            names[f"{room}.{name}"] = f"{room}.{name}"
            if room == "kampong" or name[0].isupper() or "_" in name:
                names.setdefault(name, f"{room}.{name}")
    return names


def link(app: Sphinx, doctree: nodes.document) -> None:
    """Make references of the literals that are public names, outside headings and links."""
    known = public_names()
    for literal in list(doctree.findall(nodes.literal)):
        parents = set()
        parent = literal.parent
        while parent is not None:
            parents.add(type(parent))
            parent = parent.parent
        if parents & {nodes.title, nodes.reference, pending_xref, nodes.term}:
            continue
        match = re.fullmatch(r"([A-Za-z_.]+)(\(.*\))?", literal.astext())
        if match is None or match.group(1) not in known:
            continue
        reference = pending_xref(
            "", refdomain="py", reftype="obj", reftarget=known[match.group(1)], refdoc=app.env.docname, refexplicit=True
        )
        literal.replace_self(reference)
        reference += literal


def skip(app: Sphinx, what: str, name: str, item: Any, skipped: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn and river give, and properties, which the section of attributes names."""
    target = getattr(item, "__func__", item)
    module = getattr(target, "__module__", None) or ""
    if isinstance(item, property) or re.fullmatch(r"set_\w+_request", name):
        return True
    return True if what == "class" and module and not module.startswith("kampong") else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Register both."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("doctree-read", link)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
