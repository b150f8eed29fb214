"""`kampong inspect`, `card`, `merge`, `score`, `report` and `key`: model files shown, merged, scored and signed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from kampong.cli.common import (
    Delimiter,
    Format,
    Header,
    Json,
    KeyFile,
    MaxFeatures,
    ModelFile,
    Quiet,
    SourcePath,
    Untrusted,
    ZeroBased,
    app,
    say,
    stop_on_signals,
)


@app.command(
    epilog="Examples:\n\n  kampong inspect flowers.kampong\n\n  kampong inspect flowers.kampong --json | jq .classes"
)
def inspect(
    model: Annotated[str, typer.Argument(help="The model file.", show_default=False)],
    key: KeyFile = None,
    as_json: Json = False,
) -> None:
    """Show what a model file holds: classes, counts, eigenvalues, solver, where it came from."""
    from kampong.streaming.inspection import describe, show

    facts = describe(model, key=key)
    if as_json:
        print(json.dumps(facts, ensure_ascii=False))
    else:
        show(facts)


@app.command(
    epilog="Examples:\n\n  kampong card flowers.kampong > flowers.md\n\n"
    "  kampong card flowers.kampong --receipt removed.json --out flowers.md"
)
def card(
    model: Annotated[str, typer.Argument(help="The model file.", show_default=False)],
    out: Annotated[str, typer.Option("--out", "-o", help="The Markdown file, or - for stdout.")] = "-",
    receipt: Annotated[
        list[str] | None,
        typer.Option(
            help="A receipt of kampong unlearn, compared with the model. May be repeated.", show_default=False
        ),
    ] = None,
    key: KeyFile = None,
) -> None:
    """Write a model card: data, choices, accuracy with its baselines, rows taken out, limits."""
    from kampong.files.replace import write_bytes
    from kampong.streaming.card import model_card
    from kampong.streaming.outputs.targets import check_targets, key_file

    receipts = list(receipt or ())
    check_targets({"the model": [model], "a receipt": receipts, **key_file(key)}, {"--out": out})
    text = model_card(model, receipts=receipts, key=key)
    if out == "-":
        print(text, end="")
    else:
        write_bytes(Path(out), text.encode())


@app.command(epilog="Examples:\n\n  kampong merge monday.kampong tuesday.kampong --out week.kampong")
def merge(
    models: Annotated[list[str], typer.Argument(help="Two model files or more.", show_default=False)],
    out: Annotated[str, typer.Option("--out", "-o", help="The model file to write.", show_default=False)],
    key: KeyFile = None,
    quiet: Quiet = False,
) -> None:
    """Merge models of several streams into one, as if it had learnt all of them."""
    from kampong.streaming.errors import UsageError
    from kampong.streaming.inspection import merge_files

    if len(models) < 2:
        raise UsageError(f"merge needs two model files or more, got {len(models)}.")
    merged = merge_files(models, out, key=key)
    say(quiet, f"{out}: {merged.n_samples_seen_:,} rows, {len(merged.classes_)} classes.")


@app.command(epilog="Examples:\n\n  kampong score test.csv --model flowers.kampong")
def score(
    source: SourcePath,
    model: ModelFile,
    file_format: Format = "auto",
    header: Header = True,
    delimiter: Delimiter = "",
    max_features: MaxFeatures = 0,
    zero_based: ZeroBased = False,
    untrusted: Untrusted = False,
    key: KeyFile = None,
    as_json: Json = False,
) -> None:
    """Compare what a model predicts with the labels of a source: accuracy, F1, balanced accuracy, kappa, confusion."""
    from kampong.streaming.columns.schema import Layout
    from kampong.streaming.options import checked
    from kampong.streaming.options import delimiter as separator
    from kampong.streaming.scoring import score as score_source
    from kampong.streaming.scoring import show_score
    from kampong.streaming.sources.source import Source

    layout = Layout(
        format=file_format,
        header=header,
        delimiter=separator(delimiter),
        max_features=max_features,
        zero_based=zero_based,
    )
    stop, received = stop_on_signals()
    given = Source(source[0], checked(layout), more=tuple(source[1:]), untrusted=untrusted)
    found = score_source(given, model, stop=stop, key=key)
    if as_json:
        classes, table = found.confusion()
        facts = {"rows": found.rows, "dead": found.dead, **found.measures(), "classes": classes}
        print(json.dumps({**facts, "confusion": table.tolist()}, ensure_ascii=False))
    else:
        show_score(found)
    if received:
        raise SystemExit(128 + received[0])


@app.command(epilog="Examples:\n\n  kampong report flowers.kampong --out flowers.html")
def report(
    model: Annotated[str, typer.Argument(help="The model file, also of a run that goes on.", show_default=False)],
    out: Annotated[str, typer.Option("--out", "-o", help="The HTML file.", show_default="MODEL.html")] = "",
    key: KeyFile = None,
    quiet: Quiet = False,
) -> None:
    """Write the report of a model file: the course of its stream so far, in one HTML file."""
    from kampong.contract import stream_model
    from kampong.report.page import write_report
    from kampong.streaming.errors import OutputError, UsageError
    from kampong.streaming.history.history import History
    from kampong.streaming.history.rejected import titled
    from kampong.streaming.model_file import read_model
    from kampong.streaming.outputs.targets import check_targets, key_file

    path = out or f"{model}.html"
    check_targets({"the model": [model], **key_file(key)}, {"--out": path}, ())
    learnt, state, _ = read_model(model, key=key)
    if state is None:
        raise UsageError(f"{model}: it was saved from Python and knows nothing of a source, so there is no report.")
    counters, source, course = state.counters, ", ".join(state.sources), state.course
    how = "merged" if course is None else "finished" if state.finished else "goes on"
    provenance = {"source": "standard input" if source == "-" else source, "model file": model, "state": how}
    provenance |= {} if course is None else titled(course.rejected, state.memory)
    history = History() if course is None else course.history  # models that were merged have no course
    title = "standard input" if source == "-" else Path(model if len(state.sources) > 1 else source).name
    one = stream_model(learnt)
    solved = one.predictor() if course is None and one.can.freeze else None
    more = {"predictor": solved if course is None else course.predictor, "memory": state.memory}
    try:
        write_report(path, learnt, history, title=title, provenance=provenance, **more)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}. Choose another place with --out.") from None
    say(quiet, f"{path}: the report of {counters.rows:,} rows.")


@app.command(epilog="Examples:\n\n  kampong key ours.key\n\n  kampong learn a.csv -l kind -m a.kampong --key ours.key")
def key(
    file: Annotated[str, typer.Argument(help="The file to write; an existing one stays.", show_default=False)],
    quiet: Quiet = False,
) -> None:
    """Make a key that signs model files: with --key, a command opens only models that are signed with it."""
    from kampong.files.signing import make_key

    mark = make_key(file)
    say(quiet, f"{file}: a new key, of fingerprint {mark}. Who has it can sign models: keep it secret.")
