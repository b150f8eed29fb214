"""Shared by the commands: the application, common options, signals, and where messages go."""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from kampong.streaming.columns.schema import Schema

EXIT_CODES = (  # one line: the help wraps it to the width of the terminal
    "Exit codes: 0 done; 1 something unexpected; 2 wrong usage, or no such column; 3 the source cannot be read or a "
    "record is bad under --strict; 4 the model file is damaged, is signed with another key, or belongs to another run; "
    "5 an output cannot be written; 6 everything given has been learnt before; 130 and 143 stopped by Ctrl-C or "
    "SIGTERM, state saved; 141 the program that read our output has closed."
)

FEW = 0.03
"""A larger share of dead letters is said loudly."""

COMMANDS = (
    *("demo", "learn", "predict", "score", "report", "project", "inspect", "card", "merge", "unlearn", "serve"),
    *("sources", "key", "reproduce"),
)


class _InOrderOfUse(TyperGroup):
    """Lists the commands in the order in which a newcomer meets them."""

    def list_commands(self, ctx: Any) -> list[str]:
        known = super().list_commands(ctx)
        return [name for name in COMMANDS if name in known] + [name for name in known if name not in COMMANDS]


app = typer.Typer(
    cls=_InOrderOfUse,
    name="kampong",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

MODEL, COLUMNS, SOURCE, RESULTS = "Model", "Columns", "Source", "Results"
"""The groups of options in --help."""

SourcePath = Annotated[
    list[str],
    typer.Argument(
        help="A file, several of the same columns, a folder of them, - for stdin, or an address (see kampong sources).",
        show_default=False,
    ),
]
ModelFile = Annotated[str, typer.Option("--model", "-m", help="The model file.", show_default=False)]
FORMAT = typer.Option("--format", rich_help_panel=SOURCE)  # `main` lists the formats
Format = Annotated[str, FORMAT]
Header = Annotated[
    bool, typer.Option(help="Whether CSV has a header; without one, columns are named 1, 2, …", rich_help_panel=SOURCE)
]
Delimiter = Annotated[
    str, typer.Option(help="What separates the columns of CSV.", show_default="comma", rich_help_panel=SOURCE)
]
Drop = Annotated[
    list[str] | None, typer.Option(help="Columns to leave out: a,b. May be repeated.", rich_help_panel=COLUMNS)
]
MaxFeatures = Annotated[
    int, typer.Option(help="The largest index of libsvm.", show_default=False, rich_help_panel=SOURCE)
]
ZeroBased = Annotated[bool, typer.Option("--zero-based", help="libsvm indices start at 0.", rich_help_panel=SOURCE)]
MaxRecord = Annotated[
    int, typer.Option("--max-record-bytes", help="A longer line is a dead letter.", rich_help_panel=SOURCE)
]
Letters = Annotated[
    str,
    typer.Option(
        "--dead-letters", help="Where bad records go.", show_default="MODEL.dead.jsonl", rich_help_panel=RESULTS
    ),
]
Untrusted = Annotated[
    bool,
    typer.Option(
        "--untrusted",
        help="The source may be made to do harm: Parquet, Arrow and NumPy are read in a process with limits.",
        rich_help_panel=SOURCE,
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first bad record.", rich_help_panel=SOURCE)]
Out = Annotated[
    str,
    typer.Option(
        "--out",
        "-o",
        help="Where rows go: a .csv or .jsonl file, - for stdout, or a broker's stream.",
        rich_help_panel=RESULTS,
    ),
]
KeyFile = Annotated[
    str | None,
    typer.Option(
        "--key",
        help="The file of the key that signs the model; `kampong key FILE` makes one.",
        envvar="KAMPONG_KEY",
        show_default=False,
        rich_help_panel=MODEL,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.", rich_help_panel=RESULTS)]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.", rich_help_panel=RESULTS)]


def _print_version(wanted: bool) -> None:
    if wanted:
        from kampong import __version__

        print(f"kampong {__version__}")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Find the few directions that tell labelled classes apart, in a stream, and keep them current."""


def stop_on_signals() -> tuple[threading.Event, list[int]]:
    """Let Ctrl-C and SIGTERM end the run after the current batch; a second one ends it at once."""
    stop = threading.Event()
    received: list[int] = []

    def note(number: int, _: Any) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, note)
    return stop, received


def say(quiet: bool, text: str) -> None:
    """Print a message on stderr."""
    if not quiet:
        print(text, file=sys.stderr)


def tell_schema(quiet: bool, schema: Schema) -> None:
    """Say on stderr what the columns are, and which of them look like no feature."""
    say(quiet, schema.summary())
    for hint in schema.hints:
        say(quiet, f"WARNING: column {hint}")


def tell_dead(quiet: bool, dead: int, records: int, letters: str) -> None:
    """Say loudly on stderr that many records could not be used, and what the first of them says."""
    if dead <= FEW * records:
        return
    where, first = "name a file with --dead-letters to see them", ""
    if letters:
        with Path(letters).open(encoding="utf-8") as file:
            reason = json.loads(file.readline())["reason"]
        first = f" The first one: {reason}."
        if reason.startswith("not UTF-8"):
            first += " Convert the source to UTF-8, for instance with iconv."
        where = f"see {letters}"
    say(quiet, f"WARNING: {dead:,} of {records:,} records ({dead / records:.0%}) could not be used; {where}.{first}")
