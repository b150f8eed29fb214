"""CSV and TSV: pyarrow reads a block at a time; if it fails, records are read one by one to find the bad ones.

A line is a record, and so are several lines where a quoted field holds line breaks (`quotes`). Blank lines are skipped.
A record with an odd number of quotes, a NUL, a carriage return inside a line or bytes that are not UTF-8 is a dead
letter, so that a stray quote never joins two lines or shifts a column.
"""

from __future__ import annotations

import csv
import io
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong.streaming.arrow import pa
from kampong.streaming.columns.cells import MISSING, PLAIN, number
from kampong.streaming.columns.records import encode, joined
from kampong.streaming.columns.schema import infer
from kampong.streaming.errors import SourceError
from kampong.streaming.formats.format import FIRST, LineFormat
from kampong.streaming.sources.blocks import Block, Place
from kampong.streaming.sources.quoted_lines import joined_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong.streaming.columns.records import Batch
    from kampong.streaming.columns.schema import Schema
    from kampong.streaming.sources.source import Source

NULLS = sorted(MISSING)
LOOKED_AT = 20
UNREADABLE = dict.fromkeys((0, 13))

csv.field_size_limit(2**30)  # how long a record may be is said elsewhere


class Names(list[str]):
    """The names of the columns, each once, and what separates them.

    A column without a name is called by its place, as "column 3"; the second of a name has ".2" after it.
    """

    def __init__(self, names: Sequence[str], delimiter: str) -> None:
        super().__init__()
        self.delimiter, self.hints = delimiter, list[str]()
        taken, seen = {name.strip() for name in names}, Counter[str]()
        for place, name in enumerate(names, 1):
            plain = name.strip() or f"column {place}"
            seen[plain] += 1
            own = plain
            while seen[plain] > 1 and own in taken:  # the first of a name keeps it
                own = f"{plain}.{seen[plain]}"
                seen[plain] += own in taken
            taken.add(own)
            if own != plain:
                self.hints.append(f"{own}: this is column {place}, and an earlier one is named {plain!r} too.")
            elif not name.strip():
                self.hints.append(f"{own}: it has no name. Leave it out with --drop '{own}'.")
            self.append(own)


class Delimited(LineFormat):
    """Columns that a character separates, named by the first line.

    Parameters
    ----------
    name : str
        What `--format` calls it.
    endings : tuple of str
        How the names of such files end.
    delimiters : str
        What may separate the columns, unless the user says otherwise; the first where the first line does not tell.
    any_text : bool
        Whether a source of no other format is read as this one.
    """

    def __init__(self, name: str, endings: tuple[str, ...], delimiters: str, *, any_text: bool = False) -> None:
        self.name, self.endings, self.delimiters, self.any_text = name, endings, delimiters, any_text

    def recognises(self, first: bytes) -> bool:
        """Tell whether any text is read as this format; all other formats are tried before."""
        return self.any_text

    def header(self, source: Source, part: Block) -> tuple[list[str], Block]:
        """Return the names in the first line, or "1", "2", … for the columns of a first record."""
        if part.too_long:
            raise SourceError(f"{source.path}: the first line has {part.too_long:,} bytes. Is this CSV?")
        delimiter, has_header = source.layout.delimiter or _sniffed(part.data, self.delimiters), source.layout.header
        spans = joined_lines(part.data, delimiter.encode(), final=True).spans
        size = spans[0][1] if spans and spans[0][0] == 0 else part.data.find(b"\n") + 1 or len(part.data)
        line = part.data[:size]
        try:
            names: list[str] = next(_cut(line.decode("utf-8-sig").rstrip("\r\n"), delimiter), [])
        except (UnicodeDecodeError, csv.Error) as error:
            if line.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
                raise SourceError(
                    f"{source.path}: this is text in UTF-16, and UTF-8 is needed. Convert it, for instance with "
                    "iconv -f UTF-16 -t UTF-8."
                ) from None
            raise SourceError(f"{source.path}: the first line cannot be read: {error}. Is this CSV in UTF-8?") from None
        if not names or "\0" in line.decode("utf-8-sig"):
            raise SourceError(f"{source.path}: the first line holds no columns. Is this CSV in UTF-8?")
        if has_header:
            return Names(names, delimiter), part.without_start(size)
        return Names([str(i + 1) for i in range(len(names))], delimiter), part

    def describe(self, source: Source, columns: Sequence[str], part: Block, classes: Sequence[Any]) -> Schema:
        """Return the schema from the records of a first block."""
        delimiter = self._delimiter(columns)
        spans = joined_lines(part.data, delimiter.encode(), final=True).spans
        first = part.lines(spans)[:FIRST]
        lines = [line.decode("utf-8", "replace").rstrip("\r") for _, _, line in first]
        rows: list[list[str]] = [next(_cut(line.translate(UNREADABLE), delimiter), []) for line in lines]
        label = source.layout.label
        if label is not None and label not in columns:
            below = next((at for (at, _, _), row in zip(first, rows, strict=True) if label in row), 0)
            if below:
                raise SourceError(
                    f"{source.path}: --label: the first line names no column {label!r}, and line {below} does. Remove "
                    f"the lines above it, for instance with tail -n +{below}."
                )
        rows = [row for row in rows if len(row) == len(columns)]
        values = {name: [row[j] for row in rows] for j, name in enumerate(columns)}
        schema = infer(source.layout, self.name, columns, values, source.path, classes)
        named = columns.hints if isinstance(columns, Names) else ()
        used = [hint for hint in named if hint.partition(":")[0] in schema.used]
        return replace(schema, delimiter=delimiter, hints=(*used, *schema.hints))

    def fit(self, source: Source, schema: Schema, columns: Sequence[str]) -> Schema:
        """Return the schema of a model for a source; without a header the columns must be in the order of learning."""
        delimiter = self._delimiter(columns)
        if not source.layout.header:
            wanted = [one for one in schema.columns if one != schema.label]
            if len(columns) == len(schema.columns):
                wanted = list(schema.columns)
            if len(columns) != len(wanted):
                raise SourceError(
                    f"{source.path}: {len(columns)} columns, where the model was learnt from {len(wanted)}."
                )
            columns = wanted
        return replace(super().fit(source, schema, columns), delimiter=delimiter)

    def parse_lines(self, schema: Schema, block: Block) -> Batch:
        """Return the records of a block."""
        spans = joined_lines(block.data, schema.delimiter.encode(), final=True).spans
        if not block.data.strip(b"\r\n"):
            return _careful(schema, block, spans)
        last = block.lines(spans) if spans else [(0, 0, _last_line(block.data))]
        if _plain(block.data, spans) and not any(_unclosed(line, schema.delimiter) for _, _, line in last):
            try:
                block.data.decode()  # pyarrow would print a complaint for every ragged line that is not UTF-8
                table, ragged = _read(schema, block.data, as_text=False, joins=bool(spans))
            except (pa.ArrowInvalid, UnicodeDecodeError):
                return _careful(schema, block, spans)
            records = table.num_rows + len(ragged)
            # As many records as lines: none of them is blank or joined, and nothing has to be counted.
            if records == (block.count if not spans else -1) or records == _count(block.data, spans):
                kept = np.delete(np.arange(records), list(ragged)) if ragged else np.arange(records)
                columns = {name: table.column(name).combine_chunks() for name in table.column_names}
                encoded = encode(schema, columns, len(kept))
                return joined(schema, encoded, kept, ragged, records, lambda: block.lines(spans))
        return _careful(schema, block, spans)

    def quoted(self, source: Source) -> bytes:
        """Return what may separate the columns."""
        return (source.layout.delimiter or self.delimiters).encode()

    def _delimiter(self, columns: Sequence[str]) -> str:
        return columns.delimiter if isinstance(columns, Names) else self.delimiters[0]


