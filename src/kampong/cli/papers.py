"""`kampong reproduce`: the experiments of the papers. They are in the source tree, outside the package."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from kampong.cli.common import app

PAPERS = ("000", "001", "002", "003", "004", "all")


@app.command(
    epilog="Examples:\n\n  kampong reproduce all --out papers\n\n  kampong reproduce 001 --figure 4\n\n"
    "The data are found through KAMPONG_DATA; without them, what can run runs. Exit code 1: a figure is outside its "
    "tolerance."
)
def reproduce(
    which: Annotated[str, typer.Argument(help="000, 001, 002, 003, 004 or all.")] = "all",
    figure: Annotated[int | None, typer.Option(help="One figure of the paper.", show_default=False)] = None,
    table: Annotated[int | None, typer.Option(help="One table of the paper.", show_default=False)] = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder for papers.html and papers.md.", show_default=False)
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer rows and repeats: minutes in place of an hour.")
    ] = False,
) -> None:
    """Run the papers' experiments and say which of their claims hold."""
    from kampong.streaming.errors import UsageError

    if which not in PAPERS:
        raise UsageError(f"reproduce: there is no paper {which!r}. Choose one of {', '.join(PAPERS)}.")
    if out is not None and out.exists() and not out.is_dir():
        raise UsageError(f"reproduce: --out {out} is a file. Name a folder; papers.html and papers.md go into it.")
    root = _source_tree()
    if root is None:
        raise UsageError(
            "reproduce: the experiments are not part of an installed kampong, since they need the papers' data. Run "
            "it in the source tree (a folder with src/ and reproduction/), or install that with pip install --editable."
        )
    sys.path.insert(0, str(root))
    code: int = importlib.import_module("reproduction._run").run(
        which, figure=figure, table=table, out=out, quick=quick
    )
    raise SystemExit(code)


def _source_tree() -> Path | None:
    """Return the folder that holds `reproduction/`: above an editable install, or where we are."""
    for folder in (Path(__file__).resolve().parents[3], Path.cwd()):
        if (folder / "reproduction" / "expected.toml").exists():
            return folder
    return None
