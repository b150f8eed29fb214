"""How Sphinx builds the site: `make docs`."""

import os
import sys
import warnings
from html import escape, unescape
from pathlib import Path
from typing import Any

import matplotlib as mpl
from sphinx.ext.autodoc.mock import MockFinder

from kampong import __version__

mpl.use("Agg")
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))
sys.meta_path.append(MockFinder(["mlflow"]))  # the library itself brings forty packages, for one page
# Examples run in fresh processes of their own too, so they are told by the environment.
os.environ.setdefault("MPLBACKEND", "Agg")
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

project = "kampong"
author = "The kampong developers"
project_copyright = "The kampong developers, BSD-3-Clause"
version = release = __version__

extensions = [
    "benchmark_results",
    "front_pages",
    "link_names",
    "mathml",
    "myst_parser",
    "numpydoc",
    "plain_docstrings",
    "subscripts",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery/**/*.ipynb", "sg_execution_times.rst", "gallery/**/sg_execution_times.rst"]
templates_path = ["_templates"]
nitpicky = True
# Full runs, printed: tables that are wider than the page scroll inside it.
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3
myst_fence_as_directive = ["math"]  # a fence that the pages of a repository draw too
html_math_renderer = "mathml"
suppress_warnings = ["config.cache"]

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "show_memory": False,
    "min_reported_time": 0,
    "download_all_examples": True,
    "show_signature": False,
    "doc_module": ("kampong",),
    "backreferences_dir": "api/generated/examples",
    "inspect_global_variables": False,
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
    "write_computation_times": False,
    "subsection_order": [f"../examples/{name}" for name in ("start", "streams", "wide", "parts")],
}

html_theme = "pydata_sphinx_theme"
html_title = "kampong"
html_favicon = "_static/kampong.svg"
html_static_path = ["_static", "pictures/card.png"]
html_css_files = ["kampong.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "header_links_before_dropdown": 5,
    "logo": {"text": "kampong", "image_light": "_static/kampong.svg", "image_dark": "_static/kampong.svg"},
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
ALONE = [
    "index",
    "start",
    "which",
    "benchmarks/index",
    "glossary",
    "faq",
    "extend",
    "design",
    "contributing",
    "changelog",
]
html_sidebars = {page: [] for page in ALONE}  # nothing below them to navigate

# What a message shows with a link to a page. Its picture needs a whole address, known to whoever serves the site.
SITE = os.environ.get("KAMPONG_SITE", "").rstrip("/")
html_baseurl = f"{SITE}/" if SITE else ""


def add_card(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Give a page the tags of its card: title, what the project is, and a picture."""
    del app, page, template, tree
    tags = {
        "og:title": context.get("title") or project,
        "og:type": "website",
        "og:description": "Supervised dimension reduction and classification in one pass",
        **({"og:image": f"{SITE}/_static/card.png", "twitter:card": "summary_large_image"} if SITE else {}),
    }
    lines = (
        f'<meta property="{name}" content="{escape(unescape(value), quote=True)}">' for name, value in tags.items()
    )
    context["metatags"] = context.get("metatags", "") + "\n".join(lines)


def setup(app: Any) -> None:
    """Connect what is done for each page."""
    app.connect("html-page-context", add_card)
