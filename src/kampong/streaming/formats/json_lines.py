"""JSON lines: one flat object a line, decoded by msgspec into the columns of the schema."""

from __future__ import annotations

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
    from collections.abc import Sequence

    from kampong.streaming.columns.records import Batch
    from kampong.streaming.columns.schema import Schema
    from kampong.streaming.sources.blocks import Block
    from kampong.streaming.sources.source import Source


class JsonLines(LineFormat):
    """One flat object a line; its keys name the columns."""

    name, endings = "jsonl", (".jsonl", ".ndjson", ".json")

    def recognises(self, first: bytes) -> bool:
        """Tell whether the first line begins an object."""
        return first_line(first).startswith(b"{")

    def describe(self, source: Source, columns: Sequence[str], part: Block, classes: Sequence[Any]) -> Schema:
        """Return the schema from the records of a first block: the keys that at least half of them have."""
        values: dict[str, list[Any]] = {}
        found = 0
        for line in part.data.split(b"\n")[:FIRST]:
            try:
                record = msgspec.json.decode(line)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                continue
            if isinstance(record, dict):
                found += 1
                for name, value in record.items():
                    values.setdefault(name, []).append(value if isinstance(value, (int, float, str)) else None)
        if not found:
            raise SourceError(
                f"{source.path}: the first lines hold no JSON object. Is this JSON lines, one object a line?"
            )
        asked = source.layout.named
        columns = [name for name, there in values.items() if 2 * len(there) >= found or name in asked]
        for there in values.values():
            there += [None] * (found - len(there))  # an absent key is missing
        return infer(source.layout, self.name, columns, values, source.path, classes, typed=True)

    def parse_lines(self, schema: Schema, block: Block) -> Batch:
        """Return the records of a block."""
        strict, lenient, names = _decoders(schema)
        lines = [line for line in block.data.removesuffix(b"\n").split(b"\n") if line not in BLANK]
        reasons: dict[int, str] = {}
        rows = []
        unknown = 0
        for i, line in enumerate(lines):
            try:
                try:
                    record = strict.decode(line)
                except msgspec.ValidationError:
                    record = lenient.decode(line)
                    unknown += 1
                rows.append(msgspec.structs.astuple(record))
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
                reasons[i] = _reason(error, names)
        kept = np.delete(np.arange(len(lines)), list(reasons))
        table = dict(zip(schema.columns, zip(*rows, strict=True), strict=True)) if rows else {}
        columns = {}
        for name in schema.used:
            values = table.get(name, ())
            columns[name] = _numbers(values) if name in schema.numeric else _texts(values)
        batch = joined(schema, encode(schema, columns, len(rows)), kept, reasons, len(lines), block.lines)
        return replace(batch, unknown=unknown)


JSON_LINES = JsonLines()


@lru_cache(maxsize=16)
def _decoders(schema: Schema) -> tuple[Any, Any, dict[str, str]]:
    """Return a decoder of these columns and no others, one that ignores others, and the columns by its fields.

    A key that is absent is null; without a policy for what is missing, it must be there.
    """
    number, anything = float | bool | None, str | int | float | bool | None
    kinds = {name: number if name in schema.numeric else anything for name in schema.used}
    names = {f"column_{i}": name for i, name in enumerate(schema.columns)}
    fields: list[Any] = []
    for field, name in names.items():
        kind = kinds.get(name, msgspec.Raw)
        absent = [None] if name in kinds else [msgspec.Raw(b"null")]
        fields.append((field, kind, *absent) if schema.fills or name not in kinds else (field, kind))
    more: dict[str, Any] = {"rename": names, "gc": False, "kw_only": True}
    strict = msgspec.defstruct("Record", fields, forbid_unknown_fields=schema.label is not None, **more)
    lenient = msgspec.defstruct("Record", fields, forbid_unknown_fields=False, **more) if schema.fills else strict
    return msgspec.json.Decoder(strict), msgspec.json.Decoder(lenient), names


def _reason(error: Exception, names: dict[str, str]) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return f"not a record of these columns: {error}"


def _numbers(values: Any) -> Any:
    """Return values as a column of numbers, null for what is missing."""
    return pa.array(np.array(values, dtype=np.float64), from_pandas=True)


def _texts(values: Any) -> Any:
    """Return values as a column of text; true and false as JSON writes them, null for what is missing."""
    return pa.array([_text(value) for value in values], pa.string())


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)
