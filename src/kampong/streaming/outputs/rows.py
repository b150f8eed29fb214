"""What a stream gives out, row by row: CSV, JSON lines where the name of the file says so, or messages of a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kampong.streaming.arrow import pa
from kampong.streaming.outputs.appended import Journal, Written
from kampong.streaming.outputs.keyed import Messages
from kampong.streaming.sources import scheme_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kampong._core.compute import Float, Integer

JSON_ENDINGS = (".jsonl", ".ndjson", ".json")


def format_of(path: str) -> str:
    """Return "jsonl" or "csv" from the name of an output."""
    return "jsonl" if path.lower().endswith(JSON_ENDINGS) or scheme_of(path) else "csv"


def output(
    path: str, columns: tuple[str, ...], committed: Written | None = None, *, goes_on: bool = False
) -> Output | RowMessages:
    """Return what takes rows: a file, stdout, or a stream of a broker.

    Parameters
    ----------
    path : str
        A path, "-", an address, or "" for nothing.
    columns : tuple of str
        The columns, `row` first; coordinates are named z1, z2 and so on.
    committed : Written or None
        What it held at the last checkpoint; None for a new one.
    goes_on : bool
        Whether to write after rows that are there.

    Returns
    -------
    Output or RowMessages
        It is open.
    """
    if scheme_of(path):
        return RowMessages(path, None if goes_on else committed)
    return Output(path, columns, committed, goes_on=goes_on)


class Output(Journal):
    """Rows of labels, predictions and coordinates.

    Parameters
    ----------
    path : str
        The file; "-" is stdout, "" writes nothing.
    columns : sequence of str
        The columns, `row` first; coordinates are named z1, z2 and so on.
    committed : Written or None
        What it held at the last checkpoint; None for a new file.
    goes_on : bool
        Whether to write after rows that are there.
    """

    def __init__(
        self, path: str, columns: tuple[str, ...], committed: Written | None = None, *, goes_on: bool = False
    ) -> None:
        self.columns, self.format = columns, format_of(path)
        header = (",".join(columns) + "\n").encode()
        self.begins = header if self.format == "csv" else b'{"row":'
        super().__init__(path, committed, goes_on=goes_on)

    def write(self, data: bytes) -> None:
        """Append bytes, after the header where there is none yet."""
        super().write(self.begins + data if self.length == 0 and self.format == "csv" else data)

    def commit(self) -> Written:
        """Write everything to the disk, at least the header; return what the file holds."""
        if self.length == 0 and self.format == "csv":
            super().write(self.begins)
        return super().commit()

    def add(
        self,
        rows: Integer,
        values: Mapping[str, np.ndarray | None],
        points: Float | None = None,
        keys: Sequence[str] = (),
    ) -> None:
        """Append rows.

        Parameters
        ----------
        rows : array of int
            The numbers of the records, counted from 1.
        values : mapping of str to array or None
            Labels, predictions, probabilities; None where there are none yet.
        points : array of shape (n, p), optional
            Coordinates.
        keys : sequence of str
            What tells the records from all others; a file needs none.
        """
        if not self.path or not len(rows):
            return
        if self.format == "jsonl":
            self.write(b"\n".join(_json(rows, values, points)) + b"\n")
            return
        columns = [pa.array(rows)]
        for name in self.columns[1:]:
            if name in values:
                columns.append(_column(values[name], len(rows)))
            else:
                place = int(name[1:]) - 1
                there = points is not None and place < points.shape[1]
                columns.append(_column(points[:, place] if points is not None and there else None, len(rows)))
        table = pa.Table.from_arrays(columns, names=list(self.columns))
        sink = pa.BufferOutputStream()
        pa.csv.write_csv(table, sink, pa.csv.WriteOptions(include_header=False, batch_size=8192))
        self.write(sink.getvalue().to_pybytes())


class RowMessages(Messages):
    """Rows of labels, predictions and coordinates as messages of a broker: a JSON object each."""

    def add(
        self,
        rows: Integer,
        values: Mapping[str, np.ndarray | None],
        points: Float | None = None,
        keys: Sequence[str] = (),
    ) -> None:
        """Send rows; a row without a key has its number."""
        self.send(keys or [str(row) for row in rows.tolist()], _json(rows, values, points))


def _column(values: np.ndarray | None, rows: int) -> Any:
    if values is None:
        return pa.nulls(rows, pa.string())
    return pa.array(np.ascontiguousarray(values))


def _json(rows: Integer, values: Mapping[str, np.ndarray | None], points: Float | None) -> list[bytes]:
    import msgspec

    columns = {name: [None] * len(rows) if value is None else value.tolist() for name, value in values.items()}
    places: list[Any] = [None] * len(rows) if points is None else points.tolist()
    encode = msgspec.json.encode
    lines = []
    for i, row in enumerate(rows.tolist()):
        record = {"row": row, **{name: column[i] for name, column in columns.items()}, "z": places[i]}
        lines.append(encode(record))
    return lines