CSV = Delimited("csv", (".csv",), ",;\t|", any_text=True)
TSV = Delimited("tsv", (".tsv", ".tab"), "\t")


def _sniffed(data: bytes, delimiters: str) -> str:
    """Return what cuts the first record into most columns, of all that cut at least half of the next ones equally."""
    best, most = delimiters[0], 1
    for delimiter in delimiters:
        spans = joined_lines(data, delimiter.encode(), final=True).spans
        lines = [line for _, _, line in Block(data, 0, 0, Place()).lines(spans)[:LOOKED_AT]]
        try:
            sizes = [len(next(_cut(line.decode("utf-8-sig", "replace"), delimiter), ())) for line in lines]
        except csv.Error:
            continue
        equal = sum(size == sizes[0] for size in sizes[1:])
        if sizes and sizes[0] > most and 2 * equal >= len(sizes) - 1:
            best, most = delimiter, sizes[0]
    return best


def _cut(record: str, delimiter: str) -> Any:
    """Return a reader of one record, which may hold line breaks."""
    return csv.reader(io.StringIO(record, newline=""), delimiter=delimiter)


def _count(data: bytes, spans: Sequence[tuple[int, int]]) -> int:
    """Return the number of records: lines that are not blank, and the spans of several lines."""
    if spans:
        return len(Block(data, 0, 0, Place()).lines(spans))
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    if data[:1] in (b"\n", b"\r") or b"\n\n" in data or b"\n\r" in data:
        lines -= sum(line in (b"", b"\r") for line in data.removesuffix(b"\n").split(b"\n"))
    return lines


def _plain(data: bytes, spans: Sequence[tuple[int, int]]) -> bool:
    """Tell whether every record is well formed and its quotes are closed, so that pyarrow sees the same records."""
    if b"\0" in data or (b"\r" in data and data.count(b"\r") != data.count(b"\r\n")):
        return False
    if b'"' not in data:
        return True
    characters = np.frombuffer(data, dtype=np.uint8)
    quotes = np.cumsum(characters == ord('"'), dtype=np.int32)
    ends = np.flatnonzero(characters == ord("\n"))
    for start, stop in spans:
        ends = ends[(ends < start) | (ends >= stop - 1)]
    return not ((quotes[ends] & 1).any() or quotes[-1] & 1)


