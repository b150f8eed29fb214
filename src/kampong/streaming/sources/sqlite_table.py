"""Tables of SQLite, read with Python's own client; a column takes the type of the values that it holds."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kampong.streaming.arrow import pa
from kampong.streaming.formats.tables import MIXED
from kampong.streaming.sources.ordered_rows import FileOfTables
from kampong.streaming.sources.positions import LARGEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kampong.streaming.sources.address import Address


class SQLiteConnection:
    """A connection to a file of SQLite."""

    def __init__(self, path: str) -> None:
        self._client = sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)

    def batches(self, query: str) -> Iterator[Any]:
        """Yield the rows of a query; an empty batch shows the columns if there are none."""
        cursor = self._client.execute(query)
        names = [column[0] for column in cursor.description]
        rows = cursor.fetchmany(LARGEST)
        while True:
            columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
            fields, arrays = zip(*map(_column, names, columns), strict=True)
            yield pa.RecordBatch.from_arrays(list(arrays), schema=pa.schema(fields))
            if not (rows := cursor.fetchmany(LARGEST)):
                return

    def close(self) -> None:
        """Close it."""
        self._client.close()


class SQLite(FileOfTables):
    """Tables in a file of SQLite."""

    name, example = "sqlite", "'sqlite:///rows.db?table=rows' --order-by id"

    def connect(self, address: Address) -> SQLiteConnection:
        """Connect for reading."""
        return SQLiteConnection(self.file(address))

    def failures(self) -> tuple[type[Exception], ...]:
        """Return the errors of SQLite."""
        return (sqlite3.Error,)


SQLITE = SQLite()


def _column(name: str, values: Sequence[Any]) -> tuple[Any, Any]:
    """Return values as numbers if they all are, and as text otherwise; and what the column is."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {int}:
        return pa.field(name, pa.int64()), pa.array(values, pa.int64())
    if kinds <= {int, float}:
        numbers = [None if value is None else float(value) for value in values]
        return pa.field(name, pa.float64()), pa.array(numbers, pa.float64())
    texts = [value if value is None or type(value) is str else _text(value) for value in values]
    field = pa.field(name, pa.string(), metadata=MIXED if kinds & {int, float} else None)
    return field, pa.array(texts, pa.string())


def _text(value: Any) -> str:
    """Return a number or bytes as text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else repr(value)
