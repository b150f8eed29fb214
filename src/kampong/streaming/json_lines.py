"""JSON lines: one flat object a line, decoded by msgspec into the columns of the schema."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from kampong.streaming.arrow import pa
from kampong.streaming.errors import SourceError
from kampong.streaming.records import Batch, Dead, encode, joined, shown
from kampong.streaming.schema import infer

if TYPE_CHECKING:
    from kampong.streaming.blocks import Block
    from kampong.streaming.schema import Layout, Schema

FIRST = 1000
BLANK = (b"", b"\r")


def describe(layout: Layout, block: Block, source: str, classes: Any) -> Schema:
    """Return the schema from the records of a first block."""
    values: dict[str, list[Any]] = {}
    found = 0
    for line in block.data.split(b"\n")[:FIRST]:
        try:
            record = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            continue
        if isinstance(record, dict):
            found += 1
            for name, value in record.items():
                values.setdefault(name, []).append(value if isinstance(value, (int, float, str)) else None)
    if not found:
        raise SourceError(f"{source}: the first lines hold no JSON object. Is this JSON lines, one object a line?")
    columns = [name for name, there in values.items() if 2 * len(there) >= found]
    return infer(layout, "jsonl", columns, values, source, classes, typed=True)


def parse(schema: Schema, block: Block) -> Batch:
    """Return the records of a block."""
    if block.too_long:
        reason = f"the line has {block.too_long:,} bytes, more than a record may have"
        dead = [Dead(0, block.line + 1, block.offset, reason, shown(block.data))]
        return Batch(None, None, np.empty(0, dtype=np.int64), dead, 1)
    decoder, names = _decoder(schema)
    lines = block.data.removesuffix(b"\n").split(b"\n")
    there = [i for i, line in enumerate(lines) if line not in BLANK]
    reasons: dict[int, str] = {}
    rows = []
    for index, i in enumerate(there):
        try:
            rows.append(msgspec.structs.astuple(decoder.decode(lines[i])))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            reasons[index] = _reason(error, names)
    kept = np.delete(np.arange(len(there)), list(reasons))
    table = dict(zip(schema.columns, zip(*rows, strict=True), strict=True)) if rows else {}
    columns = {}
    for name in _used(schema):
        values = table.get(name, ())
        is_text = name not in schema.numbers and not (name == schema.label and schema.label_kind == "integer")
        columns[name] = _texts(values) if is_text else pa.array(np.array(values, dtype=np.float64), from_pandas=True)

    def places() -> list[tuple[int, int, bytes]]:
        ends = np.cumsum([len(line) + 1 for line in lines])
        return [(block.line + i + 1, block.offset + int(ends[i]) - len(lines[i]) - 1, lines[i]) for i in there]

    return joined(schema, encode(schema, columns, len(rows)), kept, reasons, len(there), places)


def _used(schema: Schema) -> list[str]:
    label = [] if schema.label is None else [schema.label]
    return [*schema.numbers, *schema.categories, *schema.texts, *label]


@lru_cache(maxsize=16)
def _decoder(schema: Schema) -> tuple[Any, dict[str, str]]:
    """Return a decoder of these columns (while learning, of no others), and the columns by the names of its fields."""
    number, anything = float | bool | None, str | int | float | bool | None
    kinds = dict.fromkeys(schema.numbers, number) | dict.fromkeys(_used(schema)[len(schema.numbers) :], anything)
    if schema.label is not None and schema.label_kind == "integer":
        kinds[schema.label] = number
    names = {f"column_{i}": name for i, name in enumerate(schema.columns)}
    fields = [(field, kinds.get(name, msgspec.Raw)) for field, name in names.items()]
    record = msgspec.defstruct("Record", fields, rename=names, forbid_unknown_fields=schema.label is not None, gc=False)
    return msgspec.json.Decoder(record), names


def _reason(error: Exception, names: dict[str, str]) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return f"not a record of these columns: {error}"


def _texts(values: Any) -> Any:
    """Return values as a column of text; true and false as JSON writes them, null for what is missing."""
    return pa.array([_text(value) for value in values], pa.string())


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)
