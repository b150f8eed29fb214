"""JSON lines: one object a line, decoded by msgspec into the columns of the schema; objects inside are flattened."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from kampong.streaming.arrow import pa
from kampong.streaming.columns.records import encode, joined
from kampong.streaming.columns.schema import infer
from kampong.streaming.errors import SourceError
from kampong.streaming.formats.format import FIRST, LineFormat, first_line
from kampong.streaming.sources.blocks import BLANK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kampong._core.compute import Float
    from kampong.streaming.columns.records import Batch
    from kampong.streaming.columns.schema import Schema
    from kampong.streaming.sources.blocks import Block
    from kampong.streaming.sources.source import Source


class JsonLines(LineFormat):
    """One object a line; its keys name the columns, those of an object inside with a dot: place.city."""

    name, endings = "jsonl", (".jsonl", ".ndjson", ".json")

    def recognises(self, first: bytes) -> bool:
        """Tell whether the first line begins an object."""
        return first_line(first).startswith(b"{")

    def describe(self, source: Source, columns: Sequence[str], part: Block, classes: Sequence[Any]) -> Schema:
        """Return the schema from the records of a first block: the keys that at least half of them have."""
        values: dict[str, list[Any]] = {}
        found, nested, lists, counts = 0, False, Counter[str](), Counter[str]()
        for line in part.data.split(b"\n")[:FIRST]:
            try:
                record = msgspec.json.decode(line)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                continue
            if isinstance(record, dict):
                found += 1
                nested = nested or any(isinstance(value, dict) for value in record.values())
                for name, value in flattened(record, source.layout.flatten).items():
                    counts[name] += 1
                    there = values.setdefault(name, [])
                    there += [None] * (found - 1 - len(there))
                    there.append(value if isinstance(value, (int, float, str)) else None)
                    lists[name] += isinstance(value, (list, dict))
        if not found:
            raise SourceError(
                f"{source.path}: the first lines hold no JSON object. Is this JSON lines, one object a line?"
            )
        asked = source.layout.named
        for there in values.values():
            there += [None] * (found - len(there))  # an absent key is missing
        unread = sorted(name for name in values if 2 * lists[name] > counts[name])
        columns = [name for name in values if (2 * counts[name] >= found and name not in unread) or name in asked]
        schema = infer(source.layout, self.name, columns, values, source.path, classes, typed=True)
        said = tuple(f"{name}: it holds lists or objects, which are not learnt." for name in unread)
        return replace(schema, flatten=source.layout.flatten if nested else 0, hints=(*schema.hints, *said))

    def parse_lines(self, schema: Schema, block: Block) -> Batch:
        """Return the records of a block."""
        flat = _flat_objects(schema, block.data)
        if flat is not None:
            count = block.data.count(b"{")
            return joined(schema, encode(schema, flat, count), np.arange(count), {}, count, block.lines)
        lines = [line for line in block.data.removesuffix(b"\n").split(b"\n") if line not in BLANK]
        return _parsed(schema, lines, block.lines, objects=schema.flatten > 0)

    def parse_objects(self, schema: Schema, objects: Sequence[dict[str, Any]]) -> Batch:
        """Return objects as rows, as their lines would be: decoded, and flattened as deep as the schema says."""
        places = [(i, 0, b"") for i in range(1, len(objects) + 1)]
        return _parsed(schema, objects, lambda: places, objects=True)


def _parsed(
    schema: Schema, records: Sequence[bytes | dict[str, Any]], where: Callable[[], Any], *, objects: bool
) -> Batch:
    """Return lines, or objects that are decoded and flattened, as rows; lines are read by way of objects if asked."""
    strict, lenient, names = _decoders(schema, objects)
    unknown = 0
    reasons: dict[int, str] = {}
    rows = []
    for i, one in enumerate(records):
        try:
            if objects and isinstance(one, bytes):
                one = flattened(_object(one), schema.flatten)
            try:
                record = _record(strict, one)
            except msgspec.ValidationError:
                record = _record(lenient, one)
                unknown += 1
            rows.append(msgspec.structs.astuple(record))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            reasons[i] = _reason(error, names)
    kept = np.delete(np.arange(len(records)), list(reasons))
    table = dict(zip(schema.columns, zip(*rows, strict=True), strict=True)) if rows else {}
    columns = {}
    for name in schema.used:
        values = table.get(name, ())
        columns[name] = _numbers(values) if name in schema.numeric else _texts(values)
    batch = joined(schema, encode(schema, columns, len(rows)), kept, reasons, len(records), where)
    return replace(batch, unknown=unknown)


JSON_LINES = JsonLines()

NO_MARKS = bytes.maketrans(b"", b"").translate(None, b"{}\n[\0NI")
"""The bytes that do not show whether lines are flat objects."""


def _flat_objects(schema: Schema, data: bytes) -> dict[str, Any] | None:
    """Return the columns of lines that are one flat object each, read at once; None if others may be among them.

    Lines with a list, or with anything that pyarrow reads in another way than msgspec, are others.
    """
    if not schema.fills or schema.flatten:
        return None
    data = data if data.endswith(b"\n") else data + b"\n"
    marks = data.translate(None, NO_MARKS)
    if (b"N" in marks and b"NaN" in data) or (b"I" in marks and b"Inf" in data):
        return None
    marks = marks.translate(None, b"NI")
    lines = len(marks) // 3
    if marks != b"{}\n" * lines:
        return None
    kinds = pa.schema([(name, pa.float64() if name in schema.numeric else pa.string()) for name in schema.used])
    try:
        data.decode()
        table = pa.json.read_json(
            pa.BufferReader(data),
            read_options=pa.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pa.json.ParseOptions(explicit_schema=kinds, unexpected_field_behavior="infer"),
        )
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    if len(table) != lines:
        return None
    if schema.label is not None and not set(table.column_names) <= set(schema.columns):
        return None
    columns = {name: table.column(name).combine_chunks() for name in schema.used}
    return {name: pa.compute.add(one, 0.0) if name in schema.numeric else one for name, one in columns.items()}


@lru_cache(maxsize=16)
def _decoders(schema: Schema, objects: bool) -> tuple[Any, Any, dict[str, str]]:
    """Return a decoder of these columns and no others, one that ignores others, and the columns by its fields.

    Columns that are not used stay as they are: raw in lines, anything in objects. A key that is absent is null; without
    a policy for what is missing, it must be there.
    """
    number, anything = float | bool | None, str | int | float | bool | None
    kinds = {name: number if name in schema.numeric else anything for name in schema.used}
    names = {f"column_{i}": name for i, name in enumerate(schema.columns)}
    unread, nothing = (Any, None) if objects else (msgspec.Raw, msgspec.Raw(b"null"))
    fields: list[Any] = []
    for field, name in names.items():
        kind = kinds.get(name, unread)
        absent = [None] if name in kinds else [nothing]
        fields.append((field, kind, *absent) if schema.fills or name not in kinds else (field, kind))
    more: dict[str, Any] = {"rename": names, "gc": False, "kw_only": True}
    strict = msgspec.defstruct("Record", fields, forbid_unknown_fields=schema.label is not None, **more)
    lenient = msgspec.defstruct("Record", fields, forbid_unknown_fields=False, **more) if schema.fills else strict
    return msgspec.json.Decoder(strict), msgspec.json.Decoder(lenient), names


def _record(decoder: Any, one: bytes | dict[str, Any]) -> Any:
    """Return the record of a line, or of an object."""
    if isinstance(one, bytes):
        return decoder.decode(one)
    try:
        return msgspec.convert(one, decoder.type)
    except SystemError as error:  # earlier versions of msgspec, for a whole number that no float can hold
        raise msgspec.ValidationError("Number out of range") from error


def _object(line: bytes) -> dict[str, Any]:
    """Return the object of a line."""
    record = msgspec.json.decode(line)
    if not isinstance(record, dict):
        raise msgspec.ValidationError(f"Expected `object`, got `{type(record).__name__}`")
    return record


def flattened(record: dict[str, Any], depth: int) -> dict[str, Any]:
    """Return an object without the objects inside it, down to this many: their values have names such as place.city."""
    found: dict[str, Any] = {}
    for name, value in record.items():
        if depth and isinstance(value, dict):
            found |= {f"{name}.{inner}": one for inner, one in flattened(value, depth - 1).items()}
        else:
            found[name] = value
    return found


def _reason(error: Exception, names: dict[str, str]) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return f"not a record of these columns: {error}"


def _numbers(values: Any) -> Float:
    """Return values as a column of numbers, NaN for what is missing; -0 is a whole number to msgspec, so it is 0."""
    return np.array(values, dtype=np.float64) + 0.0


def _texts(values: Any) -> Any:
    """Return values as a column of text; true and false as JSON writes them, null for what is missing."""
    return pa.array([_text(value) for value in values], pa.string())


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)
