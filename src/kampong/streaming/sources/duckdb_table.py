"""Tables of DuckDB, which gives record batches of Arrow."""

from __future__ import annotations

import atexit
import gc
import importlib
from typing import TYPE_CHECKING, Any

from kampong.streaming.sources.ordered_rows import FileOfTables, empty
from kampong.streaming.sources.positions import LARGEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kampong.streaming.sources.address import Address


class DuckDBConnection:
    """A connection to a file of DuckDB."""

    def __init__(self, path: str) -> None:
        self._client: Any = _duckdb().connect(path, read_only=True)
        self._client.execute("SET enable_progress_bar = false")  # it would be drawn on stdout, among our rows

    def batches(self, query: str) -> Iterator[Any]:
        """Yield the rows of a query; an empty batch shows the columns if there are none."""
        reader, found = self._client.sql(query).to_arrow_reader(LARGEST), False
        for batch in reader:
            found = True
            yield batch
        if not found:
            yield empty(reader.schema)

    def close(self) -> None:
        """Close it."""
        self._client.close()


class DuckDB(FileOfTables):
    """Tables in a file of DuckDB."""

    name, example = "duckdb", "'duckdb:///rows.duckdb?table=rows' --order-by id"
    extra, packages = "sql", ("duckdb",)

    def connect(self, address: Address) -> DuckDBConnection:
        """Connect for reading."""
        return DuckDBConnection(self.file(address))

    def failures(self) -> tuple[type[Exception], ...]:
        """Return the errors of DuckDB."""
        return (_duckdb().Error,)


def _duckdb() -> Any:
    """Import DuckDB, whose binding complains of objects that are not collected at the end."""
    atexit.unregister(gc.freeze)
    return importlib.import_module("duckdb")


DUCKDB = DuckDB()
