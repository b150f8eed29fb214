"""Tables of PostgreSQL, read by ADBC as record batches of Arrow."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kampong.streaming.sources.ordered_rows import MINE, TableKind, empty

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kampong.streaming.sources.address import Address


class PostgreSQLConnection:
    """A connection to a server of PostgreSQL. The password comes from PGPASSWORD, PGPASSFILE or ~/.pgpass."""

    def __init__(self, address: str) -> None:
        self._client: Any = importlib.import_module("adbc_driver_postgresql.dbapi").connect(address, autocommit=True)
        with self._client.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = on")

    def batches(self, query: str) -> Iterator[Any]:
        """Yield the rows of a query; an empty batch shows the columns if there are none."""
        with self._client.cursor() as cursor:
            cursor.execute(query)
            reader, found = cursor.fetch_record_batch(), False
            for batch in reader:
                found = True
                yield batch
            if not found:
                yield empty(reader.schema)

    def close(self) -> None:
        """Close it."""
        self._client.close()


class PostgreSQL(TableKind):
    """Tables of a server of PostgreSQL."""

    name, example = "postgresql", "'postgresql://user@host/base?table=rows' --order-by id"
    extra, packages = "sql", ("adbc_driver_postgresql",)

    def connect(self, address: Address) -> PostgreSQLConnection:
        """Connect for reading."""
        return PostgreSQLConnection(address.without(*MINE))

    def failures(self) -> tuple[type[Exception], ...]:
        """Return the errors of ADBC."""
        return (importlib.import_module("adbc_driver_postgresql.dbapi").Error, OSError)


POSTGRESQL = PostgreSQL()
