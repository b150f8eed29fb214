"""`kampong learn --engine`: files learnt in parts, with a progress bar."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kampong.cli.common import say, tell_dead, tell_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kampong.streaming.columns.schema import Layout

SHOWN = 5
"""Parts with dead letters that are named on the terminal."""


def refuse_stream_options(engine: str, source: Sequence[str], given: dict[str, Any], missing: str) -> None:
    """Refuse what belongs to one stream in order, and say what to do."""
    from kampong.streaming.errors import UsageError
    from kampong.streaming.sources import scheme_of

    for option, value in given.items():
        if value:
            raise UsageError(
                f"{option} needs one stream in order, and --engine {engine} learns parts that have none. Leave one of "
                "them out."
            )
    if missing == "mean":
        raise UsageError(
            "--missing mean fills in the mean of the rows before, and parts have no common order. With --engine such "
            "records are dead letters."
        )
    for path in filter(scheme_of, source):
        raise UsageError(
            f"--engine reads files where its workers run, and {scheme_of(path)}:// is no file. Leave out --engine."
        )
    if "-" in source:
        raise UsageError("--engine reads files where its workers run, and stdin is not one. Give files or a folder.")


def learn_in_parts(
    engine: str,
    source: Sequence[str],
    estimator: Any,
    layout: Layout,
    *,
    model: str,
    letters: str,
    report: str,
    classes: Sequence[str],
    strict: bool,
    max_classes: int,
    key: str | None,
    untrusted: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Learn files on an engine, write model, dead letters and report, and say what was done."""
    from kampong.adapters.engines import learn_files
    from kampong.adapters.file_parts import files_of
    from kampong.streaming.outputs.targets import check_targets, key_file

    targets = {"--model": model, "--dead-letters": letters, "--report": report}
    check_targets({"the source": files_of(source), **key_file(key)}, targets)
    silent = quiet or as_json
    with _bar(silent) as watch:
        run = learn_files(
            engine,
            source,
            estimator,
            layout=layout,
            model_file=model,
            dead_letters=letters,
            classes=classes,
            strict=strict,
            max_classes=max_classes,
            key=key,
            untrusted=untrusted,
            watch=watch,
            tell=lambda schema: tell_schema(silent, schema),
        )
    counters = run.counters
    if report:
        from kampong.report.page import write_report
        from kampong.streaming.history.history import History

        facts = {"source": ", ".join(source), "model": model, "rows": counters.rows, "dead letters": counters.dead}
        write_report(report, run.model, History(), title=Path(source[0]).name, provenance=facts, memory=run.memory)
    if as_json:
        dead = [{key: value for key, value in part.items() if key != "letters"} for part in run.dead]
        numbers = {"records": counters.records, "rows": counters.rows, "dead": counters.dead}
        print(json.dumps({**numbers, "parts": run.parts, "dead_parts": dead, "model": model}, ensure_ascii=False))
        return
    there = f", {counters.dead:,} dead letters in {len(run.dead):,} parts" if counters.dead else ""
    say(quiet, f"{model}: {counters.rows:,} rows in {run.parts:,} parts{there}; finished.")
    for part in run.dead[:SHOWN]:
        say(quiet, f"  {part['source']}: {part['dead']:,} of {part['records']:,}: {part['letters'][0]['reason']}")
    if len(run.dead) > SHOWN:
        say(quiet, f"  … and {len(run.dead) - SHOWN:,} more parts; the first letters of each are in {letters}.")
    tell_dead(quiet, counters.dead, counters.records, letters)


@contextmanager
def _bar(silent: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar on a terminal."""
    if silent or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("parts", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
