"""What `python -m benchmarks NAME --out docs/benchmarks/results` printed, as it was printed.

The directive `benchmark` shows one run. The line `% benchmarks` of a page becomes a section for every script of
`benchmarks/`, with the words at its head.
"""

import ast
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results"
SCRIPTS = RESULTS.parents[2] / "benchmarks"


def read(path: Path) -> tuple[dict[str, str], str]:
    """Return what a file of results says of its run (`key: value` lines up to the first empty one), and the output."""
    head, _, output = path.read_text(encoding="utf-8").partition("\n\n")
    return dict(line.split(": ", 1) for line in head.splitlines()), output.strip("\n")


class Benchmark(Directive):
    """`{benchmark} NAME`: a line about the run, and its output; or a line that says that no run is kept."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the nodes of one run."""
        name = self.arguments[0]
        path = RESULTS / f"{name}.txt"
        self.state.document.settings.env.note_dependency(str(path))
        if not path.exists():
            line = nodes.paragraph()
            line += nodes.literal(text=f"python -m benchmarks {name}")
            line += nodes.Text(" prints it. No run of it is kept here.")
            return [line]
        about, output = read(path)
        line = nodes.paragraph(classes=["benchmark-run"])
        line += nodes.literal(text=about.pop("command"))
        line += nodes.Text(": " + "; ".join(f"{key} {value}" for key, value in about.items()) + ".")
        return [line, nodes.literal_block(output, output, language="none", classes=["benchmark-output"])]


def sections(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put a section for each script where a page asks for them; those with a run that is kept come first."""
    if "% benchmarks" not in source[0].splitlines():
        return
    text = []
    scripts = [path for path in sorted(SCRIPTS.glob("*.py")) if "\ndef main(" in path.read_text(encoding="utf-8")]
    for path in sorted(scripts, key=lambda path: not (RESULTS / f"{path.stem}.txt").exists()):
        words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        text.append(f"## {path.stem}\n\n{words}\n\n```{{benchmark}} {path.stem}\n```\n")
        app.env.note_dependency(str(path))
    source[0] = re.sub(r"^% benchmarks$", lambda _: "\n".join(text), source[0], flags=re.MULTILINE)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register both."""
    app.add_directive("benchmark", Benchmark)
    app.connect("source-read", sections)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
