"""`kampong learn`, and `kampong demo`, which is `learn` on digits."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kampong.cli.common import (
    COLUMNS,
    MODEL,
    RESULTS,
    SOURCE,
    Delimiter,
    Drop,
    Format,
    Header,
    Json,
    KeyFile,
    Letters,
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
    tell_schema,
)

if TYPE_CHECKING:
    from kampong.streaming.run import Run

COMPILING = "Compiling for this machine. Only the first run waits for it."

SHOWN = 5
"""Files that were learnt before that are named on the terminal."""


@app.command(
    epilog="Examples:\n\n"
    "  kampong learn flowers.csv --label species --model flowers.kampong\n\n"
    "  zcat log.jsonl.gz | kampong learn - --format jsonl --label kind --text message -m log.kampong\n\n"
    "  kampong learn rows.svm --max-features 300000 --method interclass -m rows.kampong --out rows.csv\n\n"
    "  kampong learn today.csv --follow --label state -m state.kampong --serve\n\n"
    "  kampong learn moons.csv --label side --kernel rbf -m moons.kampong\n\n"
    "  kampong learn 'rows/*.parquet' --label kind -m rows.kampong --engine local\n\n"
    "  kampong learn monday.csv --label state -m week.kampong && kampong learn tuesday.csv -m week.kampong\n\n"
    "To continue a stopped or killed run, start the same command again: it goes on from the last save.\n\n"
    "A finished model goes on with other files of the same columns. Files that it has learnt are left out; if there "
    "are no others, the exit code is 6.\n\n"
    "`kampong unlearn` takes records out again, unless --half-life is a number."
)
def learn(
    source: SourcePath,
    model: ModelFile,
    label: Annotated[
        str | None,
        typer.Option("--label", "-l", help="The column of the class.", show_default=False, rich_help_panel=COLUMNS),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="fisher, margin, mmc, skm, interclass or recursion.", show_default="fisher", rich_help_panel=MODEL
        ),
    ] = "",
    components: Annotated[
        str, typer.Option("--components", "-n", help="How many directions: a number or auto.", rich_help_panel=MODEL)
    ] = "auto",
    epsilon: Annotated[
        str,
        typer.Option(
            help="Weight of the within-class scatter: a number or auto; means --method margin.", rich_help_panel=MODEL
        ),
    ] = "",
    ridge: Annotated[
        str,
        typer.Option(help="The ridge of fisher: a number, auto, or rule for a quick formula.", rich_help_panel=MODEL),
    ] = "auto",
    a: Annotated[str, typer.Option("--a", help="The a of skm: a number ≥ 1 or auto.", rich_help_panel=MODEL)] = "",
    head: Annotated[
        str,
        typer.Option(
            help="One of auto, gaussian, nearest_mean, cosine, regression, quadratic, logistic, hinge, mixture.",
            rich_help_panel=MODEL,
        ),
    ] = "auto",
    kernel: Annotated[
        str,
        typer.Option(
            help="For curved classes: rbf, laplacian, linear, polynomial or sigmoid. Landmarks move as rows double.",
            rich_help_panel=MODEL,
        ),
    ] = "",
    half_life: Annotated[
        str,
        typer.Option(
            help="Rows after which a row counts half: a number; none to forget nothing; auto follows drift.",
            show_default="auto for --method fisher",
            rich_help_panel=MODEL,
        ),
    ] = "",
    effort: Annotated[
        float | None,
        typer.Option(
            help="Microseconds per row that may go to following drift (--half-life auto). More is often more accurate.",
            show_default="3",
            rich_help_panel=MODEL,
        ),
    ] = None,
    classes: Annotated[
        list[str] | None,
        typer.Option(help="The classes that may come: a,b,c. Others are dead letters.", rich_help_panel=MODEL),
    ] = None,
    out: Out = "",
    report: Annotated[str, typer.Option(help="Write a report to this HTML file.", rich_help_panel=RESULTS)] = "",
    serve: Annotated[
        bool, typer.Option("--serve", help="Show a live page of the stream.", rich_help_panel=RESULTS)
    ] = False,
    host: Annotated[str, typer.Option(help="Where to serve it.", rich_help_panel=RESULTS)] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="On which port; 0 for any free one.", rich_help_panel=RESULTS)] = 0,
    token: Annotated[
        str,
        typer.Option(
            help="A secret that readers must give, at least 8 characters.",
            envvar="KAMPONG_TOKEN",
            show_default="a new one, in the address that is printed",
            rich_help_panel=RESULTS,
        ),
    ] = "",
    no_token: Annotated[
        bool,
        typer.Option("--no-token", help="Show the live page to every user of this machine.", rich_help_panel=RESULTS),
    ] = False,
    text: Annotated[
        list[str] | None,
        typer.Option(help="A column of text, hashed by words. May be repeated.", rich_help_panel=COLUMNS),
    ] = None,
    category: Annotated[
        list[str] | None, typer.Option(help="A column to hash as a category. May be repeated.", rich_help_panel=COLUMNS)
    ] = None,
    drop: Drop = None,
    as_: Annotated[
        list[str] | None,
        typer.Option(
            "--as",
            help="What columns are, where it is not found: number:price,date:when,category:zip,text:note,drop:id.",
            rich_help_panel=COLUMNS,
        ),
    ] = None,
    decimal: Annotated[
        str,
        typer.Option(
            help="What comes before a fraction in text: . or a comma.", show_default="found", rich_help_panel=COLUMNS
        ),
    ] = "",
    date_order: Annotated[
        str,
        typer.Option(help="dmy or mdy, for dates such as 03/04/2026.", show_default="found", rich_help_panel=COLUMNS),
    ] = "",
    flatten: Annotated[
        int,
        typer.Option(
            help="Learn the values of objects inside JSON objects, this many deep, as columns such as place.city.",
            rich_help_panel=COLUMNS,
        ),
    ] = 3,
    hash_width: Annotated[
        int,
        typer.Option(
            help="Columns for hashed words.", show_default="2^18, or 2^10 without text", rich_help_panel=COLUMNS
        ),
    ] = 0,
    ngrams: Annotated[
        int, typer.Option(help="Hash runs of up to this many words of a text.", rich_help_panel=COLUMNS)
    ] = 1,
    tfidf: Annotated[
        bool, typer.Option("--tfidf", help="Words that many records have count less.", rich_help_panel=COLUMNS)
    ] = False,
    missing: Annotated[
        str,
        typer.Option(
            help="A missing number becomes the mean so far: auto adds a column that says so where it is frequent, "
            "mean does not; dead sets the record aside.",
            rich_help_panel=COLUMNS,
        ),
    ] = "auto",
    file_format: Format = "auto",
    header: Header = True,
    delimiter: Delimiter = "",
    max_features: MaxFeatures = 0,
    zero_based: ZeroBased = False,
    max_record_bytes: MaxRecord = 8 * 2**20,
    max_classes: Annotated[int, typer.Option(help="Stop at more classes than this.", rich_help_panel=MODEL)] = 1000,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for more at the end of the source.", rich_help_panel=SOURCE)
    ] = False,
    query: Annotated[
        str, typer.Option(help="Learn the rows of this query, in place of ?table=NAME.", rich_help_panel=SOURCE)
    ] = "",
    order_by: Annotated[
        str,
        typer.Option(
            help="The columns that order a table, such as id or day,id: no two rows share their values. They are not "
            "learnt.",
            rich_help_panel=SOURCE,
        ),
    ] = "",
    field: Annotated[
        str,
        typer.Option(
            help="The field of an entry of Redis that holds the record.",
            show_default="data, or all fields as columns",
            rich_help_panel=SOURCE,
        ),
    ] = "",
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="Where messages begin that were not read before, or whose place was dropped: earliest or latest.",
            show_default=False,
            rich_help_panel=SOURCE,
        ),
    ] = "",
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="stdin cannot be replayed, so a resumed run skips nothing.", rich_help_panel=SOURCE
        ),
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Learn files once more that were learnt before.", rich_help_panel=SOURCE)
    ] = False,
    label_delay: Annotated[
        int,
        typer.Option(
            help="Learn each label only when this many more rows have been predicted, as where labels come late.",
            rich_help_panel=SOURCE,
        ),
    ] = 0,
    reject: Annotated[
        float,
        typer.Option(
            help="List rows that look like no class before they are learnt, at most this share of known rows, and "
            "candidates for a new class.",
            show_default="0, for none: each row takes longer",
            rich_help_panel=RESULTS,
        ),
    ] = 0.0,
    checkpoint_every: Annotated[
        float,
        typer.Option(help="Seconds between two saves; 0 saves after each batch.", min=0.0, rich_help_panel=RESULTS),
    ] = 30.0,
    dead_letters: Letters = "",
    strict: Strict = False,
    seed: Annotated[
        int, typer.Option(help="Seed of the sample of rows that wide streams keep.", rich_help_panel=MODEL)
    ] = 0,
    engine: Annotated[
        str,
        typer.Option(
            help="Learn files, folders and patterns in parts: in processes of this machine (local, local=N), with Dask "
            "(dask, or dask=ADDRESS for a cluster), or with Spark (spark).",
            rich_help_panel=SOURCE,
        ),
    ] = "",
    untrusted: Untrusted = False,
    key: KeyFile = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn a labelled stream, and keep the model file current.

    Each row is predicted before it is learnt, so the accuracy shown is honest.
    """
    from kampong.streaming.columns.schema import Layout
    from kampong.streaming.options import checked, estimator, kinds, listed, names
    from kampong.streaming.options import delimiter as separator
    from kampong.streaming.outputs.targets import check_targets, key_file
    from kampong.streaming.run import learn as run_stream
    from kampong.streaming.sources.source import Source

    if engine and not half_life:
        half_life = "none"  # parts have no common order
    model_of_options = estimator(
        method, components, epsilon, ridge, half_life, seed, head=head, kernel=kernel, a=a, effort=effort
    )
    said = kinds(as_)
    layout = Layout(
        label=label,
        format=file_format,
        header=header,
        delimiter=separator(delimiter),
        text=(*names(text), *said.get("text", ())),
        category=(*names(category), *said.get("category", ())),
        number=said.get("number", ()),
        date=said.get("date", ()),
        drop=(*names(drop), *said.get("drop", ())),
        decimal=decimal,
        date_order=date_order,
        flatten=flatten,
        hash_width=hash_width,
        ngrams=ngrams,
        tfidf=tfidf,
        missing=missing,
        max_features=max_features,
        zero_based=zero_based,
        max_record_bytes=max_record_bytes,
    )
    letters = dead_letters or f"{model}.dead.jsonl"
    if engine:
        from kampong.cli.engine import learn_in_parts, refuse_stream_options

        stream_only = {"--follow": follow, "--live": live, "--out": out, "--serve": serve, "--tfidf": tfidf}
        stream_only |= {"--label-delay": label_delay, "--reject": reject}
        refuse_stream_options(engine, source, stream_only, missing)
        learn_in_parts(
            engine,
            source,
            model_of_options,
            checked(layout),
            model=model,
            letters=letters,
            report=report,
            classes=listed(classes),
            strict=strict,
            max_classes=max_classes,
            key=key,
            untrusted=untrusted,
            quiet=quiet,
            as_json=as_json,
        )
        return
    labelled = Source(
        source[0],
        checked(layout),
        follow=follow,
        live=live,
        more=tuple(source[1:]),
        untrusted=untrusted,
        query=query,
        order_by=order_by,
        field=field,
        start=start,
    )
    targets = {"--model": model, "--out": out, "--dead-letters": letters, "--report": report}
    check_targets({**labelled.inputs(), **key_file(key)}, targets, labelled.endings())
    secret = _secret(token, no_token)
    stop, received = stop_on_signals()
    page = _live_page(labelled.name, _provenance(labelled.name, model, letters), serve, host, port, secret, quiet)
    watchers = _watchers(quiet or as_json, page)

    told: list[Any] = []

    def watch(run: Run) -> None:
        if not told and run.schema is not None:
            told.append(run.schema)
            tell_schema(quiet or as_json, run.schema)
        for look in watchers:
            look(run)

    run = run_stream(
        labelled,
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
        key=key,
        again=again,
        label_delay=label_delay,
        reject=reject,
    )
    if watchers and not quiet and sys.stderr.isatty() and not as_json:
        watchers[0].write(run)
    if report:
        _write_report(report, run, labelled.name, _provenance(labelled.name, model, letters))
    _tell_end(run, model, letters, quiet, as_json, sys.stderr if out == "-" else sys.stdout)
    if report:
        say(quiet or as_json, f"{report}: the report.")
    if page is not None:
        page.finish()
        if not received:
            say(quiet, "The live page stays until Ctrl-C.")
            stop.wait()
        page.stop()
    if received and run.stopped:
        raise SystemExit(128 + received[0])


