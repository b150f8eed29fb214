"""Rows of tables and queries in the order of their own columns, so that a run goes on after the last values read."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import time
import uuid
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from kampong._core.extras import extra
from kampong.streaming.arrow import pa
from kampong.streaming.errors import SourceError, UsageError, unknown_column
from kampong.streaming.formats.tables import MIXED, Slice
from kampong.streaming.options import names
from kampong.streaming.sources.address import Address
from kampong.streaming.sources.blocks import PAUSE
from kampong.streaming.sources.kind import Kind
from kampong.streaming.sources.learnt import digest
from kampong.streaming.sources.positions import Position

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping, Sequence

    from kampong.streaming.formats.format import AnyPlace, Format
    from kampong.streaming.sources.source import Source

ROWS = "kampong_rows"
MINE = ("table", "query", "order-by")
"""Options of an address that are ours and not the server's."""


class Connection(Protocol):
    """A connection to a base of tables, for reading only."""

    def batches(self, query: str) -> Iterator[Any]:
        """Yield the rows of a query as record batches, an empty one where there are none."""

    def close(self) -> None:
        """Close it."""


class TableKind(Kind):
    """Tables that a query language reads."""

    options: ClassVar[tuple[str, ...]] = ("query", "order_by")
    untrusted: ClassVar[bool] = False
    place = "the last values of --order-by"

    @abstractmethod
    def connect(self, address: Address) -> Connection:
        """Connect for reading."""

    @abstractmethod
    def failures(self) -> tuple[type[Exception], ...]:
        """Return the exceptions that say what is wrong with a connection or a query."""

    def place_type(self, chosen: Format) -> type[AnyPlace]:
        """Return the place that such sources share."""
        return Position

    def format(self, source: Source) -> str:
        """Return the name of typed columns."""
        return self.stated(source, "arrow", ("arrow",))

    def where(self, address: Address) -> str:
        """Return what tells the base of tables from others."""
        return address.without(*address.options)

    def open(
        self, source: Source, chosen: Format, place: Mapping[str, Any] | None, stop: threading.Event | None
    ) -> OrderedRows:
        """Open a table or a query at a place, or at its start."""
        with extra(self.extra, f"{self.name}://"):
            return OrderedRows(self, source, place, stop)


class FileOfTables(TableKind):
    """Tables in a file of this machine."""

    def file(self, address: Address) -> str:
        """Return the path of the file, which must be there: a client would make a new one."""
        if address.server or not address.path:
            raise UsageError(
                f"{self.name}://{address.server}/{address.path}: write {self.name}:///rows.db for a file of this "
                f"folder, or {self.name}:////folder/rows.db with its whole path."
            )
        if not Path(address.path).is_file():
            whole = Path(f"/{address.path}")
            step = f"Write {self.name}:///{whole} for a whole path" if whole.is_file() else "Give a file that is there"
            raise SourceError(f"{address.path}: there is no such file. {step}.")
        return address.path

    def where(self, address: Address) -> str:
        """Return the whole path of the file."""
        return str(Path(address.path).resolve())

    def inputs(self, source: Source) -> list[str]:
        """Return the file."""
        return [Address.of(source.path).path]


@dataclass(frozen=True)
class RowsOfTable(Slice):
    """Rows of a table; the first ones of a run show the columns."""

    first: bool = False

    @property
    def begins(self) -> bool:
        """Whether they are the first that were read."""
        return self.first


