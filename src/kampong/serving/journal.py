"""The journal of a model that learns from requests: what was acknowledged, on the disk before the answer.

It lies next to the model file and holds the requests since the model was last saved, one line each with a digest, and
the answers to the latest requests that had an id. Appending waits until the disk has the lines (fsync). After a kill
the requests are read again; a last line that was cut short was never acknowledged, and is dropped. When the model has
been saved, what it holds leaves the journal.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kampong.files.model_errors import CheckpointError
from kampong.files.replace import replacing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REMEMBERED = 10_000
"""Answers to requests with an id that are kept, the latest ones: so long a client may send a request again."""

DIGEST = 16
VERSION = 1


@dataclass(frozen=True)
class Entry:
    """One request that changed the model.

    Attributes
    ----------
    number : int
        Its place among all requests that the model has learnt, from 1.
    action : str
        "learn", "unlearn" or "merge".
    kind : str
        How the body is read.
    body : bytes
        What was sent.
    request : str
        The id that the client gave, "" without one.
    answer : dict
        What a request with an id was answered.
    """

    number: int
    action: str
    kind: str
    body: bytes
    request: str = ""
    answer: dict[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """A digest of what was asked, by which a repeated request is told from another one with its id."""
        return digest_of(self.action, self.kind, self.body)


class Answered(NamedTuple):
    """What a request with an id was, and what it was answered."""

    digest: str
    answer: dict[str, Any]


def digest_of(action: str, kind: str, body: bytes) -> str:
    """Return a digest of a request."""
    return hashlib.blake2b(f"{action} {kind} ".encode() + body, digest_size=DIGEST).hexdigest()


class Journal:
    """The journal of one model file; one process at a time may have it.

    Parameters
    ----------
    path : str
        The file, which is read, or made again.
    held : mapping or None
        What the model file says of its journal: "id", and "number" of the last request that the model holds.

    Attributes
    ----------
    entries : list of Entry
        The requests that the model file does not hold yet.
    answers : ordered mapping of str to Answered
        The latest requests with an id that the model file holds.
    """

    def __init__(self, path: str, held: Mapping[str, Any] | None) -> None:
        self.path = path
        self.entries: list[Entry] = []
        self.answers: OrderedDict[str, Answered] = OrderedDict()
        self._file: io.FileIO | None = None
        found = self._read()
        known = held_by(held, path)
        if found is None:
            self.id, self.base = known or (secrets.token_hex(DIGEST), 0)
        else:
            self.id, self.base = found
            self._skip_held(known)
        self.number = self.entries[-1].number if self.entries else self.base
        self.compact(self.base, self.answers)

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return self._end

    def held(self, number: int) -> dict[str, Any]:
        """Return what a model file says that holds the requests up to a number."""
        return {"id": self.id, "number": number}

    def append(self, entries: Sequence[Entry]) -> None:
        """Write requests to the disk; when this returns, they survive a kill and a power cut."""
        assert self._file is not None
        try:
            self._cut_back()  # an earlier append may have failed half way
            data = memoryview(b"".join(_line(_entry_state(one)) for one in entries))
            while data:
                data = data[self._file.write(data) :]
            os.fsync(self._file.fileno())
        except OSError:
            self._cut_back()
            raise
        self._end = self._file.tell()
        self.entries += entries
        self.number = entries[-1].number

    def compact(self, number: int, answers: Mapping[str, Answered]) -> None:
        """Drop the requests up to a number, which the model file holds now, and keep the answers to them.

        Parameters
        ----------
        number : int
            The last request that the model file holds.
        answers : mapping of str to Answered
            The requests with an id, and their answers; those that stay in the journal may be among them.
        """
        rest = [one for one in self.entries if one.number > number]
        again = {one.request for one in rest}
        Path(self.path).touch(mode=0o600)  # it holds rows; an earlier file keeps its permissions
        kept = {name: one for name, one in answers.items() if name not in again}
        self.answers = OrderedDict(list(kept.items())[-REMEMBERED:])
        with replacing(Path(self.path)) as file:
            file.write(_line({"journal": VERSION, "id": self.id, "number": number}))
            for name, one in self.answers.items():
                file.write(_line({"request": name, "digest": one.digest, "answer": one.answer}))
            for entry in rest:
                file.write(_line(_entry_state(entry)))
        self.close()
        self._file = io.FileIO(self.path, "r+")
        self._end = self._file.seek(0, os.SEEK_END)
        self.entries, self.base = rest, number

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    # How.

    def _read(self) -> tuple[str, int] | None:
        """Read the file; return its id and the number before its first request, None where there is no file."""
        try:
            data = Path(self.path).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CheckpointError(
                f"{self.path}: {error.strerror}. This is the journal of the model; let this user read and write it."
            ) from None
        records, lines = [], data.split(b"\n")
        for place, line in enumerate(lines[:-1]):
            record = _record(line)
            if record is None:
                if any(_record(later) is not None for later in lines[place + 1 :]):
                    self._refuse(f"its line {place + 1} is damaged, and others follow it")
                break  # it was cut short by a kill, and never acknowledged
            records.append(record)
        return self._take(records)

    def _take(self, records: list[dict[str, Any]]) -> tuple[str, int]:
        """Take the first line, answers and requests."""
        first = records[0] if records else {}
        if first.get("journal") != VERSION or not isinstance(first.get("id"), str):
            self._refuse("its first line is not that of a journal")
        base = number = first["number"]
        for record in records[1:]:
            if "action" not in record:
                self.answers[record["request"]] = Answered(record["digest"], record["answer"])
                continue
            entry = _entry(record)
            number += 1
            if entry.number != number:
                self._refuse(f"request {number} is missing")
            self.entries.append(entry)
        return first["id"], base

    def _skip_held(self, known: tuple[str, int] | None) -> None:
        """Leave out the requests that the model file holds; refuse a model file that is not that of the journal."""
        last = self.entries[-1].number if self.entries else self.base
        if known is not None and known[0] == self.id:
            number = known[1]
            if not self.base <= number <= last:
                self._refuse(
                    f"the model file holds the first {number} requests, and the journal those from {self.base + 1} to "
                    f"{last}"
                )
            for one in self.entries:
                if one.number <= number and one.request:  # saved, and killed before the journal was told
                    self.answers[one.request] = Answered(one.digest, one.answer)
            self.entries = [one for one in self.entries if one.number > number]
            self.base = number
        elif self.entries:
            self._refuse(
                f"it holds {len(self.entries)} acknowledged requests, and the model file was replaced by one that does "
                "not belong to it"
            )
        else:
            self.base = last

    def _refuse(self, what: str) -> None:
        raise CheckpointError(
            f"{self.path}: this journal cannot be used: {what}. Put back the model file or the journal that belong "
            "together; or move the journal away, which drops what it holds."
        )

    def _cut_back(self) -> None:
        """Remove what an append has begun to write."""
        assert self._file is not None
        self._file.seek(self._end)
        self._file.truncate()


def held_by(held: Mapping[str, Any] | None, path: str) -> tuple[str, int] | None:
    """Return id and number of what a model file says of its journal, checked; None where it says nothing."""
    if held is None:
        return None
    if not isinstance(held, dict) or set(held) != {"id", "number"}:
        raise CheckpointError(f"{path}: the model file says of its journal {held!r:.100}, which no server wrote.")
    name, number = held["id"], held["number"]
    if not isinstance(name, str) or type(number) is not int or number < 0:
        raise CheckpointError(f"{path}: the model file says of its journal {held!r:.100}, which no server wrote.")
    return name, number


def _entry_state(entry: Entry) -> dict[str, Any]:
    if entry.action == "merge":
        return {**vars(entry), "body": base64.b64encode(entry.body).decode()}
    return {**vars(entry), "body": entry.body.decode("utf-8", "surrogateescape")}


def _entry(record: dict[str, Any]) -> Entry:
    text = record["body"]
    body = base64.b64decode(text) if record["action"] == "merge" else text.encode("utf-8", "surrogateescape")
    return Entry(**{**record, "body": body})


def _line(record: dict[str, Any]) -> bytes:
    """Return a record as a line that begins with a digest of the rest."""
    data = json.dumps(record, separators=(",", ":")).encode("ascii")
    return hashlib.blake2b(data, digest_size=DIGEST).hexdigest().encode() + b" " + data + b"\n"


def _record(line: bytes) -> dict[str, Any] | None:
    """Return the record of a line, None for one that was cut short or damaged."""
    digest, _, data = line.partition(b" ")
    if hashlib.blake2b(data, digest_size=DIGEST).hexdigest().encode() != digest:
        return None
    found: dict[str, Any] = json.loads(data)
    return found