def _last_line(data: bytes) -> bytes:
    data = data.rstrip(b"\r\n")
    return data[data.rfind(b"\n") + 1 :]


def _unclosed(line: bytes, delimiter: str) -> bool:
    """Tell whether a quoted field would run on into the next line."""
    if b'"' not in line:
        return False
    text = line.decode("utf-8", "replace").rstrip("\r")
    return len(list(_cut(text + "\n\n", delimiter))) != 2


def _read(schema: Schema, data: bytes, *, as_text: bool, joins: bool) -> tuple[Any, dict[int, str]]:
    """Return the columns in use, and the records that have too few or too many columns."""
    ragged: dict[int, str] = {}

    def note(row: Any) -> str:
        reason = f"{row.actual_columns} columns, where {row.expected_columns} are expected"
        ragged[row.number - 1] = reason
        return "skip"

    types = {name: pa.float64() if name in schema.numeric and not as_text else pa.string() for name in schema.used}
    table = pa.csv.read_csv(
        pa.BufferReader(data),
        read_options=pa.csv.ReadOptions(use_threads=False, column_names=list(schema.columns), block_size=len(data) + 1),
        parse_options=pa.csv.ParseOptions(
            delimiter=schema.delimiter, invalid_row_handler=note, newlines_in_values=joins
        ),
        convert_options=pa.csv.ConvertOptions(
            column_types=types, include_columns=list(types), null_values=NULLS, strings_can_be_null=False
        ),
    )
    return table, ragged


def _careful(schema: Schema, block: Block, spans: Sequence[tuple[int, int]]) -> Batch:
    """Return the records of a block in which something is wrong."""
    places = block.lines(spans)
    dead: dict[int, str] = {}
    for i, (_, _, line) in enumerate(places):
        if reason := _broken(line):
            dead[i] = reason
    kept = np.array([i for i in range(len(places)) if i not in dead], dtype=np.int64)
    columns, ragged = _columns(schema, [places[i][2] for i in kept.tolist()])
    dead |= {int(kept[i]): reason for i, reason in ragged.items()}
    kept = np.delete(kept, list(ragged))
    wrong: dict[int, str] = {}
    for name in schema.used:
        if name in schema.numeric:
            columns[name] = to_numbers(columns[name], name, wrong, schema.decimal)
    return joined(schema, encode(schema, columns, len(kept), wrong), kept, dead, len(places), lambda: places)


def _broken(line: bytes) -> str:
    if b"\0" in line:
        return "the line holds a NUL byte"
    if b"\r" in line.removesuffix(b"\r").replace(b"\r\n", b"\n"):
        return "the line holds a carriage return"
    if line.count(b'"') % 2:
        return "a quote is not closed in this line"
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"not UTF-8 at byte {error.start} of the line"
    return ""


def _columns(schema: Schema, lines: list[bytes]) -> tuple[dict[str, Any], dict[int, str]]:
    """Cut lines into columns of text; where pyarrow joins lines, one line at a time."""
    joins = any(b"\n" in line for line in lines)
    # Where pyarrow joins lines, each record must be closed by itself: else two mistakes may leave the number right.
    if lines and not any(_unclosed(line, schema.delimiter) for line in (lines if joins else lines[-1:])):
        table, ragged = _read(schema, b"\n".join(lines) + b"\n", as_text=True, joins=joins)
        if table.num_rows + len(ragged) == len(lines):
            return {name: table.column(name).combine_chunks() for name in table.column_names}, ragged
    ragged, rows = {}, []
    for i, line in enumerate(lines):
        cut = next(_cut(line.decode("utf-8").rstrip("\r"), schema.delimiter))
        if _unclosed(line, schema.delimiter):
            ragged[i] = "a quote is not closed in this line"
        elif len(cut) != len(schema.columns):
            ragged[i] = f"{len(cut)} columns, where {len(schema.columns)} are expected"
        else:
            rows.append(cut)
    columns = [[row[j] for row in rows] for j in range(len(schema.columns))]
    texts = zip(schema.columns, columns, strict=True)
    return {name: pa.array(column, pa.string()) for name, column in texts if name in schema.used}, ragged


def to_numbers(column: Any, name: str, wrong: dict[int, str], decimal: str = ".") -> Any:
    """Return a column of text as numbers; other values become null and are noted as wrong."""
    compute = pa.compute
    missing = compute.is_in(column, value_set=pa.array(NULLS))
    trimmed = compute.utf8_trim_whitespace(column)
    fits = compute.match_substring_regex(trimmed, f"^({PLAIN.pattern})$", ignore_case=True)
    good = compute.and_(fits, compute.invert(missing))
    values = compute.if_else(good, trimmed, None).cast(pa.float64()).to_numpy(zero_copy_only=False).copy()
    for i in np.flatnonzero(np.asarray(compute.invert(compute.or_(fits, missing)))).tolist():
        found = number(column[i].as_py(), decimal)
        if found is None:
            wrong.setdefault(i, f"column {name!r} holds {column[i].as_py()[:60]!r}, which is not a number")
        else:
            values[i] = found
    return pa.array(values, from_pandas=True)
