"""The command `kampong`: parse, call, print. Slow imports are inside the commands, so that --help is quick."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from kampong.streaming.learner import Run
    from kampong.streaming.schema import Layout

EXIT_CODES = """
Exit codes: 0 done; 1 something unexpected; 2 wrong usage, or no such column; 3 the source cannot be read or a record is
bad under --strict; 4 the model file is damaged or belongs to another run; 5 an output cannot be written; 130 and 143
stopped by Ctrl-C or SIGTERM, state saved; 141 the program that read our output has closed.
"""
USAGE, SOURCE, MODEL, OUTPUT, CLOSED = 2, 3, 4, 5, 141

app = typer.Typer(
    name="kampong",
    help="The few directions that tell labelled classes apart, learnt from a stream and kept current.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

SourcePath = Annotated[
    str, typer.Argument(help="A file, a folder of Parquet files, or - for stdin.", show_default=False)
]
ModelFile = Annotated[str, typer.Option("--model", "-m", help="The model file.", show_default=False)]
FORMAT = typer.Option("--format")  # `main` lists the formats
Format = Annotated[str, FORMAT]
Header = Annotated[bool, typer.Option(help="Whether CSV has a header; without one, columns are named 1, 2, …")]
Delimiter = Annotated[str, typer.Option(help="What separates the columns of CSV.", show_default="comma")]
Drop = Annotated[list[str] | None, typer.Option(help="A column to leave out. May be repeated.")]
MaxFeatures = Annotated[int, typer.Option(help="The largest index of libsvm.", show_default=False)]
ZeroBased = Annotated[bool, typer.Option("--zero-based", help="libsvm indices start at 0.")]
MaxRecord = Annotated[int, typer.Option("--max-record-bytes", help="A longer line is a dead letter.")]
Letters = Annotated[str, typer.Option("--dead-letters", help="Where bad records go.", show_default="MODEL.dead.jsonl")]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first bad record.")]
Out = Annotated[str, typer.Option("--out", "-o", help="Where rows go: a .csv or .jsonl file, or - for stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]


def main() -> None:
    """Run the command line; every expected error is one line on stderr and an exit code."""
    from kampong.streaming import formats
    from kampong.streaming.errors import ClosedPipeError

    FORMAT.help = f"{', '.join(formats.names())}, or auto."
    try:
        app(standalone_mode=True)
    except ClosedPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that Python does not flush to the closed pipe at exit
        raise SystemExit(CLOSED) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except ValueError as error:
        _fail(error)


def _fail(error: ValueError) -> NoReturn:
    from kampong.checkpoint import CheckpointError
    from kampong.streaming import errors

    codes: list[tuple[Any, int]] = [
        ((errors.UsageError, errors.ColumnError), USAGE),
        (errors.ResumeError, MODEL),
        (errors.OutputError, OUTPUT),
        (CheckpointError, MODEL),
        (errors.StreamError, SOURCE),
    ]
    code = next((code for kind, code in codes if isinstance(error, kind)), USAGE)
    print(f"kampong: {error}", file=sys.stderr)
    raise SystemExit(code) from None


@app.command(
    epilog="Examples:\n\n"
    "  kampong learn flowers.csv --label species --model flowers.kampong\n\n"
    "  zcat log.jsonl.gz | kampong learn - --format jsonl --label kind --text message -m log.kampong\n\n"
    "  kampong learn rows.svm --max-features 300000 --method interclass -m rows.kampong --out rows.csv\n\n"
    "  kampong learn today.csv --follow --label state -m state.kampong --half-life 100000 --serve\n\n"
    "To continue a stopped or killed run, start the same command again: it goes on from the last save."
)
def learn(
    source: SourcePath,
    model: ModelFile,
    label: Annotated[
        str | None, typer.Option("--label", "-l", help="The column of the class.", show_default=False)
    ] = None,
    method: Annotated[str, typer.Option(help="fisher, margin, interclass or kampong.", show_default="fisher")] = "",
    components: Annotated[
        str, typer.Option("--components", "-n", help="How many directions: a number or auto.")
    ] = "auto",
    epsilon: Annotated[
        str, typer.Option(help="Weight of the within-class scatter: a number or auto; means --method margin.")
    ] = "",
    ridge: Annotated[str, typer.Option(help="The ridge of fisher: a number or auto.")] = "auto",
    half_life: Annotated[
        float | None, typer.Option(help="Rows after which a row counts half.", show_default="never")
    ] = None,
    classes: Annotated[
        list[str] | None, typer.Option(help="The classes that may come: a,b,c. Others are dead letters.")
    ] = None,
    out: Out = "",
    report: Annotated[str, typer.Option(help="Write a report to this HTML file.")] = "",
    serve: Annotated[bool, typer.Option("--serve", help="Show a live page of the stream.")] = False,
    host: Annotated[str, typer.Option(help="Where to serve it.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="On which port; 0 for any free one.")] = 0,
    token: Annotated[
        str, typer.Option(help="A secret that readers on other hosts must give.", envvar="KAMPONG_TOKEN")
    ] = "",
    text: Annotated[list[str] | None, typer.Option(help="A column of text, hashed by words. May be repeated.")] = None,
    category: Annotated[list[str] | None, typer.Option(help="A column to hash as a category. May be repeated.")] = None,
    drop: Drop = None,
    hash_width: Annotated[
        int, typer.Option(help="Columns for hashed words.", show_default="2^18, or 2^10 without text")
    ] = 0,
    file_format: Format = "auto",
    header: Header = True,
    delimiter: Delimiter = "",
    max_features: MaxFeatures = 0,
    zero_based: ZeroBased = False,
    max_record_bytes: MaxRecord = 8 * 2**20,
    max_classes: Annotated[int, typer.Option(help="Stop at more classes than this.")] = 1000,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more at the end of the file.")] = False,
    live: Annotated[
        bool, typer.Option("--live", help="stdin cannot be replayed, so a resumed run skips nothing.")
    ] = False,
    checkpoint_every: Annotated[float, typer.Option(help="Seconds between two saves.")] = 30.0,
    dead_letters: Letters = "",
    strict: Strict = False,
    seed: Annotated[int, typer.Option(help="Seed of the sample of rows that wide streams keep.")] = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn a labelled stream, and keep the model file current.

    Each batch is predicted before it is learnt, so the accuracy shown is honest.
    """
    from kampong.streaming.learner import learn as run_stream
    from kampong.streaming.options import checked, estimator, listed
    from kampong.streaming.options import delimiter as separator
    from kampong.streaming.schema import Layout
    from kampong.streaming.sources import Source

    model_of_options = estimator(method, components, epsilon, ridge, half_life, seed)
    layout = Layout(
        label=label,
        format=file_format,
        header=header,
        delimiter=separator(delimiter),
        text=tuple(text or ()),
        category=tuple(category or ()),
        drop=tuple(drop or ()),
        hash_width=hash_width,
        max_features=max_features,
        zero_based=zero_based,
        max_record_bytes=max_record_bytes,
    )
    stop, received = _stop_on_signals()
    page = _live_page(serve, host, port, token, quiet)
    watchers = _watchers(quiet or as_json, page)

    def watch(run: Run) -> None:
        for look in watchers:
            look(run)

    run = run_stream(
        Source(source, checked(layout), follow=follow, live=live),
        model_of_options,
        model_file=model,
        out=out,
        dead_letters=dead_letters,
        classes=listed(classes),
        strict=strict,
        max_classes=max_classes,
        checkpoint_every=checkpoint_every,
        watch=watch,
        stop=stop,
    )
    if watchers and not quiet and sys.stderr.isatty() and not as_json and not run.idle:
        watchers[0].write(run)
    if report:
        _write_report(report, run, source, model)
    letters = dead_letters or f"{model}.dead.jsonl"
    _tell_end(run, model, source, letters, quiet, as_json, sys.stderr if out == "-" else sys.stdout)
    if page is not None:
        page.finish()
        if not received:
            _say(quiet, "The live page stays until Ctrl-C.")
            stop.wait()
        page.stop()
    if received and run.stopped:
        raise SystemExit(128 + received[0])