def _watchers(quiet: bool, page: Any) -> list[Any]:
    watchers: list[Any] = []
    if not quiet and sys.stderr.isatty():
        from kampong._core.compiling import tell_when_compiling
        from kampong.streaming.outputs.progress import Progress

        tell_when_compiling(lambda: say(quiet, COMPILING))
        watchers.append(Progress(sys.stderr))
    if page is not None:
        watchers.append(lambda run: page.publish(run.model, run.history, predictor=run.predictor, memory=run.memory))
    return watchers


def _live_page(
    source: str, provenance: dict[str, Any], serve: bool, host: str, port: int, token: str | None, quiet: bool
) -> Any:
    if not serve:
        return None
    from kampong.report.live import LivePage

    title = f"{_title(source)}, live"
    page = LivePage(host=host, port=port, token=token, title=title, provenance=provenance)
    say(quiet and token != "auto", f"Live page: {page.start()}")  # nobody can guess a token that was made
    if token is None:
        say(quiet, "WARNING: --no-token: every user of this machine can read the live page.")
    return page


def _secret(token: str, no_token: bool) -> str | None:
    """Return the token of the live page, "auto" to make one, None for none."""
    from kampong.streaming.errors import UsageError

    if token and no_token:
        raise UsageError("--token and --no-token contradict each other. Give one of them, or none: a token is made.")
    return None if no_token else token or "auto"


