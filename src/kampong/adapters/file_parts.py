"""Files as parts of a source: which they are, that their columns agree, and the batches of one, for every engine."""

from __future__ import annotations

import dataclasses
import os
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kampong.streaming.columns.schema import Layout
from kampong.streaming.errors import ColumnError, EmptySourceError, SourceError
from kampong.streaming.sources.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kampong.streaming.columns.schema import Schema


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
    """
    found: dict[str, None] = {}
    for one in [where] if isinstance(where, str | os.PathLike) else where:
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


def packed(paths: Sequence[str]) -> bytes:
    """Return names as few bytes: those of ten thousand files differ little."""
    return zlib.compress("\0".join(paths).encode("utf-8", "surrogateescape"))


@lru_cache(maxsize=4)
def unpacked(names: bytes) -> list[str]:
    """Return what `packed` was given."""
    return zlib.decompress(names).decode("utf-8", "surrogateescape").split("\0")


def schema_of(
    paths: Sequence[str],
    label: str | None,
    layout: Layout | None,
    classes: Sequence[Any] = (),
    *,
    untrusted: bool = False,
) -> tuple[Layout, Schema]:
    """Return what is known of the columns of files: from the first that has records."""
    layout = layout or Layout()
    if layout.tfidf:
        raise SourceError(
            "tfidf weighs words by the records before them, and parts have no common order. Leave it out."
        )
    # a mean so far is not the same in all parts, so a record with a missing number is a dead letter
    layout = dataclasses.replace(layout, label=layout.label if label is None else label, missing="dead")
    for path in paths:
        opened = _opened(path, layout, classes, untrusted=untrusted)
        if opened is not None:
            opened.close()
            if opened.schema.label is None:
                names = ", ".join(repr(name) for name in opened.schema.columns[:12])
                raise SourceError(f"{path}: which column is the class? Name it as y. There are {names}.")
            return layout, opened.schema
    raise SourceError(f"{paths[0]}: none of the {len(paths)} files holds a record.")


def batches_of(path: str, layout: Layout, schema: Schema, counts: Counts) -> Iterator[tuple[Any, Any]]:
    """Yield the rows and labels of one file, and count its records; its columns are found by the names of the schema.

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
    for batch in records_of(path, layout, schema):
        counts.records += batch.records
        counts.rows += batch.rows
        counts.dead += len(batch.dead)
        if batch.dead and not counts.first_dead:
            letter = batch.dead[0]
            counts.first_dead = f"{path}: line {letter.line:,}: {letter.reason}"
        if batch.rows:
            yield batch.X, batch.y


def records_of(path: str, layout: Layout, schema: Schema, *, untrusted: bool = False) -> Iterator[Any]:
    """Yield the batches of one file, with their dead letters; its columns are found by the names of the schema."""
    try:
        opened = _opened(path, layout, schema.classes, schema, untrusted=untrusted)
    except ColumnError as error:
        raise SourceError(f"{error} The columns are those of the first file that has records.") from None
    if opened is None:
        return
    try:
        if schema.columns and schema.label not in opened.schema.columns:
            raise SourceError(
                f"{path}: the column of the class, {schema.label!r}, is not there, as it is in the first file."
            )
        opened.schema = dataclasses.replace(opened.schema, label=schema.label)
        yield from opened
    finally:
        opened.close()


def _opened(
    path: str, layout: Layout, classes: Sequence[Any] = (), schema: Schema | None = None, *, untrusted: bool = False
) -> Any:
    """Open a file, with the columns of a schema where one is given; None where it holds no record."""
    try:
        return Source(path, layout, untrusted=untrusted).open(classes=classes, schema=schema, apply=schema is not None)
    except EmptySourceError:
        return None