@app.command(
    epilog="Examples:\n\n"
    "  kampong predict new.csv --model flowers.kampong > classes.csv\n\n"
    "  cat new.jsonl | kampong predict - --format jsonl -m log.kampong --probabilities --out classes.jsonl"
)
def predict(
    source: SourcePath,
    model: ModelFile,
    out: Out = "-",
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Add the probability of the class.")] = False,
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
    quiet: Quiet = False,
) -> None:
    """Predict the classes of the records of a source; columns are matched by name."""
    layout = _apply_layout(label, drop, file_format, header, delimiter, max_features, zero_based, max_record_bytes)
    _apply("predict", source, model, out, layout, dead_letters, strict, quiet, probabilities)


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
    quiet: Quiet = False,
) -> None:
    """Project the records of a source on the directions of a model."""
    layout = _apply_layout(label, drop, file_format, header, delimiter, max_features, zero_based, max_record_bytes)
    _apply("project", source, model, out, layout, dead_letters, strict, quiet, False)


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
    _say(quiet, f"{out}: {merged.n_samples_seen_:,} rows, {len(merged.classes_)} classes.")


@app.command(epilog="Examples:\n\n  kampong demo\n\n  kampong demo --folder /tmp/demo --serve")
def demo(
    folder: Annotated[str, typer.Option(help="Where to put data, model and report.")] = "kampong-demo",
    serve: Annotated[bool, typer.Option("--serve", help="Show a live page of the stream.")] = False,
    quiet: Quiet = False,
) -> None:
    """Learn 1,797 handwritten digits as a stream, and write a report."""
    from kampong.streaming.inspection import write_digits

    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    digits, model, report = home / "digits.csv", home / "digits.kampong", home / "report.html"
    write_digits(digits)
    model.unlink(missing_ok=True)
    command = f"kampong learn {digits} --label digit --model {model} --out {home / 'predictions.csv'} --report {report}"
    _say(quiet, f"$ {command}{' --serve' if serve else ''}")
    arguments = [*command.split()[1:], *(["--serve"] if serve else []), *(["--quiet"] if quiet else [])]
    app(arguments, standalone_mode=False)


