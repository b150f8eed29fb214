"""Twenty files as people make them, beside the same rows cleaned by hand: what is said of them, and the accuracy.

Each file is learnt with nothing set and scored on a second file of the same kind. The rows are generated, so no set of
cells was in view that a reader does not see here.
"""

from __future__ import annotations

import csv
import datetime as dt
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong import FisherDiscriminant
from kampong.streaming import learn
from kampong.streaming.columns.schema import Layout
from kampong.streaming.scoring import score
from kampong.streaming.sources.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

Table = dict[str, list[str]]
LABEL = "deal"


def rows(count: int, seed: int) -> tuple[Table, list[dt.datetime]]:
    """Return a table as a careful person would write it, and a moment for each row that the class depends on."""
    rng = np.random.default_rng(seed)
    won = rng.random(count) < 0.5
    price = np.exp(rng.normal(7.0 + 0.5 * won, 0.6))
    share = np.clip(rng.normal(0.3 + 0.1 * won, 0.15), 0.001, 0.999)
    change = rng.normal(-20.0 + 30.0 * won, 25.0)
    region = np.where(rng.random(count) < 0.6, np.where(won, "north", "south"), "east")
    table = {
        "price": [f"{value:.2f}" for value in price],
        "share": [f"{value:.4f}" for value in share],
        "change": [f"{value:.0f}" for value in change],
        "region": region.tolist(),
        LABEL: np.where(won, "Won", "Lost").tolist(),
    }
    start = dt.datetime(2026, 1, 5)
    offsets = rng.integers(0, 26, count) * 7 + np.where(won, rng.integers(0, 4, count), rng.integers(3, 7, count))
    hours = np.where(won, rng.integers(6, 16, count), rng.integers(12, 24, count))
    return table, [start + dt.timedelta(days=int(d), hours=int(h)) for d, h in zip(offsets, hours, strict=True)]


def cells(name: str, change: Callable[[str], str]) -> Callable[..., Table]:
    """Return a mess that writes the cells of a column in another way."""
    return lambda table, _: {**table, name: [change(value) for value in table[name]]}


def money(value: str, groups: str = ",", mark: str = ".") -> str:
    """Return a number with groups of three digits."""
    return f"{float(value):,.2f}".translate({ord(","): groups, ord("."): mark})


def comma(table: Table, _: Any) -> Table:
    """Write all fractions with a comma."""
    return {name: [value.replace(".", ",") for value in values] for name, values in table.items()}


def with_dates(pattern: str) -> Callable[..., Table]:
    """Return a mess with a column of dates."""
    return lambda table, moments: {"when": [moment.strftime(pattern) for moment in moments], **table}


def clean_dates(hours: bool) -> Callable[..., Table]:
    """Return what a person would make of the dates by hand."""

    def clean(table: Table, moments: list[dt.datetime]) -> Table:
        angles = {"weekday": [2 * np.pi * moment.weekday() / 7 for moment in moments]}
        if hours:
            angles["hour"] = [2 * np.pi * moment.hour / 24 for moment in moments]
        parts = {
            f"{name} {function.__name__}": [f"{function(angle):.6f}" for angle in values]
            for name, values in angles.items()
            for function in (np.sin, np.cos)
        }
        return {**parts, **table}

    return clean


def as_is(table: Table, _: Any) -> Table:
    """Return the table as it is."""
    return table


def later(table: Table, _: Any) -> Table:
    """Write the prices of the second half of the rows as money."""
    prices, half = table["price"], len(table["price"]) // 2
    return {**table, "price": [*prices[:half], *(f"${money(value)}" for value in prices[half:])]}


def gaps(table: Table, _: Any) -> Table:
    """Write "-" and "?" where nothing is known."""
    return {
        **table,
        "share": ["-" if i % 10 == 3 else value for i, value in enumerate(table["share"])],
        "change": ["?" if i % 9 == 4 else value for i, value in enumerate(table["change"])],
    }


def blank_gaps(table: Table, _: Any) -> Table:
    """Leave the same cells empty."""
    return {name: ["" if value in ("-", "?") else value for value in values] for name, values in gaps(table, _).items()}


