"""Text to hashed words: cut, hashed and counted by one compiled loop, with the same result as `HashingVectorizer`.

A word is a run of at least two word characters, in lower case. Its column is its MurmurHash3, and the sign of the hash
is its sign, so that words which share a column cancel as often as they add. With `ngrams` above 1 runs of this many
words, joined by a space, are hashed too. The first word of each column in a block is kept, so that columns can be read.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kampong._core.compute import compiled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kampong._core.compute import Float, Integer

LONGEST = 48
"""Bytes of a word that are kept to be read."""


class Names:
    """Words of columns, cut out of their texts when they are asked for: most columns of a block are known already.

    Parameters
    ----------
    text : bytes
        All texts.
    spans : array of shape (columns, 2)
        Where each word, or run of words, begins and ends.
    """

    def __init__(self, text: bytes, spans: Integer) -> None:
        self._text, self._spans = text, spans

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._spans)

    def __getitem__(self, place: int) -> bytes:
        """Return one of them."""
        start, stop = self._spans[place].tolist()
        return _name(self._text[start:stop])

    def __iter__(self) -> Iterator[bytes]:
        """Return all of them, one after another."""
        return (self[place] for place in range(len(self)))


class Named(NamedTuple):
    """Columns in the order in which they first occur, and a word for each, with the sign that its counts have."""

    columns: Integer
    names: Names | list[bytes]
    signs: Integer


class Words(NamedTuple):
    """Hashed words as the parts of a CSR matrix, and the columns that occur."""

    data: Float
    indices: Integer
    indptr: Integer
    named: Named


def hash_words(column: Any, width: int, ngrams: int = 1, *, unit: bool = True) -> Words:
    """Return the hashed words of texts.

    Parameters
    ----------
    column : pyarrow array of strings
        The texts; nothing is an empty text.
    width : int
        The number of columns.
    ngrams : int
        The longest run of words that is hashed.
    unit : bool
        Whether the counts of a row are scaled to length 1.

    Returns
    -------
    Words
        A row a text.
    """
    data, offsets, classes = _bytes_of(column)
    room = ngrams * (len(data) // 3 + len(offsets))
    indices, values = np.empty(room, dtype=np.int32), np.empty(room)
    first, spans = np.empty(min(room, width), dtype=np.int32), np.empty((min(room, width), 3), dtype=np.int64)
    indptr = np.zeros(len(offsets), dtype=np.int32)
    found = _hash(data, offsets, classes, width, ngrams, unit, indptr, indices, values, first, spans)
    size = indptr[-1]
    names = Names(data.tobytes(), spans[:found, :2].copy())
    named = Named(first[:found].copy(), names, spans[:found, 2].copy())
    return Words(values[:size].copy(), indices[:size].copy(), indptr, named)


def cut_name(name: bytes) -> bytes:
    """Return as much of a name as is kept, without half a character at its end."""
    return name if len(name) <= LONGEST else name[:LONGEST].decode("utf-8", "ignore").encode()


def _name(span: bytes) -> bytes:
    """Return a word, or the words of a run joined by a space."""
    if span.isalnum():
        return cut_name(span)
    words = re.findall(r"\w\w+", span.decode("utf-8", "replace"))
    return cut_name(" ".join(words).encode())


def _bytes_of(column: Any) -> tuple[Any, Integer, Any]:
    """Return all texts in lower case as bytes, where each begins, and which characters belong to words."""
    rows = len(column)
    if rows and not column.null_count:
        buffers = column.buffers()
        wide = str(column.type) == "large_string"
        offsets = np.frombuffer(buffers[1], dtype=np.int64 if wide else np.int32)[column.offset :][: rows + 1]
        data = np.frombuffer(buffers[2], dtype=np.uint8) if buffers[2] is not None else np.empty(0, dtype=np.uint8)
        data = data[offsets[0] : offsets[-1]]
        lower = np.empty_like(data)
        if _lower(data, lower):
            return lower, (offsets - offsets[0]).astype(np.int64), np.zeros(0, dtype=np.bool_)
    texts = [(value or "").lower().encode("utf-8", "replace") for value in column.to_pylist()]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return np.frombuffer(b"".join(texts), dtype=np.uint8), ends, _word_characters()


@cache
def _word_characters() -> Any:
    """Return, for each code point, whether it belongs to words."""
    every = "".join(map(chr, range(0xD800))) + "?" * 0x800 + "".join(map(chr, range(0xE000, 0x110000)))
    found = np.zeros(0x110000, dtype=np.bool_)
    for run in re.finditer(r"\w+", every):
        found[run.start() : run.end()] = True
    return found


@compiled
def _lower(data: Any, lower: Any) -> bool:
    """Copy ASCII in lower case; tell whether all of it is ASCII."""
    for i in range(len(data)):
        byte = data[i]
        if byte >= 128:
            return False
        lower[i] = byte + 32 if 65 <= byte <= 90 else byte
    return True


@compiled
def _character(data: Any, at: int) -> tuple[Any, int]:
    """Return the code point that begins at a byte, and how many bytes it has."""
    byte = np.int64(data[at])
    if byte < 0x80:
        return byte, 1
    size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
    code = byte & (0x7F >> size)
    for i in range(1, size):
        code = (code << 6) | (np.int64(data[at + i]) & 0x3F)
    return code, size


@compiled
def _is_word(code: int, classes: Any) -> bool:
    if code < 128:
        return bool(48 <= code <= 57 or 65 <= code <= 90 or 97 <= code <= 122 or code == 95)
    return bool(classes[code])


@compiled
def _cut(data: Any, start: int, stop: int, classes: Any, spans: Any) -> int:
    """Find the words of a text; return how many there are."""
    found, at = 0, start
    while at < stop:
        code, size = _character(data, at)
        if not _is_word(code, classes):
            at += size
            continue
        first, characters = at, 0
        while at < stop:
            code, size = _character(data, at)
            if not _is_word(code, classes):
                break
            characters += 1
            at += size
        if characters >= 2:
            spans[found, 0], spans[found, 1] = first, at
            found += 1
    return found


@compiled
def murmur(data: Any, start: int, stop: int) -> Any:
    """Return the signed 32-bit MurmurHash3 of some bytes, with the seed 0."""
    mask, h = np.uint64(0xFFFFFFFF), np.uint64(0)
    size = stop - start
    at = start
    while at + 4 <= stop:
        k = np.uint64(data[at]) | np.uint64(data[at + 1]) << np.uint64(8)
        k |= np.uint64(data[at + 2]) << np.uint64(16) | np.uint64(data[at + 3]) << np.uint64(24)
        h ^= _scrambled(k)
        h = ((h << np.uint64(13)) | (h >> np.uint64(19))) & mask
        h = (h * np.uint64(5) + np.uint64(0xE6546B64)) & mask
        at += 4
    k = np.uint64(0)
    for i in range(stop - at):
        k |= np.uint64(data[at + i]) << np.uint64(8 * i)
    if at < stop:
        h ^= _scrambled(k)
    h ^= np.uint64(size)
    h ^= h >> np.uint64(16)
    h = (h * np.uint64(0x85EBCA6B)) & mask
    h ^= h >> np.uint64(13)
    h = (h * np.uint64(0xC2B2AE35)) & mask
    h ^= h >> np.uint64(16)
    return np.int64(h) - (np.int64(1) << 32) if h >= np.uint64(0x80000000) else np.int64(h)


@compiled
def _scrambled(k: Any) -> Any:
    mask = np.uint64(0xFFFFFFFF)
    k = (k * np.uint64(0xCC9E2D51)) & mask
    k = ((k << np.uint64(15)) | (k >> np.uint64(17))) & mask
    return (k * np.uint64(0x1B873593)) & mask


@compiled
def _run_hash(data: Any, spans: Any, first: int, words: int, scratch: Any) -> Any:
    """Return the hash of a run of words, joined by a space."""
    if words == 1:
        return murmur(data, spans[first, 0], spans[first, 1])
    size = 0
    for word in range(first, first + words):
        if word > first:
            scratch[size] = 32
            size += 1
        for at in range(spans[word, 0], spans[word, 1]):
            scratch[size] = data[at]
            size += 1
    return murmur(scratch, 0, size)


@compiled
def _count(keys: Any, used: int, unit: bool, indices: Any, values: Any, at: int) -> int:
    """Add up the signs of each column of a sorted row, and scale the row; return where it ends."""
    start, i = at, 0
    total = 0.0
    while i < used:
        column, value = keys[i] >> 1, 0.0
        while i < used and keys[i] >> 1 == column:
            value += 1.0 if keys[i] & 1 else -1.0
            i += 1
        if value != 0.0:
            indices[at], values[at] = column, value
            total += value * value
            at += 1
    if unit and at > start:
        root = np.sqrt(total)
        for j in range(start, at):
            values[j] /= root
    return at


@compiled
def _hash(
    data: Any,
    offsets: Integer,
    classes: Any,
    width: int,
    ngrams: int,
    unit: bool,
    indptr: Any,
    indices: Any,
    values: Float,
    first: Any,
    first_spans: Any,
) -> int:
    """Hash all texts; return how many columns occur."""
    longest = 0
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    spans = np.empty((longest // 2 + 1, 2), dtype=np.int64)
    keys = np.empty(ngrams * (longest // 2 + 1), dtype=np.int64)
    scratch = np.empty(longest + ngrams if ngrams > 1 else 0, dtype=np.uint8)
    seen = np.zeros(width, dtype=np.bool_)
    found = at = 0
    for i in range(len(offsets) - 1):
        words = _cut(data, offsets[i], offsets[i + 1], classes, spans)
        used = 0
        for run in range(1, ngrams + 1):
            for word in range(words - run + 1):
                value = _run_hash(data, spans, word, run, scratch)
                column = abs(value) % width
                keys[used] = 2 * column + (1 if value >= 0 else 0)
                used += 1
                if not seen[column]:
                    seen[column] = True
                    first[found] = column
                    first_spans[found, 0], first_spans[found, 1] = spans[word, 0], spans[word + run - 1, 1]
                    first_spans[found, 2] = 1 if value >= 0 else -1
                    found += 1
        keys[:used].sort()
        at = _count(keys, used, unit, indices, values, at)
        indptr[i + 1] = at
    return found
