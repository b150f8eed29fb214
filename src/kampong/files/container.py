"""One file of arrays and facts: written as a whole or not at all, and read only if its digest is right.

The file is a frame of 64 bytes and a safetensors document: what follows the frame is read by any safetensors reader.

    bytes 0–7    the magic number
    bytes 8–11   the format, a little-endian integer
    bytes 12–15  0, or 1 for a signed file
    bytes 16–23  the length of the document, a little-endian integer
    bytes 24–31  zero, or the fingerprint of the key
    bytes 32–63  the SHA-256 digest of bytes 0–31 and of the document, or their HMAC-SHA256 with the key

The frame stays the same in future formats, so a damaged file can be told from one of another version. The document is
read here and not by the safetensors library, which accepts a name twice and holds the file in memory a second time.
"""

from __future__ import annotations

import errno
import hmac
import io
import json
import math
import os
import stat
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from kampong.files.model_errors import CheckpointError
from kampong.files.replace import replacing
from kampong.files.signing import digest_of, fingerprint, key_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from io import BufferedReader

    from kampong.files.signing import Digest, Key

MAGIC = b"\x89KAMPONG"
FORMAT = 2
FRAME = struct.Struct("<8sIIQQ32s")
START = 32
"""The bytes of the frame before the digest."""

PLAIN, SIGNED = 0, 1

LARGEST_FILE = 2**36
"""Larger files are refused: 64 GiB, many times the widest scatter."""

LARGEST_HEADER = 2**20
"""The most bytes of JSON: as Python objects they take about 25 times as much."""

MOST_AXES = 8

BLOCK = 2**20

IN_MEMORY = "bytes in memory"
"""What the messages name where there is no file."""

DTYPES = {
    "BOOL": "|b1",
    "U8": "|u1",
    "I8": "|i1",
    "U16": "<u2",
    "I16": "<i2",
    "F16": "<f2",
    "U32": "<u4",
    "I32": "<i4",
    "F32": "<f4",
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
}
NAMES = {np.dtype(code): name for name, code in DTYPES.items()}

RESTORE = "Restore a copy of the file, or start again without it."

TOO_LARGE = "Load it on a machine with more memory, or do not trust it."

Check: TypeAlias = "Callable[[dict[str, np.ndarray], dict[str, Any]], object]"
"""Reads the content of a file; its result is not used."""


class _Place(NamedTuple):
    """Where an array lies in a file, and what it is."""

    start: int
    stop: int
    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


# Writing.


def write(
    path: str | os.PathLike[str],
    arrays: Mapping[str, np.ndarray],
    facts: Mapping[str, Any],
    *,
    key: Key = None,
    check: Check | None = None,
) -> None:
    """Write arrays and facts to a file, so that a crash at any time leaves the old file or the new one.

    First `check` reads the content as a later run would, and an error leaves the old file. Then the bytes go to a
    temporary file in the same folder, which is flushed to the disk and takes the name; the folder is flushed last.
    Equal content gives equal bytes. An existing file keeps its permissions.

    Parameters
    ----------
    path : str or path
        The file. A symbolic link stays one: the file it points to is replaced.
    arrays : mapping of str to array
        Arrays of booleans, integers or floats, of any shape.
    facts : mapping of str to JSON
        Whatever JSON can hold, all numbers finite.
    key : bytes, str or path, optional
        The key that signs the file, or the file that holds it.
    check : callable, optional
        Takes the arrays and facts as `read` returns them, and raises CheckpointError if they cannot be read.
    """
    target = Path(os.path.realpath(path))
    pieces = _pieces(path, arrays, facts, key, check)
    try:
        with replacing(target) as file:
            for piece in pieces:
                file.write(piece)
    except OSError as error:
        advice = "Free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "Check the folder"
        raise CheckpointError(
            f"{path}: the checkpoint could not be written ({error.strerror or error}). The previous file is "
            f"still there. {advice} and save again, or save elsewhere."
        ) from error


def encode(
    arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any], *, key: Key = None, check: Check | None = None
) -> bytes:
    """Return the bytes of the file that `write` would write.

    Parameters
    ----------
    arrays : mapping of str to array
        Arrays of booleans, integers or floats, of any shape.
    facts : mapping of str to JSON
        Whatever JSON can hold, all numbers finite.
    key : bytes, str or path, optional
        The key that signs them, or the file that holds it.
    check : callable, optional
        As for `write`.

    Returns
    -------
    bytes
        What `decode` takes; equal content gives equal bytes.
    """
    return b"".join(_pieces(IN_MEMORY, arrays, facts, key, check))