class OrderedRows:
    """The rows of a table or a query from a place on, cut at fixed row numbers."""

    def __init__(
        self, kind: TableKind, source: Source, place: Mapping[str, Any] | None, stop: threading.Event | None
    ) -> None:
        address = Address.of(source.path)
        self.name, self._follow, self._stop = source.path, source.follow, stop
        self._kind, self._failures = kind, kind.failures()
        self._rows = _query(source, address)
        self.order = names([source.order_by or address.options.get("order-by", "")])
        if not self.order:
            raise UsageError(
                f"{self.name}: give --order-by, or ?order-by=… in the address: the column or columns whose values no "
                "two rows share, such as an id. Rows are read in their order, and a resumed run goes on after the last."
            )
        identity = digest("\n".join((kind.name, kind.where(address), self._rows, *self.order)).encode())
        self.place = Position.entering(place, f"{kind.name} {identity}", self.name, again=source.known is None)
        self._last, self._known = self.place.values, self.place.at != "[]"
        self._found = False
        self._connection = self._try(lambda: kind.connect(address))
        try:
            self._check_order()
        except BaseException:
            self.close()
            raise

    @property
    def skipped(self) -> list[str]:
        """The source, if all its rows were read before."""
        return [self.name] if self._known and not self._found else []

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __iter__(self) -> Iterator[RowsOfTable]:
        while True:
            yield from self._until_end()
            if not self._follow or (self._stop is not None and self._stop.is_set()):
                return
            time.sleep(PAUSE)

    def _try(self, act: Any) -> Any:
        """Do something with the server, and say what it says if it cannot."""
        try:
            return act()
        except self._failures as error:
            reason = " ".join(str(error).split())[:300]
            raise SourceError(f"{self.name}: {reason}. Check the address and the query.") from None

    def _check_order(self) -> None:
        """Refuse columns that are not there, and rows without a value to be ordered by."""
        found = self._try(lambda: next(iter(self._connection.batches(f"{self._rows} LIMIT 0"))))
        columns = list(found.schema.names)
        for column in self.order:
            if column not in columns:
                raise unknown_column(column, columns, f"{self.name}, --order-by")
        empty = " OR ".join(f"{_quoted(column)} IS NULL" for column in self.order)
        nulls = self._try(lambda: list(self._connection.batches(f"{self._rows} WHERE {empty} LIMIT 1")))
        if sum(batch.num_rows for batch in nulls):
            raise SourceError(
                f"{self.name}: a row has no value in {', '.join(self.order)}, so it has no place in the order. Leave "
                "such rows out with --query, or give other columns with --order-by."
            )

    def _until_end(self) -> Iterator[RowsOfTable]:
        """Yield the rows after the last values, in parts whose size depends only on the rows before."""
        order = ", ".join(_quoted(column) for column in self.order)
        query = f"{self._rows}{self._after()} ORDER BY {order}"
        reading = iter(self._try(lambda: self._connection.batches(query)))
        waiting: Any = None
        while (batch := self._try(lambda: next(reading, None))) is not None:
            batch = _plain(batch, self.order)
            waiting = batch if waiting is None or not waiting.num_rows else _joined(waiting, batch)
            while waiting.num_rows >= self.place.size:
                size = self.place.size
                yield self._part(waiting.slice(0, size))
                waiting = waiting.slice(size)
        if waiting is not None and waiting.num_rows:
            yield self._part(waiting)

    def _after(self) -> str:
        """Return the condition of the rows after the last values, a > x or a = x and b > y; "" at the start."""
        last = [(_quoted(column), _literal(value)) for column, value in zip(self.order, self._last, strict=False)]
        choices = []
        for i, (column, value) in enumerate(last):
            equal = [f"{name} = {other} AND " for name, other in last[:i]]
            choices.append(f"({''.join(equal)}{column} > {value})")
        return f" WHERE {' OR '.join(choices)}" if choices else ""

    def _part(self, batch: Any) -> RowsOfTable:
        """Return rows with the place after them, less the columns that they are ordered by."""
        keys = [batch.column(column) for column in self.order]
        first, last = ([self._value(column[i].as_py()) for column in keys] for i in (0, batch.num_rows - 1))
        if first == self._last:
            self._refuse_tie(first)
        same = None
        for column in keys:
            equal = pa.compute.equal(column.slice(1), column.slice(0, batch.num_rows - 1))
            same = equal if same is None else pa.compute.and_(same, equal)
        at = pa.compute.index(same, True).as_py()
        if at >= 0:
            self._refuse_tie([self._value(column[at].as_py()) for column in keys])
        row, shows, self._last, self._found = self.place.in_source, not self._found, last, True
        self.place = self.place.after(batch.num_rows, last)
        return RowsOfTable(batch.drop_columns(list(self.order)), row, self.place, first=shows)

    def _refuse_tie(self, values: Sequence[Any]) -> None:
        shown = ", ".join(map(repr, values))
        raise SourceError(
            f"{self.name}: two rows have the same {', '.join(self.order)}: {shown}. A resumed run would lose one of "
            "them. Give more columns with --order-by, such as day,id."
        )

    def _value(self, value: Any) -> Any:
        """Return a value of the order as a place keeps it."""
        if isinstance(value, str) or type(value) is int or (type(value) is float and math.isfinite(value)):
            return value
        if isinstance(value, dt.date | dt.datetime):
            return value.isoformat()
        if isinstance(value, decimal.Decimal | uuid.UUID):
            return str(value)
        raise SourceError(
            f"{self.name}: rows cannot be ordered by {', '.join(self.order)}, which holds {value!r:.60}. Give columns "
            "of numbers, text, dates or times with --order-by."
        )


def _query(source: Source, address: Address) -> str:
    """Return the query for all rows, as a table that conditions can be added to."""
    query, table = source.query or address.options.get("query", ""), address.options.get("table", "")
    if bool(query) == bool(table):
        given = "both" if query else "neither"
        raise UsageError(f"{source.path}: give either ?table=NAME in the address or --query; there are {given}.")
    if table:
        return f"SELECT * FROM {'.'.join(map(_quoted, table.split('.')))}"
    return f"SELECT * FROM ({query.strip().rstrip(';')}) AS {ROWS}"


def _quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Any) -> str:
    """Return a value as SQL writes it; a text takes the type of the column that it is compared with."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def _plain(batch: Any, exact: Sequence[str]) -> Any:
    """Return a record batch in which values that Arrow has no type for are numbers if they can be, otherwise text.

    Columns that must stay exact are text.
    """
    if not any(isinstance(field.type, pa.BaseExtensionType) for field in batch.schema):
        return batch
    columns = {}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if isinstance(field.type, pa.BaseExtensionType):
            column = column.storage
            if getattr(field.type, "type_name", "") == "numeric" and field.name not in exact:
                column = column.cast(pa.float64())
        columns[field.name] = column
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _joined(first: Any, second: Any) -> Any:
    """Return two record batches as one; a column whose type changes is of numbers if both are, otherwise text."""
    fields = [_common(mine, theirs) for mine, theirs in zip(first.schema, second.schema, strict=True)]
    both = []
    for batch in (first, second):
        columns = [column.cast(field.type) for column, field in zip(batch.columns, fields, strict=True)]
        both.append(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)))
    (batch,) = pa.Table.from_batches(both).combine_chunks().to_batches()
    return batch


def _common(mine: Any, theirs: Any) -> Any:
    """Return a field that holds the values of two fields."""
    if mine.type == theirs.type:
        return mine if mine.metadata else theirs
    numbers = [pa.types.is_integer(one.type) or pa.types.is_floating(one.type) for one in (mine, theirs)]
    if all(numbers):
        return pa.field(mine.name, pa.float64())
    return pa.field(mine.name, pa.string(), metadata=MIXED if any(numbers) else None)


def empty(schema: Any) -> Any:
    """Return a record batch without rows."""
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], names=schema.names)
