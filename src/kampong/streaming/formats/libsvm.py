"""Lines of libsvm, `label index:value …`: a compiled scan of the bytes that accepts nothing else.

A number of up to 2⁵³ with a power of ten within 10^±22 is exact in one multiplication or division; the others are
collected and converted by pyarrow, which rounds correctly.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from kampong._core.compute import compiled
from kampong.statistics import scatter
from kampong.streaming.arrow import pa
from kampong.streaming.columns.records import LARGEST, Encoded, joined
from kampong.streaming.columns.schema import WIDEST, Schema, as_labels, is_whole
from kampong.streaming.errors import SourceError
from kampong.streaming.formats.format import LineFormat, first_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong._core.compute import Float, Integer
    from kampong.streaming.columns.records import Batch
    from kampong.streaming.sources.blocks import Block
    from kampong.streaming.sources.source import Source

PAIRS = re.compile(rb"\s*[+-]?[0-9.eE+-]+(\s+[0-9]+:\S+)+\s*(#.*)?\r?")
POWERS = np.array([10.0**i for i in range(23)])

NO_LABEL, NO_PAIR, NO_INDEX, TOO_LOW, TOO_HIGH, NOT_ASCENDING, NO_VALUE = range(1, 8)
REASONS = {
    NO_LABEL: "the line does not begin with a label that is a number",
    NO_PAIR: "expected index:value",
    NO_INDEX: "an index is not a whole number",
    TOO_LOW: "index 0, where indices start at 1 (use --zero-based if they start at 0)",
    TOO_HIGH: "an index is above --max-features {width:,}",
    NOT_ASCENDING: "the indices do not ascend",
    NO_VALUE: "a value is not a number",
}


class Libsvm(LineFormat):
    """Sparse rows whose columns have numbers instead of names."""

    name, endings = "libsvm", (".svm", ".libsvm", ".svmlight")
    named_columns = False
    block_factor = 16  # every batch costs as much as its width, even with few rows, so blocks are larger

    def recognises(self, first: bytes) -> bool:
        """Tell whether the first line is a number and pairs of index and value."""
        return PAIRS.fullmatch(first_line(first)) is not None

    def describe(self, source: Source, columns: Sequence[str], part: Block, classes: Sequence[Any]) -> Schema:
        """Return the schema from the records of a first block."""
        path, layout = source.path, source.layout
        if layout.max_features < 1:
            seen = _largest_index(part.data)
            raise SourceError(
                f"{path}: libsvm lines do not say how many columns there are. State the largest index with "
                f"--max-features; the first lines go up to {seen:,}."
            )
        if layout.max_features > WIDEST:
            raise SourceError(f"{path}: --max-features {layout.max_features:,} is above {WIDEST:,}. Hash the indices.")
        strange = [label for label in classes if not is_whole(label)]
        if strange:
            raise SourceError(
                f"{path}: the class {strange[0]!r} is declared, but libsvm labels are whole numbers. Check --classes."
            )
        schema = Schema(format=self.name, label="label", width=layout.max_features, zero_based=layout.zero_based)
        schema = replace(schema, sparse=True, label_kind="integer")
        batch = self.parse(schema, part)
        if batch.rows == 0:
            raise SourceError(
                f"{path}: the first lines hold no libsvm record: {batch.dead[0].reason if batch.dead else ''}."
            )
        X: Any = batch.X
        dense = schema.width <= scatter.WIDEST and X.nnz > scatter.DENSE_SHARE * X.shape[0] * X.shape[1]
        return replace(schema, sparse=not dense, classes=as_labels(classes, schema.label_kind))

    def fit(self, source: Source, schema: Schema, columns: Sequence[str]) -> Schema:
        """Return the schema of a model for a source, which may count its columns from 0."""
        fitting = super().fit(source, schema, columns)
        return replace(fitting, zero_based=source.layout.zero_based or schema.zero_based)

    def parse_lines(self, schema: Schema, block: Block) -> Batch:
        """Return the records of a block."""
        data = np.frombuffer(block.data, dtype=np.uint8)
        lines, pairs = block.data.count(b"\n") + 1, block.data.count(b":")
        starts, problems = np.empty(lines, dtype=np.int64), np.zeros(lines, dtype=np.int8)
        labels, indptr = np.empty(lines), np.zeros(lines + 1, dtype=np.int32)
        indices, values = np.empty(pairs, dtype=np.int32), np.empty(pairs)
        slow_bytes, slow = np.empty(len(data), dtype=np.uint8), np.empty((pairs + lines, 2), dtype=np.int32)
        limits = np.array([0 if schema.zero_based else 1, schema.width])
        records, rows, n_slow = _scan(data, limits, starts, problems, labels, indptr, indices, values, slow_bytes, slow)
        indices, values, indptr = indices[: indptr[rows]], values[: indptr[rows]], indptr[: rows + 1]
        _finish_numbers(slow_bytes, slow[:n_slow], values, labels)
        problems = problems[:records]
        kept = np.flatnonzero(problems == 0)
        wrong = _wrong_values(values, indptr)
        y = None if schema.label is None else _whole(schema, labels[:rows], wrong)
        X: Any = sparse.csr_array((values, indices, indptr), shape=(rows, schema.width))
        X.has_sorted_indices = X.has_canonical_format = True
        broken = {int(i): REASONS[int(problems[i])].format(width=schema.width) for i in np.flatnonzero(problems)}

        def places() -> list[tuple[int, int, bytes]]:
            return _places(block, starts[:records])

        return joined(schema, Encoded(X if schema.sparse else X.toarray(), y, wrong), kept, broken, records, places)


LIBSVM = Libsvm()


def _finish_numbers(slow_bytes: Any, slow: Integer, values: Float, labels: Float) -> None:
    """Convert the numbers that one operation does not give exactly; a slot below zero is a label."""
    if not len(slow):
        return
    offsets = np.concatenate([[0], slow[:, 1]]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(slow_bytes[: offsets[-1]].tobytes())]
    numbers = np.asarray(pa.Array.from_buffers(pa.string(), len(slow), buffers).cast(pa.float64()))
    slots = slow[:, 0]
    values[slots[slots >= 0]] = numbers[slots >= 0]
    labels[-1 - slots[slots < 0]] = numbers[slots < 0]


def _wrong_values(values: Float, indptr: Integer) -> dict[int, str]:
    if not len(values) or (values.min() >= -LARGEST and values.max() <= LARGEST):
        return {}
    bad = np.flatnonzero(~(np.abs(values) <= LARGEST))
    rows = np.searchsorted(indptr, bad, side="right") - 1
    return {int(row): f"a value is above {LARGEST:g} in magnitude" for row in rows}


def _whole(schema: Schema, labels: Float, wrong: dict[int, str]) -> np.ndarray:
    good = (labels == np.floor(labels)) & (np.abs(labels) < 2.0**53)
    for i in np.flatnonzero(~good).tolist():
        wrong.setdefault(i, f"the label {labels[i]:g} is not a whole number")
    y: np.ndarray = np.where(good, labels, 0.0).astype(np.int64)
    if schema.classes:
        for i in np.flatnonzero(~np.isin(y, np.asarray(schema.classes))).tolist():
            wrong.setdefault(i, f"the label {int(y[i])} is not among the classes")
    return y


def _places(block: Block, starts: Integer) -> list[tuple[int, int, bytes]]:
    data, places, line, at = block.data, [], block.line + 1, 0
    for start in starts.tolist():
        line += data.count(b"\n", at, start)
        at = start
        end = data.find(b"\n", start)
        places.append((line, block.offset + start, data[start : end if end >= 0 else len(data)]))
    return places


def _largest_index(data: bytes) -> int:
    largest = 0
    for line in data.split(b"\n"):
        last = line.split(b"#")[0].split()[-1:] or [b""]
        index = last[0].split(b":")[0]
        if index.isdigit() and len(index) < 19:
            largest = max(largest, int(index))
    return largest


@compiled
def _exponent(data: Any, at: int, stop: int) -> tuple[int, int, bool]:
    """Read what follows an e; return where it ends, the power, and whether there was one."""
    down = False
    if at < stop and (data[at] == 43 or data[at] == 45):
        down = data[at] == 45
        at += 1
    power: Any = 0
    there = False
    while at < stop and 48 <= data[at] <= 57:
        power = min(power * 10 + (np.int64(data[at]) - 48), 99999)
        there = True
        at += 1
    return at, -power if down else power, there


@compiled
def _number(data: Any, at: int, stop: int) -> tuple[int, float, int]:
    """Read a decimal number; return where it ends, its value, and 0 for no number, 1 for exact, 2 for convert later."""
    sign = 1.0
    if at < stop and (data[at] == 43 or data[at] == 45):
        sign = -1.0 if data[at] == 45 else 1.0
        at += 1
    mantissa: Any = np.int64(0)
    digits = kept = exponent = 0
    point = False
    while at < stop and (48 <= data[at] <= 57 or (data[at] == 46 and not point)):
        if data[at] == 46:
            point = True
        else:
            digits += 1
            if kept < 18:
                mantissa = mantissa * 10 + (np.int64(data[at]) - 48)
                kept += mantissa > 0
                exponent -= point
            else:
                kept = 99
        at += 1
    if digits and at < stop and (data[at] == 101 or data[at] == 69):
        at, power, there = _exponent(data, at + 1, stop)
        exponent += power
        digits = digits if there else 0
    if digits == 0:
        return at, 0.0, 0
    if mantissa == 0:
        return at, sign * 0.0, 1
    if kept == 99 or mantissa > 9007199254740992 or not -22 <= exponent <= 22:
        return at, 0.0, 2
    value = sign * float(mantissa)
    return at, value / POWERS[-exponent] if exponent < 0 else value * POWERS[exponent], 1


@compiled
def _pair(data: Any, at: int, end: int, low: int, width: int, last: int) -> tuple[int, int, int]:
    """Read an index and its colon; return where the value starts, the column from 0, and a problem or 0."""
    if not 48 <= data[at] <= 57:
        return at, 0, NO_PAIR
    index: Any = np.int64(0)
    while at < end and 48 <= data[at] <= 57:
        index = min(index * 10 + (np.int64(data[at]) - 48), np.int64(2**40))
        at += 1
    if at >= end or data[at] != 58:
        return at, 0, NO_PAIR if at >= end or data[at] <= 32 else NO_INDEX
    if index < low:
        return at, 0, TOO_LOW
    if index - low >= width:
        return at, 0, TOO_HIGH
    if index - low <= last:
        return at, 0, NOT_ASCENDING
    return at + 1, index - low, 0


@compiled
def _bounds(data: Any, at: int) -> tuple[int, int, int]:
    """Return where the content of a line begins and ends, less blanks and comment, and where the next line begins."""
    size = len(data)
    while at < size and (data[at] == 32 or data[at] == 9 or data[at] == 13):
        at += 1
    end = at
    while end < size and data[end] != 10 and data[end] != 35:
        end += 1
    following = end
    while following < size and data[following] != 10:
        following += 1
    while end > at and (data[end - 1] == 13 or data[end - 1] == 32 or data[end - 1] == 9):
        end -= 1
    return at, end, following + 1


@compiled
def _leave(data: Any, token: int, at: int, slot: int, used: Any, slow_bytes: Any, slow: Any) -> None:
    """Leave a number to be converted later."""
    while token < at:
        slow_bytes[used[2]] = data[token]
        used[2] += 1
        token += 1
    slow[used[1], 0] = slot
    slow[used[1], 1] = used[2]
    used[1] += 1


@compiled
def _row(
    data: Any,
    at: int,
    end: int,
    limits: Any,
    row: int,
    labels: Float,
    indices: Any,
    values: Float,
    used: Any,
    slow_bytes: Any,
    slow: Any,
) -> int:
    """Read one record; return its problem, or 0."""
    token, last = at, -1
    at, value, state = _number(data, at, end)
    if state == 0 or (at < end and data[at] != 32 and data[at] != 9):
        return NO_LABEL
    labels[row] = value
    if state == 2:
        _leave(data, token, at, -1 - row, used, slow_bytes, slow)
    while at < end:
        if data[at] == 32 or data[at] == 9:
            at += 1
            continue
        token, last, problem = _pair(data, at, end, limits[0], limits[1], last)
        if problem:
            return problem
        at, value, state = _number(data, token, end)
        if state == 0 or (at < end and data[at] != 32 and data[at] != 9):
            return NO_VALUE
        indices[used[0]], values[used[0]] = last, value
        if state == 2:
            _leave(data, token, at, used[0], used, slow_bytes, slow)
        used[0] += 1
    return 0


@compiled
def _scan(
    data: Any,
    limits: Any,
    starts: Integer,
    problems: Any,
    labels: Float,
    indptr: Any,
    indices: Any,
    values: Float,
    slow_bytes: Any,
    slow: Any,
) -> tuple[int, int, int]:
    """Read all lines; return how many are records, how many of those are rows, and how many numbers are left over."""
    size, at, records, rows = len(data), 0, 0, 0
    used = np.zeros(3, dtype=np.int64)  # entries, numbers left over, and their bytes
    while at < size:
        start, end, following = _bounds(data, at)
        if end > start:
            starts[records] = at
            entries, left, left_bytes = used[0], used[1], used[2]
            problem = _row(data, start, end, limits, rows, labels, indices, values, used, slow_bytes, slow)
            problems[records] = problem
            records += 1
            if problem:
                used[0], used[1], used[2] = entries, left, left_bytes
            else:
                rows += 1
                indptr[rows] = used[0]
        at = following
    return records, rows, used[1]