def _pieces(
    path: Any, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any], key: Key, check: Check | None
) -> list[bytes | memoryview]:
    """Return what a file consists of: its frame, its header, and every array."""
    secret = key_bytes(key)
    ready = {name: _plain_array(path, name, array) for name, array in arrays.items()}
    order = sorted(ready, key=lambda name: (-ready[name].dtype.itemsize, name))
    columnwise = [name for name in sorted(ready) if np.asarray(arrays[name]).flags.fnc]
    header = _header(path, ready, order, {"facts": facts, "columnwise": columnwise})
    length = len(header) + sum(array.nbytes for array in ready.values())
    if length + FRAME.size > LARGEST_FILE:
        raise CheckpointError(f"{path}: a checkpoint of {length} bytes is past the limit of {LARGEST_FILE} bytes.")
    if check is not None:
        ordered = {name: np.asarray(arrays[name]) if name in columnwise else ready[name] for name in ready}
        _check_readable(path, ordered, header, check)
    document: list[bytes | memoryview] = [header, *(_bytes(ready[name]) for name in order)]
    kind, mark = (PLAIN, 0) if secret is None else (SIGNED, fingerprint(secret))
    start = FRAME.pack(MAGIC, FORMAT, kind, length, mark, b"")[:START]
    digest = digest_of(secret, start)
    for piece in document:
        digest.update(piece)
    return [start + digest.digest(), *document]


def _check_readable(path: Any, arrays: dict[str, np.ndarray], header: bytes, check: Check) -> None:
    """Refuse to write what a later run could not read: its own checks, on the header as bytes and on the arrays."""
    reader = _Reader(str(path), io.BytesIO(header), len(header), None)
    _, _, facts = reader.header(len(header) + sum(array.nbytes for array in arrays.values()))
    try:
        check(arrays, facts)
    except CheckpointError as error:
        raise CheckpointError(
            f"{path}: nothing was written, because a later run could not read it: {error} An earlier file is as it "
            "was. Please report this, with the rows if you can."
        ) from error


def _bytes(array: np.ndarray) -> memoryview:
    return array.reshape(-1).data.cast("B") if array.size else memoryview(bytearray())


def _plain_array(path: Any, name: str, array: np.ndarray) -> np.ndarray:
    """Return an array in little-endian byte order, one row after the other."""
    if not isinstance(name, str) or name == "__metadata__":
        raise CheckpointError(f"{path}: an array cannot be named {name!r}. Give it another name.")
    array = np.asarray(array)
    plain = array.dtype.newbyteorder("<")
    if plain not in NAMES or array.ndim > MOST_AXES:
        raise CheckpointError(
            f"{path}: the array {name!r} has dtype {array.dtype} and {array.ndim} axes; a checkpoint holds booleans, "
            f"integers and floats of 8 to 64 bits, up to {MOST_AXES} axes. Convert it first."
        )
    return np.ascontiguousarray(array, dtype=plain).reshape(array.shape)


def _header(path: Any, arrays: Mapping[str, np.ndarray], order: list[str], inner: Mapping[str, Any]) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"kampong": _dump(_plain_facts(path, inner, ""))}}
    start = 0
    for name in order:
        array = arrays[name]
        stop = start + array.nbytes
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [start, stop]}
        start = stop
    text = _dump(header).encode("ascii")
    text += b" " * (-len(text) % 8)
    if len(text) > LARGEST_HEADER:
        raise CheckpointError(
            f"{path}: the facts and names take {len(text)} bytes, past the limit of {LARGEST_HEADER}. Put long lists "
            "into arrays."
        )
    return struct.pack("<Q", len(text)) + text


