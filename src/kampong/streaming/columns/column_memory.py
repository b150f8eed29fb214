"""What a stream remembers of its columns, row by row in order: means for what is missing, and what hashed columns mean.

A missing number becomes the mean of its column so far, over all classes. Hashed columns are numbered in the order in
which they occur, so a model is as wide as the words it has seen and not as wide as the hash; the first word of each
column is kept, so that directions can be read. With `tfidf` words that many rows have count less. All of it follows
from the records alone, is saved with the model, and is used unchanged when the model is applied.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from kampong.streaming.columns.text_hashing import LONGEST

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
    from kampong.files import Contents
    from kampong.streaming.columns.records import Batch
    from kampong.streaming.columns.schema import Schema
    from kampong.streaming.columns.text_hashing import Names

LEAST, ROOM = 64, 1024
"""Hashed columns that a model has room for at first. A full room doubles up to the second, then grows by an eighth."""


class Memory:
    """The memory of one stream.

    Parameters
    ----------
    schema : Schema
        What the columns are.
    grows : bool
        Whether the model can be made wider; otherwise it has room for all hashed columns from the start.
    """

    def __init__(self, schema: Schema, *, grows: bool) -> None:
        numbers = len(schema.number_features) if schema.fills else 0
        self.schema, self.grows = schema, grows
        self.counts: Integer = np.zeros(numbers, dtype=np.int64)
        self.means: Float = np.zeros(numbers)
        # one more than its place, 0 for none: zeros take no memory before they are written to
        self._places: Integer = np.zeros(schema.hash_width, dtype=np.int32)
        self.columns: list[int] = []
        self.names: list[bytes] = []
        self.signs: list[int] = []
        self.documents = 0
        self.frequencies: Integer = np.zeros(0, dtype=np.int64)

    @property
    def width(self) -> int:
        """The width of the rows for the model."""
        schema = self.schema
        room = schema.hash_width
        if self.grows:
            room = min(room, LEAST)
            while room < len(self.columns):
                room = min(room + (room if room < ROOM else max(ROOM, room // 8)), schema.hash_width)
        return schema.width - schema.hash_width + room

    @property
    def used(self) -> int:
        """How many columns of the rows can be other than zero."""
        return self.schema.width - len(self._places) + len(self.columns)

    def places(self, columns: Integer) -> Integer:
        """Return the place of each hashed column among those of the model, −1 where it has none."""
        found: Integer = self._places[columns] - 1
        return found

    def take(self, batch: Batch) -> Batch:
        """Learn the columns of a batch, and return it as rows for the model."""
        X = batch.X
        if X is None:
            return batch
        if len(self.counts):
            self._learn_means(X)
        if self.schema.hash_width and batch.named is not None:
            self._add(*batch.named)
        return self.apply(batch, learn=True)

    def apply(self, batch: Batch, *, learn: bool = False) -> Batch:
        """Return a batch as rows for the model, and learn nothing but how often words occur if that is wanted."""
        X, filled = batch.X, 0
        if X is None:
            return batch
        if len(self.counts):
            X, filled = self._fill(X)
        if self.schema.hash_width:
            X = self._placed(X, learn=learn)
        return replace(batch, X=X, filled=filled)

    def name_of(self, column: int) -> tuple[str, int]:
        """Return what a column of the model is and the sign of its values.

        It is the name of a number, or the first word of a hashed column.
        """
        schema = self.schema
        plain = (*schema.number_features, *(f"{name} is missing" for name in schema.indicated))
        if column < len(plain):
            return plain[column], 1
        place = column - len(plain)
        if place < len(self.names):
            return self.names[place].decode(), self.signs[place]
        return f"hashed column {place}", 1

    # To and from a model file.

    def to_state(self) -> dict[str, Any]:
        """Return everything by name."""
        ends = np.cumsum([len(name) for name in self.names], dtype=np.int64)
        return {
            "counts": self.counts,
            "means": self.means,
            "columns": np.array(self.columns, dtype=np.int64),
            "names": np.frombuffer(b"".join(self.names), dtype=np.uint8),
            "name_ends": ends,
            "signs": np.array(self.signs, dtype=np.int64),
            "documents": self.documents,
            "frequencies": self.frequencies[: len(self.columns)],
        }

    @classmethod
    def from_state(cls, contents: Contents, schema: Schema, rows: int, *, grows: bool) -> Memory:
        """Return the memory that `to_state` wrote, after a check against the schema and the rows learnt."""
        memory = cls(schema, grows=grows)
        numbers = len(memory.counts)
        memory.counts = contents.array("counts", np.int64, (numbers,), low=0, high=rows)
        memory.means = contents.array("means", np.float64, (numbers,), low=-1e101, high=1e101)
        blank = memory.means[memory.counts == 0]
        contents.require(not blank.any(), "means says the mean of a column of which counts has no value")
        columns = contents.array("columns", np.int64, (None,), low=0, high=max(len(memory._places) - 1, 0))
        once = len(np.unique(columns)) == len(columns) <= len(memory._places)
        contents.require(once, "columns holds a column twice, or more columns than the hash has")
        memory.columns = columns.tolist()
        memory._places[columns] = np.arange(1, len(columns) + 1, dtype=np.int32)
        memory.names = _names_from(contents, len(columns))
        signs = contents.array("signs", np.int64, (len(columns),), low=-1, high=1)
        contents.require(bool(signs.all()), "signs holds a 0")
        memory.signs = signs.tolist()
        memory.documents = contents.whole("documents", high=rows if schema.tfidf else 0)
        weighted = len(columns) if schema.tfidf else 0
        memory.frequencies = contents.array("frequencies", np.int64, (weighted,), low=0, high=memory.documents)
        contents.finish()
        return memory

    def merged(self, other: Memory) -> tuple[Memory, Integer]:
        """Return the memory of both streams, and where it has the columns of the other."""
        result = Memory(self.schema, grows=self.grows)
        result.counts = self.counts + other.counts
        share = other.counts / np.maximum(result.counts, 1)
        result.means = self.means + share * (other.means - self.means)
        for one in (self, other):
            result._add(np.array(one.columns, dtype=np.int64), one.names, np.array(one.signs, dtype=np.int64))
        result.documents = self.documents + other.documents
        places = (
            result.places(np.array(other.columns, dtype=np.int64)) if other.columns else np.empty(0, dtype=np.int32)
        )
        if self.schema.tfidf:
            result.frequencies = np.zeros(len(result.columns), dtype=np.int64)
            result.frequencies[: len(self.columns)] = self.frequencies[: len(self.columns)]
            result.frequencies[places] += other.frequencies[: len(other.columns)]
        plain = self.schema.width - self.schema.hash_width
        return result, np.concatenate([np.arange(plain), plain + places]).astype(np.int64)

    # How.

    def _learn_means(self, X: Rows) -> None:
        numbers = len(self.counts)
        if isinstance(X, np.ndarray):
            block = X[:, :numbers]
            sums, count = block.sum(axis=0), np.full(numbers, len(block))
            for j in np.flatnonzero(np.isnan(sums)).tolist():
                there = block[~np.isnan(block[:, j]), j]
                sums[j], count[j] = there.sum(), len(there)
        else:
            mine = X.indices < numbers
            places, values = X.indices[mine], X.data[mine]
            gone = np.isnan(values)
            count = X.shape[0] - np.bincount(places[gone], minlength=numbers)
            sums = np.bincount(places[~gone], weights=values[~gone], minlength=numbers)
        total = self.counts + count
        self.means += np.divide(sums - count * self.means, total, out=np.zeros(numbers), where=total > 0)
        self.counts = total

    def _fill(self, X: Rows) -> tuple[Rows, int]:
        """Return rows in which no number is missing, and how many were; only the rows of this batch are changed."""
        numbers = len(self.counts)
        if isinstance(X, np.ndarray):
            gone = np.isnan(X[:, :numbers])
            if gone.any():
                X = X.copy()
                X[:, :numbers][gone] = np.broadcast_to(self.means, gone.shape)[gone]
            return X, int(np.count_nonzero(gone))
        gone = np.isnan(X.data)
        if gone.any():
            data = X.data.copy()
            data[gone] = self.means[X.indices[gone]]
            X = _csr(data, X.indices, X.indptr, X.shape)
        return X, int(np.count_nonzero(gone))

    def _add(self, columns: Integer, names: Names | list[bytes], signs: Integer) -> None:
        """Give the next places to columns that have none; of a column that comes twice the first name counts."""
        new = np.flatnonzero(self.places(columns) < 0)
        new = new[np.sort(np.unique(columns[new], return_index=True)[1])]
        self._places[columns[new]] = len(self.columns) + 1 + np.arange(len(new), dtype=np.int32)
        self.columns += columns[new].tolist()
        self.names += [names[place] for place in new.tolist()]
        self.signs += signs[new].tolist()

    def _placed(self, X: Any, *, learn: bool) -> Any:
        """Return rows whose hashed columns have their places; columns that have none are left out."""
        schema = self.schema
        plain = schema.width - schema.hash_width
        shape = (X.shape[0], self.width)
        indices = X.indices
        hashed = indices >= plain
        places = np.where(hashed, self.places(np.where(hashed, indices - plain, 0)) + plain, indices)
        keep = places >= np.where(hashed, plain, 0)
        data, indptr = X.data, X.indptr
        if not keep.all():
            indptr = np.append(0, np.cumsum(keep))[indptr].astype(indptr.dtype)
            data, places, hashed = data[keep], places[keep], hashed[keep]
        if schema.tfidf:
            data = self._weighted(data, places - plain, hashed, indptr, learn=learn)
        result = _csr(data, places.astype(np.int32), indptr, shape)
        result.sort_indices()
        return result

    def _weighted(self, data: Float, places: Integer, hashed: Any, indptr: Integer, *, learn: bool) -> Float:
        """Return hashed values times the inverse frequency of their columns, each row scaled to length 1."""
        room = np.zeros(len(self.columns), dtype=np.int64)
        room[: len(self.frequencies)] = self.frequencies
        if learn:
            self.documents += len(indptr) - 1
            room += np.bincount(places[hashed], minlength=len(room))
        self.frequencies = room
        weights = np.log((1 + self.documents) / (1 + room)) + 1.0
        values = data.copy()
        values[hashed] *= weights[places[hashed]]
        rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))[hashed]
        lengths = np.sqrt(np.bincount(rows, weights=values[hashed] ** 2, minlength=len(indptr) - 1))
        values[hashed] /= np.where(lengths > 0, lengths, 1.0)[rows]
        return values


def _csr(data: Float, indices: Integer, indptr: Integer, shape: tuple[int, int]) -> Any:
    return sparse.csr_array((data, indices, indptr), shape=shape)


def _names_from(contents: Contents, count: int) -> list[bytes]:
    """Return the names of this many columns."""
    text = contents.array("names", np.uint8, (None,)).tobytes()
    ends = contents.array("name_ends", np.int64, (count,), low=0, high=len(text))
    sizes = np.diff(ends, prepend=0)
    fit = not count or (sizes.min() >= 0 and sizes.max() <= LONGEST)
    contents.require(bool(fit) and (ends[-1] if count else 0) == len(text), "name_ends does not cut names into words")
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        contents.refuse("names is not text")
    return [text[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]