def _apply_layout(
    label: str | None,
    drop: list[str] | None,
    file_format: str,
    header: bool,
    delimiter: str,
    max_features: int,
    zero_based: bool,
    max_record_bytes: int,
) -> Layout:
    from kampong.streaming.options import checked
    from kampong.streaming.options import delimiter as separator
    from kampong.streaming.schema import Layout

    return checked(
        Layout(
            label=label,
            format=file_format,
            header=header,
            delimiter=separator(delimiter),
            drop=tuple(drop or ()),
            max_features=max_features,
            zero_based=zero_based,
            max_record_bytes=max_record_bytes,
        )
    )


def _apply(
    what: str,
    source: str,
    model: str,
    out: str,
    layout: Layout,
    dead_letters: str,
    strict: bool,
    quiet: bool,
    probabilities: bool,
) -> None:
    from kampong.streaming.apply import apply
    from kampong.streaming.sources import Source

    stop, received = _stop_on_signals()
    done = apply(
        Source(source, layout),
        model,
        what,
        out=out,
        dead_letters=dead_letters,
        strict=strict,
        probabilities=probabilities,
        stop=stop,
    )
    if done.dead:
        where = f"see {dead_letters}" if dead_letters else "name a file with --dead-letters to see them"
        _say(quiet, f"{done.dead:,} of {done.records:,} records could not be used; {where}.")
    if received:
        raise SystemExit(128 + received[0])


def _stop_on_signals() -> tuple[threading.Event, list[int]]:
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


def _watchers(quiet: bool, page: Any) -> list[Any]:
    watchers: list[Any] = []
    if not quiet and sys.stderr.isatty():
        from kampong.streaming.progress import Progress

        watchers.append(Progress(sys.stderr))
    if page is not None:
        from dataclasses import asdict

        watchers.append(lambda run: page.publish(run.model, run.history, asdict(run.counters)))
    return watchers


def _live_page(serve: bool, host: str, port: int, token: str, quiet: bool) -> Any:
    if not serve:
        return None
    from kampong.report.live import LivePage

    page = LivePage(host=host, port=port, token=token or None)
    _say(quiet, f"Live page: {page.start()}")
    return page


def _write_report(path: str, run: Run, source: str, model: str) -> None:
    from kampong.report.page import write_report

    counters = run.counters
    provenance = {"source": source, "model": model, "rows": counters.rows, "dead letters": counters.dead}
    write_report(path, run.model, run.history, title=f"{Path(source).name}", provenance=provenance)


def _grown(run: Run, source: str) -> str:
    """Say what to do if the source is longer than what was learnt."""
    if source != "-" and run.place and "offset" in run.place and Path(source).stat().st_size > run.place["offset"]:
        return f"{source} may have grown since: --follow learns the rest."
    return ""


def _tell_end(run: Run, model: str, source: str, letters: str, quiet: bool, as_json: bool, stdout: Any) -> None:
    counters = run.counters
    if as_json:
        facts = {
            **vars(counters),
            "accuracy": counters.accuracy if counters.scored else None,
            "finished": run.finished,
            "resumed": run.resumed,
            "model": model,
        }
        print(json.dumps(facts, ensure_ascii=False), file=stdout)
        return
    if run.idle:
        _say(quiet, f"{model}: already finished, {counters.rows:,} rows; nothing to do. {_grown(run, source)}".rstrip())
        return
    score = f", accuracy {counters.accuracy:.4f} before learning" if counters.scored else ""
    dead = f", {counters.dead:,} dead letters in {letters}" if counters.dead else ""
    state = "stopped; start the same command to go on" if run.stopped else "finished"
    _say(quiet, f"{model}: {counters.rows:,} rows{score}{dead}; {state}.")
    remark = "" if run.predictor is None else run.predictor.remark
    if remark:
        _say(quiet, f"Note: {remark}")


def _say(quiet: bool, text: str) -> None:
    if not quiet:
        print(text, file=sys.stderr)
