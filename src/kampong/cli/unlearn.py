"""`kampong unlearn`: records removed from a model file."""

from __future__ import annotations

from typing import Annotated

import typer

from kampong.cli.apply import apply_layout
from kampong.cli.common import (
    Delimiter,
    Drop,
    Format,
    Header,
    Json,
    KeyFile,
    MaxFeatures,
    MaxRecord,
    ModelFile,
    Quiet,
    SourcePath,
    Untrusted,
    ZeroBased,
    app,
    say,
)


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
