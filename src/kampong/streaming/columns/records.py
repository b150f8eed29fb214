"""From columns to rows for the model: numbers as they are, words and categories hashed, bad records set aside."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from kampong.streaming.arrow import filled, numbers_of
from kampong.streaming.columns import cells
from kampong.streaming.columns.text_hashing import Named, Names, cut_name, hash_words, murmur

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kampong._core.compute import Float, Integer, Rows
    from kampong.streaming.columns.schema import Schema

LARGEST = 1e100  # squares and sums of squares of larger numbers overflow
LONGEST_LABEL = 256
SHOWN = 1024
CHUNK = 512


class Dead(NamedTuple):
    """One record that could not be used.

    Attributes
    ----------
    record : int
        Its number among the records of its batch.
    line : int
        Its line, or its row in a table, counted from 1.
    offset : int
        The bytes (or rows) before it.
    reason : str
        What is wrong.
    text : str
        How it begins.
    """

    record: int
    line: int
    offset: int
    reason: str
    text: str


@dataclass
class Batch:
    """The records of one block: the good ones as rows, all others as dead letters.

    Attributes
    ----------
    X : array or sparse matrix or None
        The rows; NaN where a number is missing, until the memory of the stream has filled it in.
    y : array or None
        Their labels.
    good : array of int
        Which records the rows are.
    dead : list of Dead
        The other records.
    records : int
        All of them.
    place : dict or None
        The place in the source after them.
    named : Named or None
        The hashed columns that occur, and their words.
    filled : int
        Missing numbers that were filled in.
    unknown : int
        Records with keys that the model does not know.
    keys : sequence of str
        What tells each record from all others of its source, where the source says it.
    """

    X: Rows | None
    y: np.ndarray | None
    good: Integer
    dead: list[Dead] = field(default_factory=list)
    records: int = 0
    place: Any = None
    named: Named | None = None
    filled: int = 0
    unknown: int = 0
    keys: Sequence[str] = ()

    @property
    def rows(self) -> int:
        """Return the number of good records."""
        return len(self.good)

    def keys_of(self, records: Iterable[int], before: int) -> list[str]:
        """Return the keys of some records: what the source says, or their numbers, which count on from those before."""
        return [self.keys[one] if self.keys else str(before + one + 1) for one in records]


class Encoded(NamedTuple):
    """Rows, labels, and what is wrong with some of them, by position."""

    X: Rows
    y: np.ndarray | None
    wrong: dict[int, str]
    named: Named | None = None


def shown(record: bytes) -> str:
    """Return the beginning of a record as text."""
    return record[:SHOWN].rstrip(b"\r\n").decode("utf-8", "replace")


def encode(schema: Schema, columns: Mapping[str, Any], rows: int, wrong: dict[int, str] | None = None) -> Encoded:
    """Return rows for the model from columns.

    Parameters
    ----------
    schema : Schema
        What each column is.
    columns : mapping of str to pyarrow array or array
        Numbers and whole labels as float64, the others as strings; null where there is nothing. Arrays of NumPy are
        numbers, NaN where there is nothing.
    rows : int
        How many records there are.
    wrong : dict of int to str, optional
        What is already known to be wrong.

    Returns
    -------
    Encoded
        All records; those named in `wrong` must be left out.
    """
    wrong = dict(wrong or {})
    numbers = _numbers(schema, columns, rows, wrong)
    y = None if schema.label is None else _labels(schema, columns[schema.label], wrong)
    if not schema.hash_width:
        return Encoded(sparse.csr_array(numbers) if schema.sparse else numbers, y, wrong)
    hashed, named = _hashed(schema, columns, rows)
    X = sparse.csr_array(sparse.hstack([sparse.csr_array(numbers), hashed], format="csr")) if schema.numbers else hashed
    return Encoded(X, y, wrong, named)


def _numbers(schema: Schema, columns: Mapping[str, Any], rows: int, wrong: dict[int, str]) -> Float:
    """Return the numbers, and a 1 where one is missing that has a column for that."""
    of = {name: _features(schema, name, columns[name], wrong) for name in schema.numbers}
    values = [feature for features in of.values() for feature in features]
    gone = [np.isnan(of[name][0]) for name in schema.indicated]
    X = np.empty((rows, len(values) + len(gone)))
    for start in range(0, rows, CHUNK):  # rows that stay in the cache while their columns are filled in
        part = slice(start, start + CHUNK)
        for j, column in enumerate((*values, *gone)):
            X[part, j] = column[part]
    if X.size == 0 or (X.min() >= -LARGEST and X.max() <= LARGEST):
        return X
    bad = np.abs(X) > LARGEST if schema.fills else ~(np.abs(X) <= LARGEST)
    for i in np.flatnonzero(bad.any(axis=1)).tolist():
        j = int(np.argmax(bad[i]))
        name = schema.number_features[j]
        if np.isnan(X[i, j]) and (name in schema.styled or _is_empty(columns.get(name), i)):
            wrong.setdefault(i, f"column {name!r} is empty")
        elif np.isfinite(X[i, j]):
            wrong.setdefault(i, f"column {name!r} holds {X[i, j]:g}, above {LARGEST:g} in magnitude")
        else:
            wrong.setdefault(i, f"column {name!r} holds {X[i, j]}")
    X[bad] = 0.0
    return X


def _features(schema: Schema, name: str, column: Any, wrong: dict[int, str]) -> list[Float]:
    """Return the features of a number: itself, or the parts of a date."""
    if name in schema.date_of:
        return cells.read_dates(column, name, *schema.date_of[name], wrong)
    if name in schema.styled:
        return [cells.read_numbers(column, name, schema.decimal, {} if name in schema.worded else wrong)]
    return [_floats(column)]


def _floats(column: Any) -> Float:
    """Return a column of numbers, NaN for null."""
    return column if isinstance(column, np.ndarray) else numbers_of(column)


def _is_empty(column: Any, row: int) -> bool:
    """Tell whether a NaN stands for nothing: in an array of pyarrow it may be a number that was sent."""
    return column is None or isinstance(column, np.ndarray) or not column[row].is_valid


def _labels(schema: Schema, column: Any, wrong: dict[int, str]) -> np.ndarray:
    """Return the labels; a missing, too long or undeclared one is wrong."""
    name = schema.label
    if isinstance(column, np.ndarray):
        empty = np.flatnonzero(np.isnan(column)).tolist()
    else:
        empty = np.flatnonzero(np.asarray(column.is_null())).tolist() if column.null_count else []
    for i in empty:
        wrong.setdefault(i, f"the label {name!r} is empty")
    if schema.label_kind == "integer":
        return _whole_labels(schema, _floats(column), wrong)
    coded = filled(column, "?").dictionary_encode()
    values, codes = [value.strip() for value in coded.dictionary.to_pylist()], numbers_of(coded.indices)
    for code, value in enumerate(values):
        reason = ""
        if not value:
            reason = f"the label {name!r} is empty"
        elif len(value) > LONGEST_LABEL:
            reason = f"the label has {len(value):,} characters; at most {LONGEST_LABEL} are allowed"
        elif schema.classes and value not in schema.classes:
            reason = f"the label {value!r} is not among the classes"
        if reason:
            for i in np.flatnonzero(codes == code).tolist():
                wrong.setdefault(i, reason)
            values[code] = "?"
    labels: np.ndarray = np.array(values or ["?"], dtype=np.str_)[codes]
    return labels


def _whole_labels(schema: Schema, values: Float, wrong: dict[int, str]) -> np.ndarray:
    """Return whole labels; others are wrong."""
    with np.errstate(invalid="ignore"):
        whole = (values == np.floor(values)) & (np.abs(values) < 2.0**53)
    for i in np.flatnonzero(~whole).tolist():
        wrong.setdefault(i, f"the label {values[i]:g} is not a whole number, but the first labels are")
    y = np.where(whole, values, 0.0).astype(np.int64)
    if schema.classes:
        for i in np.flatnonzero(~np.isin(y, np.asarray(schema.classes))).tolist():
            wrong.setdefault(i, f"the label {int(y[i])} is not among the classes")
    return y


def _hashed(schema: Schema, columns: Mapping[str, Any], rows: int) -> tuple[Any, Named]:
    """Return the hashed words and categories, (rows, hash_width), and the columns that occur with their words."""
    parts: list[Any] = []
    names: list[Names | list[bytes]] = []
    places: list[Integer] = []
    signs: list[Integer] = []
    shape = (rows, schema.hash_width)
    for name in (*schema.categories, *schema.worded):
        coded = filled(columns[name], "").dictionary_encode()
        values = [value.strip() for value in coded.dictionary.to_pylist()]
        counted = np.array(
            [name in schema.categories or cells.is_word(value, schema.decimal) for value in values], bool
        )
        tokens = [f"{name}={value}".encode() for value in values]
        found = np.array([_place(token, schema.hash_width) for token in tokens], dtype=np.int32)
        codes = numbers_of(coded.indices) if rows else np.empty(0, dtype=np.int32)
        there = counted[codes]
        ends = np.concatenate(([0], np.cumsum(there)))
        parts.append(sparse.csr_array((np.ones(ends[-1]), found[codes[there]], ends), shape=shape))
        places.append(found[counted])
        signs.append(np.ones(counted.sum(), dtype=np.int64))
        names.append([cut_name(token) for token, one in zip(tokens, counted.tolist(), strict=True) if one])
    for name in schema.texts:
        words = hash_words(columns[name], schema.hash_width, schema.ngrams, unit=not schema.tfidf)
        parts.append(sparse.csr_array((words.data, words.indices, words.indptr), shape=shape))
        places.append(words.named.columns)
        signs.append(words.named.signs)
        names.append(words.named.names)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    every = names[0] if len(names) == 1 else list(itertools.chain(*names))
    return total, Named(np.concatenate(places), every, np.concatenate(signs))


def _place(token: bytes, width: int) -> int:
    """Return the hashed column of a category."""
    return int(murmur(np.frombuffer(token, dtype=np.uint8), 0, len(token)) % 2**32 % width)


def joined(schema: Schema, encoded: Encoded, kept: Integer, dead: dict[int, str], records: int, where: Any) -> Batch:
    """Return the batch: good rows, and a dead letter for every other record.

    Parameters
    ----------
    schema : Schema
        What each column is.
    encoded : Encoded
        The records that could be cut into columns.
    kept : array of int
        Which records of the block those are.
    dead : dict of int to str
        What is wrong with the other records.
    records : int
        How many records the block holds.
    where : callable
        Called once if there is a dead letter: returns line, offset and bytes of every record.

    Returns
    -------
    Batch
        Every record is either a good row or a dead letter.
    """
    dead = {**dead, **{int(kept[i]): reason for i, reason in encoded.wrong.items()}}
    fine = np.ones(len(kept), dtype=bool)
    fine[list(encoded.wrong)] = False
    good = np.flatnonzero(fine)
    X, y = select(encoded.X, encoded.y, good)
    places = where() if dead else []
    letters = [Dead(i, places[i][0], places[i][1], dead[i], shown(places[i][2])) for i in sorted(dead)]
    return Batch(X, y, kept[good], letters, records, named=encoded.named)


def select(X: Rows, y: np.ndarray | None, good: Integer) -> tuple[Rows, np.ndarray | None]:
    """Return the good rows and their labels; everything where all are good."""
    if len(good) == X.shape[0]:
        return X, y
    return X[good], None if y is None else y[good]
