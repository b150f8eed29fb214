"""What a stream gives out: rows and dead letters, as CSV or JSON lines in a file, or as messages of a broker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong.streaming import sources
from kampong.streaming.arrow import pa
from kampong.streaming.errors import ResumeError
from kampong.streaming.outputs.appended import Journal, Written
from kampong.streaming.sources import scheme_of
from kampong.streaming.sources.learnt import digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kampong._core.compute import Float, Integer
    from kampong.streaming.columns.records import Dead


class Messages:
    """A stream of a broker that a run writes to.

    Parameters
    ----------
    path : str
        Its address.
    committed : Written or None
        How far it had come at the last checkpoint, and a digest of its address; None to write after what is there.
    """

    def __init__(self, path: str, committed: Written | None = None) -> None:
        self._witness = digest(path.encode())
        committed = None if committed == Written() else committed
        if committed is not None and committed.digest != self._witness:
            raise ResumeError(
                f"{path}: the run saved in the model file writes elsewhere. Give the address that it began with, or "
                "start a new model with another --model."
            )
        self._sink = sources.kind_of(path).sink(path)
        try:
            self._sink.begin(None if committed is None else committed.length)
        except BaseException:
            self.close()
            raise

    def send(self, keys: Sequence[str], lines: Sequence[bytes]) -> None:
        """Send messages."""
        self._sink.send(list(zip(keys, lines, strict=True)))

    def commit(self) -> Written:
        """Wait until the server has everything; return how far the stream has come."""
        return Written(self._sink.flush(), self._witness)

    def close(self) -> None:
        """Close the connection."""
        self._sink.close()


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


class DeadLetters(Journal):
    """The records that could not be used: one JSON object a line, with line, offset, reason and its beginning."""

    begins = b"{"

    def add(self, letters: Sequence[Dead], source: str = "", keys: Sequence[str] = ()) -> None:
        """Append letters; `source` names the file that they come from, where there may be several."""
        self.write(b"".join(_line(letter, source) + b"\n" for letter in letters))


class LetterMessages(Messages):
    """Dead letters as messages of a broker."""

    def add(self, letters: Sequence[Dead], source: str = "", keys: Sequence[str] = ()) -> None:
        """Send letters, each with the key of its record."""
        self.send(keys, [_line(letter, source) for letter in letters])


def dead_letters(
    path: str, committed: Written | None = None, *, goes_on: bool = False, follow: bool = True
) -> DeadLetters | LetterMessages:
    """Return what takes dead letters: a file, or a stream of a broker.

    Parameters
    ----------
    path : str
        A path, an address, or "" for nothing.
    committed : Written or None
        What it held at the last checkpoint; None for a new one.
    goes_on : bool
        Whether to write after what is there.
    follow : bool
        Whether a symbolic link is followed.

    Returns
    -------
    DeadLetters or LetterMessages
        It is open.
    """
    if scheme_of(path):
        return LetterMessages(path, None if goes_on else committed)
    return DeadLetters(path, committed, goes_on=goes_on, follow=follow)


def _line(letter: Dead, source: str) -> bytes:
    facts: dict[str, Any] = {
        **({"source": source} if source else {}),
        "line": letter.line,
        "offset": letter.offset,
        "reason": letter.reason,
        "record": letter.text,
    }
    return json.dumps(facts, ensure_ascii=False).encode("utf-8", "replace")
