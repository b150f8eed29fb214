"""The rows of a request: JSON objects or lists, JSON lines, or CSV, read by the formats that streams are read by.

Columns are matched by name, cells are read as `kampong predict` reads them, and every row must be good: a request is
taken as a whole or refused as a whole.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from kampong.serving.errors_of_requests import RefusedError
from kampong.streaming.arrow import pa
from kampong.streaming.columns.records import Batch, encode
from kampong.streaming.columns.schema import WIDEST_TABLE, Schema
from kampong.streaming.errors import StreamError, UsageError, unknown_column
from kampong.streaming.formats.delimited import CSV
from kampong.streaming.formats.json_lines import JSON_LINES, flattened
from kampong.streaming.sources.blocks import Block, Place
from kampong.streaming.sources.source import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong.contract import StreamModel
    from kampong.streaming.model_file import StreamState

REQUEST = "the request"
SHOWN = 20
"""Bad rows that an answer lists."""

KINDS = {
    "application/json": "json",
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "application/jsonlines": "jsonl",
    "text/csv": "csv",
    # What curl says of --data, whatever it holds.
    "application/x-www-form-urlencoded": "",
    "": "",
}
"""How a body is read, by its content type; "" looks at its first bytes."""


def kind_of(content_type: str, body: bytes) -> str:
    """Return how a body is read: "json", "jsonl" or "csv"."""
    name = content_type.partition(";")[0].strip().lower()
    if name not in KINDS:
        raise RefusedError(
            415, f"Content-Type is {name!r:.100}; send application/json, application/x-ndjson or text/csv."
        )
    return KINDS[name] or ("json" if body.lstrip()[:1] in (b"{", b"[") else "csv")


def schema_of(name: str, model: StreamModel, state: StreamState | None) -> Schema:
    """Return what the rows of requests must look like: the columns of the stream, or those of the model.

    Parameters
    ----------
    name : str
        What messages call the model.
    model : StreamModel
        The model.
    state : StreamState or None
        What is known of its stream. Without it, or where its columns have only numbers, columns are numbers; they have
        the names that the model was fitted with, or x0, x1 and so on, or "1", "2" and so on for libsvm.
    """
    if state is not None and state.schema.columns:
        return state.schema
    width = int(model.read("n_features_in_") or 0)
    if width > WIDEST_TABLE:
        raise UsageError(
            f"{name}: the model has {width:,} columns without names, and a request may have {WIDEST_TABLE:,}. Learn "
            "from CSV or JSON lines with --text to serve a model of wide rows."
        )
    kinds = {type(label) for label in model.classes or ()}
    if state is not None:
        columns, label_kind = tuple(str(i + 1) for i in range(width)), state.schema.label_kind
    else:
        given = model.read("feature_names_in_")
        columns = tuple(f"x{i}" for i in range(width)) if given is None else tuple(map(str, given))
        label_kind = "integer" if kinds == {int} else "string"
    label = "label" if "label" not in columns else "the label"
    sparse = bool(state is not None and state.schema.sparse)
    return Schema(
        format="jsonl",
        columns=(*columns, label),
        numbers=columns,
        label=label,
        label_kind=label_kind,
        width=width,
        sparse=sparse,
    )


class RowReader:
    """Reads the rows of requests for one model.

    Parameters
    ----------
    schema : Schema
        What `schema_of` has returned.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        wanted = set(schema.features)
        self.columns = tuple(name for name in schema.columns if name in wanted)

    def read(self, kind: str, body: bytes, *, labels: bool) -> Batch:
        """Return the rows of a body, all of which are good."""
        if not body.strip():
            raise RefusedError(400, "The request has no body. Send rows as JSON or as CSV.")
        try:
            batch = self._csv(body, labels) if kind == "csv" else self._records(_decoded(kind, body), labels)
        except StreamError as error:
            raise RefusedError(400, str(error)) from None
        if batch.dead:
            rows = [{"row": one.record + 1, "reason": one.reason} for one in batch.dead]
            raise RefusedError(
                400,
                f"row {rows[0]['row']}: {rows[0]['reason']}. No row of the request was used; {len(rows):,} of "
                f"{batch.records:,} are bad.",
                rows=rows[:SHOWN],
            )
        if not batch.rows:
            raise RefusedError(400, "The request holds no rows. Send at least one.")
        return batch

    def encoded(self, columns: dict[str, Any], rows: int) -> Batch:
        """Return rows that were sent column by column, without labels; bad ones are refused.

        Parameters
        ----------
        columns : dict of str to array or list
            Numbers or texts of every column; NaN or None for what is missing.
        rows : int
            How many there are.
        """
        schema, arrays = self.schema, dict[str, Any]()
        for name in schema.features:
            values = columns[name]
            if name in schema.numeric:
                if not isinstance(values, np.ndarray):
                    raise RefusedError(400, f"column {name!r} holds texts, and the model needs numbers.")
                arrays[name] = values.astype(np.float64, copy=False)
            else:
                texts = values.tolist() if isinstance(values, np.ndarray) else values
                arrays[name] = pa.array([None if text is None else str(text) for text in texts], pa.string())
        found = encode(_as_json(schema, False), arrays, rows)
        if found.wrong:
            place = min(found.wrong)
            raise RefusedError(
                400,
                f"row {place + 1}: {found.wrong[place]}. No row of the request was used; {len(found.wrong):,} of "
                f"{rows:,} are bad.",
            )
        return Batch(found.X, None, np.arange(rows), records=rows, named=found.named)

    def _records(self, rows: list[Any], labels: bool) -> Batch:
        """Return rows that JSON gave: objects, or lists in the order of the columns."""
        wanted = (*self.columns, self.schema.label) if labels else self.columns
        flat, keys = [], dict[str, None]()
        for number, row in enumerate(rows, 1):
            if isinstance(row, list):
                if len(row) != len(wanted):
                    more = ", and the label at the end" if labels else ""
                    raise RefusedError(
                        400,
                        f"row {number}: {len(row):,} values, where the model needs {len(wanted):,}: "
                        f"{_some(self.columns)}{more}. Or send objects with the names of the columns.",
                    )
                row = dict(zip(wanted, row, strict=True))
            elif not isinstance(row, dict):
                raise RefusedError(
                    400, f"row {number}: this is {_json_name(row)}; a row is an object, or a list of values."
                )
            flat.append(flattened(row, self.schema.flatten))
            keys.update(dict.fromkeys(flat[-1]))
        if rows:
            for name in wanted:
                if name not in keys:
                    raise unknown_column(str(name), list(keys), REQUEST)
        return JSON_LINES.parse_objects(_as_json(self.schema, labels), flat)

    def _csv(self, body: bytes, labels: bool) -> Batch:
        """Return the rows of CSV with a header."""
        source = Source(REQUEST)
        block = Block(body, 0, 0, Place(line=body.count(b"\n") + (not body.endswith(b"\n"))))
        names, rest = CSV.header(source, block)
        fitting = CSV.fit(source, self.schema, names)
        label = self.schema.label
        if labels:
            if label not in names:
                raise unknown_column(str(label), names, f"{REQUEST}: the label")
            fitting = replace(fitting, label=label)
        return CSV.parse(fitting, rest)


@lru_cache(maxsize=64)
def _as_json(schema: Schema, labels: bool) -> Schema:
    """Return the schema of JSON lines of the features, with or without the label."""
    columns = (*schema.features, schema.label) if labels and schema.label is not None else schema.features
    fitting = schema.of_columns(columns, REQUEST)
    return replace(fitting, format=JSON_LINES.name, label=schema.label if labels else None)


def _decoded(kind: str, body: bytes) -> list[Any]:
    """Return the rows of a body of JSON or JSON lines, each an object or a list."""
    try:
        if kind == "jsonl":
            return [msgspec.json.decode(line) for line in body.split(b"\n") if line.strip()]
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise RefusedError(400, f"The body is not JSON: {reason}.") from None
    if isinstance(found, dict) and isinstance(found.get("rows"), list) and len(found) == 1:
        found = found["rows"]
    if isinstance(found, dict):
        return [found]
    if isinstance(found, list):
        return found
    raise RefusedError(400, f"The body is {_json_name(found)}; send a list of rows, or one row as an object.")


def _json_name(value: Any) -> str:
    """Return what a value of JSON is called."""
    if value is None:
        return "null"
    names = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list"}
    return names.get(type(value), "an object")


def _some(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