def _dump(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _plain_facts(path: Any, value: Any, where: str, depth: int = 0) -> Any:
    """Return a value as JSON, its keys sorted; refuse a value that would be read back as something else."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if depth < 32:
        if isinstance(value, list | tuple):
            return [_plain_facts(path, item, f"{where}[{place}]", depth + 1) for place, item in enumerate(value)]
        if hasattr(value, "items") and all(isinstance(key, str) for key in value):
            return {
                key: _plain_facts(path, item, f"{where}.{key}".lstrip("."), depth + 1)
                for key, item in sorted(value.items())
            }
    raise CheckpointError(
        f"{path}: {where} is {value!r:.100}, which a checkpoint cannot hold. Facts are None, booleans, finite numbers, "
        "strings, lists, and dictionaries with strings as keys."
    )


# Reading.


def read(path: str | os.PathLike[str], *, key: Key = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and facts of a file that `write` has written, every byte of it verified.

    Parameters
    ----------
    path : str or path
        The file.
    key : bytes, str or path, optional
        The key that the file was signed with, or the file that holds it. A signed file is refused without its key,
        and with a key per file is refused that is not signed with it.

    Returns
    -------
    arrays : dict of str to array
        As they were written: names, dtypes, shapes, memory order and bits.
    facts : dict of str to JSON
        As they were written.
    """
    secret = key_bytes(key)
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise CheckpointError(f"{path}: this is not a regular file. Name a checkpoint file.")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return _Reader(str(path), file, os.fstat(descriptor).st_size, secret).contents()
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CheckpointError(
            f"{path}: the checkpoint could not be read ({error.strerror or error}). Check the path and its permissions."
        ) from error


def decode(data: bytes, *, key: Key = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and facts in bytes that `encode` has made, verified as those of a file.

    Parameters
    ----------
    data : bytes
        The bytes.
    key : bytes, str or path, optional
        The key that they were signed with, or the file that holds it.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"{IN_MEMORY}: got a {type(data).__name__}. Give the bytes that `to_bytes` has returned.")
    return _Reader(IN_MEMORY, io.BytesIO(data), memoryview(data).nbytes, key_bytes(key)).contents()


class _Reader:
    """An open file of known size, and what is known of it so far."""

    def __init__(self, path: str, file: BufferedReader | io.BytesIO, size: int, key: bytes | None) -> None:
        self.path, self.file, self.size, self.key = path, file, size, key
        self.again: Digest | None = None

    def contents(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        length, expected = self._check_frame()
        places, columnwise, facts = self.header(length)
        try:
            arrays = self._arrays(places)
            if self.again is not None and not hmac.compare_digest(self.again.digest(), expected):
                self._refuse("it was changed while it was read")
            arrays.update({name: np.asfortranarray(arrays[name]) for name in columnwise})
        except MemoryError:
            raise CheckpointError(f"{self.path}: {length} bytes do not fit into memory. {TOO_LARGE}") from None
        return arrays, facts

    def header(self, length: int) -> tuple[list[_Place], list[str], dict[str, Any]]:
        """Return where the arrays of a document of this length lie, those stored by columns, and the facts."""
        size = int.from_bytes(self._take(8), "little")
        if size > min(LARGEST_HEADER, length - 8):
            self._refuse(f"its header claims {size} bytes")
        header = self._json(self._take(size))
        metadata = header.pop("__metadata__", None)
        if not isinstance(metadata, dict) or set(metadata) != {"kampong"} or not isinstance(metadata["kampong"], str):
            self._refuse("its header holds no facts")
        inner = self._json(metadata["kampong"].encode("utf-8", "surrogatepass"))
        if set(inner) != {"facts", "columnwise"} or not isinstance(inner["facts"], dict):
            self._refuse("its header holds no facts")
        columnwise = inner["columnwise"]
        if not isinstance(columnwise, list) or any(type(name) is not str or name not in header for name in columnwise):
            self._refuse("it names arrays that it does not hold")
        if len(set(columnwise)) < len(columnwise):
            self._refuse("it names an array twice")
        return self._places(header, length - 8 - size), columnwise, inner["facts"]

    def _check_frame(self) -> tuple[int, bytes]:
        """Return the length of the document and the digest of the whole file, once it is right."""
        size = self.size
        frame = self.file.read(FRAME.size)
        if frame[:8] != MAGIC:
            raise CheckpointError(
                f"{self.path}: this is not a model file of kampong ({size} bytes that begin with {frame[:8]!r}). Name "
                "a file that `save` or `kampong learn` has written; pickles and archives are never opened."
            )
        if len(frame) < FRAME.size:
            self._refuse(f"it ends after {size} bytes")
        _, version, kind, length, mark, expected = FRAME.unpack(frame)
        if size > LARGEST_FILE:
            self._refuse(f"it has {size} bytes, past the limit of {LARGEST_FILE}")
        if size != FRAME.size + length:
            self._refuse(f"it has {size} bytes, and its frame says {FRAME.size + length}")
        self._check_key(kind, mark)
        digest = digest_of(self.key, frame[:START])
        while block := self.file.read(BLOCK):
            digest.update(block)
        if not hmac.compare_digest(digest.digest(), expected):
            self._refuse(f"its {'digest' if self.key is None else 'signature'} is wrong")
        if version > FORMAT:
            raise CheckpointError(
                f"{self.path}: this checkpoint has format {version}, and this kampong reads formats up to {FORMAT}. "
                "Install a newer kampong to load it."
            )
        if version < 1 or (self.key is None and (kind or mark)) or length < 8:
            self._refuse("its frame is not one that kampong writes")
        self.file.seek(FRAME.size)
        if self.key is not None:  # what is used must be what was signed, also where someone writes to the file
            self.again = digest_of(self.key, frame[:START])
        return int(length), expected

    def _check_key(self, kind: int, mark: int) -> None:
        """Refuse a signed file without its key, and with a key what is not signed with it."""
        signed = kind == SIGNED and mark != 0
        if signed and self.key is None:
            raise CheckpointError(
                f"{self.path}: this checkpoint is signed, with the key of fingerprint {mark:016x}. It is opened with "
                "that key alone: key= in Python, --key FILE on the command line."
            )
        if self.key is None:
            return
        if not signed:
            raise CheckpointError(
                f"{self.path}: this checkpoint is not signed, and a key was given, so anyone may have written it. Get "
                "the signed file. If you trust this one, open it without the key."
            )
        if mark != fingerprint(self.key):
            raise CheckpointError(
                f"{self.path}: this checkpoint is signed with another key, of fingerprint {mark:016x}; the key that "
                f"was given has {fingerprint(self.key):016x}. Give the key that it was signed with."
            )

    def _places(self, header: dict[str, Any], length: int) -> list[_Place]:
        """Return the places of all arrays, one behind the other; offsets that leave a gap or overlap are refused."""
        places = sorted((self._entry(name, entry) for name, entry in header.items()), key=lambda place: place[:2])
        end = 0
        for place in places:
            if place.start != end:
                self._refuse(f"the array {place.name!r} begins at byte {place.start}, expected {end}")
            end = place.stop
        if end != length:
            self._refuse(f"its arrays end at byte {end} of {length}")
        return places

    def _arrays(self, places: list[_Place]) -> dict[str, np.ndarray]:
        """Read all arrays."""
        arrays = {}
        for _, _, name, dtype, shape in places:
            array = np.empty(shape, dtype=dtype)
            view = _bytes(array)
            if self.file.readinto(view) != len(view):
                self._refuse("it became shorter while it was read")
            if self.again is not None:
                self.again.update(view)
            if dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
                self._refuse(f"the array {name!r} holds booleans other than 0 and 1")
            arrays[name] = array
        return arrays

    def _entry(self, name: str, entry: Any) -> _Place:
        """Return the place of an array, if its dtype and shape agree on its size."""
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            self._refuse(f"it does not describe the array {name!r}")
        code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(code, str) or code not in DTYPES:
            self._refuse(f"the array {name!r} has the dtype {code!r:.40}, which is none of {', '.join(DTYPES)}")
        dtype = np.dtype(DTYPES[code])
        for numbers in (shape, offsets):
            if not isinstance(numbers, list) or any(type(n) is not int or not 0 <= n < 2**48 for n in numbers):
                self._refuse(f"the array {name!r} has a shape or place that is not a list of counts")
        size = math.prod(shape) * dtype.itemsize
        if len(shape) > MOST_AXES or len(offsets) != 2 or offsets[1] - offsets[0] != size:
            self._refuse(f"the array {name!r} of {code} and shape {tuple(shape)} has the place {offsets}")
        if math.prod(n or 1 for n in shape) * dtype.itemsize >= 2**62:
            self._refuse(f"the array {name!r} has the shape {tuple(shape)}")
        return _Place(offsets[0], offsets[1], name, dtype, tuple(shape))

    def _json(self, text: bytes) -> dict[str, Any]:
        def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            found = dict(pairs)
            if len(found) < len(pairs):
                raise ValueError("a name appears twice")
            return found

        def finite(number: str) -> float:
            if not math.isfinite(value := float(number)):
                raise ValueError(f"{number} is not finite")
            return value

        try:
            decoded = text.decode("utf-8", "surrogatepass")
            value = json.loads(decoded, object_pairs_hook=distinct, parse_float=finite, parse_constant=finite)
        except (ValueError, RecursionError) as error:
            self._refuse(f"its header is not valid JSON ({str(error)[:100]})")
        if not isinstance(value, dict):
            self._refuse("its header is not a JSON object")
        return value

    def _take(self, count: int) -> bytes:
        found = self.file.read(count)
        if len(found) < count:
            self._refuse("it became shorter while it was read")
        if self.again is not None:
            self.again.update(found)
        return found

    def _refuse(self, reason: str) -> NoReturn:
        raise CheckpointError(f"{self.path}: the checkpoint is damaged: {reason}. {RESTORE}")