def _provenance(source: str, model: str, letters: str) -> dict[str, Any]:
    """Return where a run comes from, for the report."""
    return {"source": "standard input" if source == "-" else source, "model file": model, "dead letters file": letters}


def _title(source: str) -> str:
    return "standard input" if source == "-" else Path(source).name


def _write_report(path: str, run: Run, source: str, provenance: dict[str, Any]) -> None:
    from kampong.report.page import write_report
    from kampong.streaming.history.rejected import titled

    provenance |= titled(run.rejected, run.memory)
    more = {"predictor": run.predictor, "memory": run.memory}
    write_report(path, run.model, run.history, title=_title(source), provenance=provenance, **more)


def _tell_end(run: Run, model: str, letters: str, quiet: bool, as_json: bool, stdout: Any) -> None:
    from kampong.contract import stream_model
    from kampong.streaming.history.baselines import compared, late, unscored
    from kampong.streaming.history.rejected import titled

    counters, figures = run.counters, run.history.summary()
    classes = stream_model(run.model).classes
    if run.finished and classes is not None and len(classes) == 1:
        say(quiet, f"WARNING: only the class {classes[0]!r} has come. Nothing can be predicted before there are two.")
    if as_json:
        facts = {
            **vars(counters),
            "accuracy": counters.accuracy if counters.scored else None,
            **figures,
            "rejected": run.rejections(),
            "finished": run.finished,
            "resumed": run.resumed,
            "sources": [{"name": one.name, "rows": one.rows, "dead": one.dead} for one in run.learnt.sources],
            "skipped": list(run.skipped),
            "model": model,
        }
        print(json.dumps(facts, ensure_ascii=False), file=stdout)
        return
    for name in run.skipped[:SHOWN]:
        say(quiet, f"{name}: learnt before, and left out.")
    if len(run.skipped) > SHOWN:
        say(quiet, f"… and {len(run.skipped) - SHOWN:,} more files that were learnt before.")
    new = f" ({counters.rows - run.earlier.rows:,} of them new)" if run.earlier.rows else ""
    score = f", accuracy {counters.accuracy:.4f} before learning" if counters.scored else ""
    if counters.scored and figures["label_delay"]:
        score += f", with labels {figures['label_delay']:,} rows late"
    if counters.scored and counters.unscored:
        score += f" ({unscored(counters.unscored)})"
    dead = f", {counters.dead:,} dead letter{'s' * (counters.dead > 1)} in {letters}" if counters.dead else ""
    state = "stopped; start the same command to go on" if run.stopped else "finished"
    say(quiet, f"{model}: {counters.rows:,} rows{new}{score}{dead}; {state}.")
    for sentence in (*compared(figures), *late(figures), *titled(run.rejected, run.memory).values()):
        say(quiet, sentence)
    tell_dead(quiet, counters.dead - run.earlier.dead, counters.records - run.earlier.records, letters)
    if counters.filled:
        say(quiet, f"{counters.filled:,} missing numbers were filled in with the means of their columns.")
    if counters.unknown:
        say(quiet, f"{counters.unknown:,} records had keys that are no columns; these keys were ignored.")
    remark = "" if run.predictor is None else run.predictor.remark
    for note in filter(None, (run.remark, remark)):
        say(quiet, f"Note: {note}")