def first(name: str, values: Callable[[int], list[str]]) -> Callable[..., Table]:
    """Return a mess with a further column in front."""
    return lambda table, _: {name: values(len(table[LABEL])), **table}


def shuffled(count: int) -> list[str]:
    """Return the numbers of rows that were sorted in another way before."""
    return [str(value) for value in np.random.default_rng(count).permutation(count) + 10_000]


def names(count: int) -> list[str]:
    """Return a name of its own for each row."""
    rng = np.random.default_rng(count)
    return [str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(count)]


MESSES: dict[str, tuple[Callable[..., Table], Callable[..., Table], str]] = {
    "thousands: 1,226.10": (cells("price", money), as_is, ","),
    "percent: 9.6%": (cells("share", lambda value: f"{100 * float(value):.2f}%"), as_is, ","),
    "currency: $1,226.10": (cells("price", lambda value: f"${money(value)}"), as_is, ","),
    "currency: 1226.10 EUR": (cells("price", lambda value: f"{value} EUR"), as_is, ","),
    "losses: (12)": (cells("change", lambda value: f"({value[1:]})" if value[0] == "-" else value), as_is, ","),
    "a minus of print: −12": (cells("change", lambda value: value.replace("-", "−")), as_is, ","),
    "decimal commas: 1226,10": (comma, as_is, ";"),
    "1.226,10": (
        lambda table, _: comma({**table}, _) | cells("price", lambda v: money(v, ".", ","))(table, _),
        as_is,
        ";",
    ),
    "1 226.10": (cells("price", lambda value: money(value, "\u00a0")), as_is, ","),
    "1'226.10": (cells("price", lambda value: money(value, "'")), as_is, ","),
    "money after half of the rows": (later, as_is, ","),
    "nothing as - and ?": (gaps, blank_gaps, ","),
    "labels with spaces": (cells(LABEL, lambda value: f" {value}"), as_is, ","),
    "an index without a name": (first("", lambda count: [str(i) for i in range(count)]), as_is, ","),
    "numbers of shuffled rows": (first("id", shuffled), as_is, ","),
    "a name for every row": (first("key", names), as_is, ","),
    "dates: 2026-11-18": (with_dates("%Y-%m-%d"), clean_dates(hours=False), ","),
    "dates: 18.11.2026 14:05": (with_dates("%d.%m.%Y %H:%M"), clean_dates(hours=True), ","),
    "dates: 11/18/2026 2:05 PM": (with_dates("%m/%d/%Y %I:%M %p"), clean_dates(hours=True), ","),
    "dates: 18 Nov 2026": (with_dates("%d %b %Y"), clean_dates(hours=False), ","),
}


def write(path: Path, table: Table, delimiter: str) -> None:
    """Write a table as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))


def accuracy(folder: Path, change: Callable[..., Table], delimiter: str, count: int) -> tuple[float, str]:
    """Return the accuracy on later rows of what was learnt from a changed table, and what was said of its columns."""
    for name, seed in (("learn", 1), ("score", 2)):
        table, moments = rows(count, seed)
        write(folder / f"{name}.csv", change(table, moments), delimiter)
    model = folder / "model.kampong"
    model.unlink(missing_ok=True)
    run = learn(Source(str(folder / "learn.csv"), Layout(label=LABEL)), FisherDiscriminant(), model_file=str(model))
    found = score(Source(str(folder / "score.csv"), Layout()), str(model))
    return float(found.measures()["accuracy"]), run.schema.summary()


def main(shrink: int = 1) -> None:
    """Print the accuracy of every file beside that of its clean form, and what the columns were taken for."""
    count = max(4_000 // shrink, 400)
    print(f"{'the file':<32} {'as typed':>9} {'by hand':>8}  its columns")
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for name, (mess, clean, delimiter) in MESSES.items():
            typed, said = accuracy(Path(folder), mess, delimiter, count)
            cleaned, _ = accuracy(Path(folder), clean, ",", count)
            worst = max(worst, cleaned - typed)
            print(f"{name:<32} {typed:>9.4f} {cleaned:>8.4f}  {said.removeprefix('columns: ').partition('; label')[0]}")
    print(f"behind the clean file by at most {100 * worst:.2f} points")


if __name__ == "__main__":
    main()
