"""`kampong inspect` and `kampong merge`: model files looked at and put together."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from kampong.cli.common import Json, Quiet, app, say


@app.command(
    epilog="Examples:\n\n  kampong inspect flowers.kampong\n\n  kampong inspect flowers.kampong --json | jq .classes"
)
def inspect(
    model: Annotated[str, typer.Argument(help="The model file.", show_default=False)], as_json: Json = False
) -> None:
    """Show what a model file holds: classes, counts, eigenvalues, solver, where it came from."""
    from kampong.streaming.inspection import describe, show

    facts = describe(model)
    if as_json:
        print(json.dumps(facts, ensure_ascii=False))
    else:
        show(facts)


@app.command(epilog="Examples:\n\n  kampong merge monday.kampong tuesday.kampong --out week.kampong")
def merge(
    models: Annotated[list[str], typer.Argument(help="Two model files or more.", show_default=False)],
    out: Annotated[str, typer.Option("--out", "-o", help="The model file to write.", show_default=False)],
    quiet: Quiet = False,
) -> None:
    """Merge models of several streams into one, as if it had learnt all of them."""
    from kampong.streaming.errors import UsageError
    from kampong.streaming.inspection import merge_files

    if len(models) < 2:
        raise UsageError("merge needs two model files or more.")
    merged = merge_files(models, out)
    say(quiet, f"{out}: {merged.n_samples_seen_:,} rows, {len(merged.classes_)} classes.")
