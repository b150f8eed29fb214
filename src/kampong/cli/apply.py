"""`kampong predict`, `project` and `unlearn`: a saved model and the records of a source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kampong.cli.common import (
    FEW,
    Delimiter,
    Drop,
    Format,
    Header,
    Json,
    KeyFile,
    MaxFeatures,
    MaxRecord,
    ModelFile,
    Out,
    Quiet,
    SourcePath,
    Strict,
    Untrusted,
    ZeroBased,
    app,
    say,
    stop_on_signals,
    tell_dead,
)

if TYPE_CHECKING:
    from kampong.streaming.columns.schema import Layout


@app.command(
    epilog="Examples:\n\n"
    "  kampong predict new.csv --model flowers.kampong > classes.csv\n\n"
    "  kampong predict new.csv --model flowers.kampong --set 0.9\n\n"
    "  kampong predict new.csv --model flowers.kampong --reject 0.01\n\n"
    "  cat new.jsonl | kampong predict - --format jsonl -m log.kampong --probabilities --out classes.jsonl"
)
def predict(
    source: SourcePath,
    model: ModelFile,
    out: Out = "-",
    probabilities: Annotated[
        str,
        typer.Option(
            "--probabilities", help="Add probabilities: of the predicted class (best), or of every class (all)."
        ),
    ] = "",
    coverage: Annotated[
        float | None,
        typer.Option(
            "--set", help="Add the classes that each record may have, so that this share of the sets is right."
        ),
    ] = None,
    reject: Annotated[
        float | None,
        typer.Option(
            help="Predict 'none of these' for records that look like no class: at most this share of known records."
        ),
    ] = None,
    label: Annotated[str | None, typer.Option(help="The label column to ignore, if the model names none.")] = None,
    drop: Drop = None,
    file_format: Format = "auto",
    header: Header = True,
    delimiter: Delimiter = "",
    max_features: MaxFeatures = 0,
    zero_based: ZeroBased = False,
    max_record_bytes: MaxRecord = 8 * 2**20,
    dead_letters: Annotated[str, typer.Option(help="Where bad records go.")] = "",
    strict: Strict = False,
    untrusted: Untrusted = False,
    key: KeyFile = None,
    quiet: Quiet = False,
) -> None:
    """Predict the classes of the records of a source; columns are matched by name."""
    layout = apply_layout(label, drop, file_format, header, delimiter, max_features, zero_based, max_record_bytes)
    extras = probabilities, key, untrusted, coverage, reject
    _apply("predict", source, model, out, layout, dead_letters, strict, quiet, *extras)


@app.command(
    epilog="Examples:\n\n"
    "  kampong project new.csv --model flowers.kampong --out points.csv\n\n"
    "  kampong project - --format csv -m flowers.kampong < new.csv | head"
)
def project(
    source: SourcePath,
    model: ModelFile,
    out: Out = "-",
    label: Annotated[str | None, typer.Option(help="The label column to ignore, if the model names none.")] = None,
    drop: Drop = None,
    file_format: Format = "auto",
    header: Header = True,
    delimiter: Delimiter = "",
    max_features: MaxFeatures = 0,
    zero_based: ZeroBased = False,
    max_record_bytes: MaxRecord = 8 * 2**20,
    dead_letters: Annotated[str, typer.Option(help="Where bad records go.")] = "",
    strict: Strict = False,
    untrusted: Untrusted = False,
    key: KeyFile = None,
    quiet: Quiet = False,
) -> None:
    """Project the records of a source on the directions of a model."""
    layout = apply_layout(label, drop, file_format, header, delimiter, max_features, zero_based, max_record_bytes)
    _apply("project", source, model, out, layout, dead_letters, strict, quiet, "", key, untrusted)


def apply_layout(
    label: str | None,
    drop: list[str] | None,
    file_format: str,
    header: bool,
    delimiter: str,
    max_features: int,
    zero_based: bool,
    max_record_bytes: int,
) -> Layout:
    """Return what a user says of a source that a model is applied to."""
    from kampong.streaming.columns.schema import Layout
    from kampong.streaming.options import checked, names
    from kampong.streaming.options import delimiter as separator

    return checked(
        Layout(
            label=label,
            format=file_format,
            header=header,
            delimiter=separator(delimiter),
            drop=names(drop),
            max_features=max_features,
            zero_based=zero_based,
            max_record_bytes=max_record_bytes,
        )
    )


def _apply(
    what: str,
    source: list[str],
    model: str,
    out: str,
    layout: Layout,
    dead_letters: str,
    strict: bool,
    quiet: bool,
    probabilities: str,
    key: str | None,
    untrusted: bool,
    coverage: float | None = None,
    reject: float | None = None,
) -> None:
    from kampong.streaming.apply_model import apply
    from kampong.streaming.history.rejected import offered
    from kampong.streaming.sources.source import Source

    stop, received = stop_on_signals()
    done = apply(
        Source(source[0], layout, more=tuple(source[1:]), untrusted=untrusted),
        model,
        what,
        out=out,
        dead_letters=dead_letters,
        strict=strict,
        probabilities=probabilities,
        coverage=coverage,
        reject=reject,
        stop=stop,
        key=key,
    )
    tell_dead(quiet, done.dead, done.records, dead_letters)
    if 0 < done.dead <= FEW * done.records:
        where = f"see {dead_letters}" if dead_letters else "name a file with --dead-letters to see them"
        say(quiet, f"{done.dead:,} of {done.records:,} records could not be used; {where}.")
    if done.rejected:
        more = ", …" if done.rejected > len(done.listed) else ""
        say(
            quiet,
            f"{done.rejected:,} of {done.rows:,} records look like no class: records "
            f"{', '.join(map(str, done.listed))}{more}. They may be of a new class: label them, and learn them.",
        )
        for sentence in offered(done.candidates):
            say(quiet, sentence)
    if received:
        raise SystemExit(128 + received[0])


@app.command(
    epilog="Examples:\n\n  kampong unlearn customer_17.csv --model flowers.kampong --receipt customer_17.receipt.json"
)
def unlearn(
    source: SourcePath,
    model: ModelFile,
    receipt: Annotated[str, typer.Option("--receipt", "-r", help="Where the receipt goes.", show_default=False)],
    drop: Drop = None,
    file_format: Format = "auto",
    header: Header = True,
    delimiter: Delimiter = "",
    max_features: MaxFeatures = 0,
    zero_based: ZeroBased = False,
    max_record_bytes: MaxRecord = 8 * 2**20,
    untrusted: Untrusted = False,
    key: KeyFile = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Take records out of a model as if they had never been learnt, all of them or none, and write a receipt.

    They need the labels that they were learnt with. The model must not have been learnt with a half-life of this many
    rows; what followed drift by itself (--half-life auto) is dropped, and the receipt says so.
    """
    from kampong.streaming.sources.source import Source
    from kampong.streaming.unlearn_records import unlearn as take_out

    layout = apply_layout(None, drop, file_format, header, delimiter, max_features, zero_based, max_record_bytes)
    given = Source(source[0], layout, more=tuple(source[1:]), untrusted=untrusted)
    found, done = take_out(given, model, receipt, key=key)
    if as_json:
        print(found.to_json(), end="")
    names = ", ".join(map(str, found.classes_gone))
    gone = f"; no rows are left of {'class' if len(found.classes_gone) == 1 else 'classes'} {names}" if names else ""
    again = "" if done else " It was done before: the model is as it was."
    say(quiet, f"{model}: {found.rows:,} rows taken out{gone}; receipt in {receipt}.{again}")
