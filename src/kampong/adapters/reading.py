"""Files as parts of a source: which they are, that their columns agree, and the batches of one, for every engine."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kampong.streaming.errors import SourceError
from kampong.streaming.schema import Layout
from kampong.streaming.sources import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kampong.streaming.schema import Schema

NOTHING = "the source holds no record."


@dataclass
class Counts:
    """How many records were read, learnt as rows, and set aside as dead letters."""

    records: int = 0
    rows: int = 0
    dead: int = 0
    first_dead: str = ""

    def __add__(self, other: Counts) -> Counts:
        first = self.first_dead or other.first_dead
        return Counts(self.records + other.records, self.rows + other.rows, self.dead + other.dead, first)


def files_of(where: Any) -> list[str]:
    """Return the files that paths, folders and patterns stand for, sorted within each.

    Parameters
    ----------
    where : str, path or sequence of them
        Files, folders, or patterns with ``*``, ``?`` or ``[…]``.

    Returns
    -------
    list of str
        Each file once, in the order given.
    """
    found: dict[str, None] = {}
    for one in [where] if isinstance(where, str) or hasattr(where, "__fspath__") else where:
        path = Path(one)
        if path.is_dir():
            inside = sorted(
                str(file) for file in path.rglob("*") if file.is_file() and not file.name.startswith((".", "_"))
            )
        elif path.exists():
            inside = [str(path)]
        else:
            root = Path(path.anchor)
            inside = sorted(str(file) for file in root.glob(str(path.relative_to(root))) if file.is_file())
        if not inside:
            raise SourceError(f"{one}: there is no such file, or the folder or pattern holds none. Check the path.")
        found |= dict.fromkeys(inside)
    return list(found)


def schema_of(paths: Sequence[str], label: str | None, layout: Layout | None) -> tuple[Layout, Schema]:
    """Return what is known of the columns of files: from the first that has records.

    Parameters
    ----------
    paths : sequence of str
        The files.
    label : str or None
        The column of the class.
    layout : Layout or None
        What the user says of the files.

    Returns
    -------
    layout : Layout
        With the label.
    schema : Schema
        What every record must look like.
    """
    layout = layout or Layout()
    if layout.tfidf:
        raise SourceError(
            "tfidf weighs words by the records before them, and parts have no common order. Leave it out."
        )
    # a mean so far is not the same in all parts, so a record with a missing number is a dead letter
    layout = dataclasses.replace(layout, label=layout.label if label is None else label, missing="dead")
    for path in paths:
        opened = _opened(path, layout)
        if opened is not None:
            opened.close()
            if opened.schema.label is None:
                names = ", ".join(repr(name) for name in opened.schema.columns[:12])
                raise SourceError(f"{path}: which column is the class? Name it as y. There are {names}.")
            return layout, opened.schema
    raise SourceError(f"{paths[0]}: none of the {len(paths)} files holds a record.")


def batches_of(path: str, layout: Layout, schema: Schema, counts: Counts) -> Iterator[tuple[Any, Any]]:
    """Yield the batches of one file, and count its records; its columns must be those of the schema.

    Parameters
    ----------
    path : str
        The file.
    layout : Layout
        What is known of it.
    schema : Schema
        What its records must look like.
    counts : Counts
        Is added to.

    Yields
    ------
    X : array or sparse matrix
        Rows.
    y : array
        Their labels.
    """
    opened = _opened(path, layout)
    if opened is None:
        return
    try:
        differs = [
            f"{item.name} is {getattr(opened.schema, item.name)!r:.80}, not {getattr(schema, item.name)!r:.80}"
            for item in dataclasses.fields(schema)
            if item.name != "format" and getattr(opened.schema, item.name) != getattr(schema, item.name)
        ]
        if differs:
            raise SourceError(
                f"{path}: its columns are not those of the first file: {'; '.join(differs)}. Name columns that look "
                "different from file to file as category or text, or drop them."
            )
        for batch in opened:
            counts.records += batch.records
            counts.rows += batch.rows
            counts.dead += len(batch.dead)
            if batch.dead and not counts.first_dead:
                letter = batch.dead[0]
                counts.first_dead = f"{path}: line {letter.line:,}: {letter.reason}"
            if batch.rows:
                yield batch.X, batch.y
    finally:
        opened.close()


def _opened(path: str, layout: Layout) -> Any:
    """Open a file; None where it holds no record."""
    try:
        return Source(path, layout).open()
    except SourceError as error:
        if str(error).endswith(NOTHING):
            return None
        raise
