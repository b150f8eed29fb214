"""Streams of Redis: entries with a field of one record each, or whose fields are the columns; predictions too."""

from __future__ import annotations

import importlib
import itertools
import os
import re
import time
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from kampong.streaming.errors import OutputError, ResumeError, SourceError, UsageError
from kampong.streaming.sources.blocks import PAUSE
from kampong.streaming.sources.connections import AWAY, WRITE_AGAIN, Feed, Record, Sink, Waiting, dropped
from kampong.streaming.sources.messages import BrokerKind
from kampong.streaming.sources.positions import LARGEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kampong.streaming.sources.address import Address
    from kampong.streaming.sources.source import Source

START = "0-0"
FIELD = b"data"
NUMBER = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class RedisFeed(Feed):
    """The entries of a stream."""

    def __init__(self, name: str, address: Address, field: str) -> None:
        self._redis: Any = importlib.import_module("redis")
        self._name, self._key, self._field = name, address.path, field.encode()
        self._client = _client(name, address)
        self._client.set_response_callback("XRANGE", lambda entries, **_: entries)  # without a dictionary for each
        self.identity, self.waiting = f"redis {self._key}", [Waiting()]
        self._last, self._end, self._over, self._choice = START, "+", False, ""

    def start(self, at: Sequence[Any], choice: str, *, ends: bool) -> list[Any]:
        """Begin to read."""
        self._choice = choice
        try:
            newest = self._newest()
            self._last = str(at[0]) if at else newest if choice == "latest" else START
            self._end = newest if ends else "+"
            self._read(1)  # a place that was dropped is noticed now
        except self._redis.RedisError as error:
            raise SourceError(f"{self._name}: {_reason(error)}. Check the address, and that the server runs.") from None
        self._over = ends and newest == self._last
        return [self._last]

    def _newest(self) -> str:
        last = self._client.xrevrange(self._key, count=1)
        return str(last[0][0].decode()) if last else START

    def fetch(self, seconds: float) -> None:
        """Add entries to those that wait, or sleep; a server that is gone is asked again."""
        try:
            found = self._read(LARGEST)
        except (self._redis.ConnectionError, self._redis.TimeoutError):
            time.sleep(seconds)
            return
        except self._redis.RedisError as error:
            raise SourceError(f"{self._name}: {_reason(error)}.") from None
        if found:
            self._last = found[-1][0].decode()
            self.waiting[0].add([self._record(fields) for _, fields in found], [key for key, _ in found])
        if not found and self._end != "+":
            self._over = True
        elif not found:
            time.sleep(seconds)
        else:
            self._over = self._last == self._end

    def _read(self, count: int) -> list[Any]:
        """Return the entries after the last one, which must still be there: else others may have gone with it."""
        if self._last == START:
            return list(self._client.xrange(self._key, min="-", max=self._end, count=count))
        found = self._client.xrange(self._key, min=self._last, max="+", count=count + 1)
        if found and found[0][0].decode() == self._last:
            if self._end == "+" or _order(found[-1][0]) <= _order(self._end.encode()):
                return list(found[1:])
            return [one for one in found[1:] if _order(one[0]) <= _order(self._end.encode())]
        if not self._choice:
            raise dropped(self._name, f"the entry {self._last}")
        if self._choice == "latest":
            self._last = self._newest()
            return []
        return list(found[:count])

    def _record(self, fields: Sequence[bytes]) -> Record:
        """Return the record of an entry, whose fields are names and values in turn, or what is wrong with it."""
        name = self._field or FIELD
        if len(fields) == 2 and fields[0] == name:
            return fields[1]
        of = dict(zip(fields[::2], fields[1::2], strict=True))
        if name in of:
            return of[name]
        return f"the entry has no field {name.decode('utf-8', 'replace')!r}" if self._field else _as_object(of)

    def after(self, mark: Any) -> str:
        """Return the id of an entry."""
        return str(mark.decode())

    def number(self, mark: Any) -> int:
        """Return the first part of the id of an entry."""
        return _order(mark)[0]

    def key(self, partition: int, mark: Any) -> str:
        """Return the stream and the id of an entry."""
        return f"{self._key}-{mark.decode()}"

    def over(self, partition: int) -> bool:
        """Tell whether all entries that were there have been fetched."""
        return self._over

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class RedisSink(Sink):
    """Entries of a stream with the fields `key` and `data`; their ids are whole numbers that count on.

    What was sent after the model was last saved is found by its keys, so that a replay sends nothing twice.
    """

    def __init__(self, name: str, address: Address) -> None:
        self._redis: Any = importlib.import_module("redis")
        self._name, self._key, self._client = name, address.path, _client(name, address)
        self._last, self._there = 0, dict[str, int]()

    def begin(self, sent: int | None) -> int:
        """Begin to write after what is there."""
        last = self._ask(self._newest, patience=0.0)
        if sent is not None and last < sent:
            raise ResumeError(
                f"{self._name}: the stream has come to entry {last:,}, and {sent:,} had been written when the model "
                "was last saved. Put the stream back, or start a new model with another --model."
            )
        at = last if sent is None else sent
        while at < last:
            found = self._ask(lambda at=at: self._client.xrange(self._key, min=f"{at + 1}-0", count=LARGEST))
            if not found:
                break
            for entry, fields in found:
                at = int(entry.partition(b"-")[0])
                self._there[fields.get(b"key", b"").decode("utf-8", "replace")] = at
        self._last = last
        return last if sent is None else sent

    def _newest(self) -> int:
        """Return the number of the newest entry that the stream has had."""
        if not self._client.exists(self._key):
            return 0
        return int(self._client.xinfo_stream(self._key)["last-generated-id"].partition(b"-")[0])

    def _ask(self, work: Any, patience: float | None = None) -> Any:
        """Ask the server, which may be away for this many seconds."""
        end = time.monotonic() + (AWAY if patience is None else patience)
        while True:
            try:
                return work()
            except (self._redis.ConnectionError, self._redis.TimeoutError) as error:
                gone = isinstance(error, self._redis.AuthenticationError) or time.monotonic() >= end
                if gone:
                    raise OutputError(f"{self._name}: {_reason(error)}. {WRITE_AGAIN}") from None
                time.sleep(PAUSE)
            except self._redis.RedisError as error:
                raise OutputError(f"{self._name}: {_reason(error)}. {WRITE_AGAIN}") from None

    def send(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Send messages, except those that are there."""
        fresh = [one for one in messages if self._there.pop(one[0], None) is None] if self._there else messages
        for start in range(0, len(fresh), LARGEST):
            some = fresh[start : start + LARGEST]
            tries = itertools.count()
            self._ask(lambda some=some, tries=tries: self._add(some, next(tries) > 0))
            self._last += len(some)

    def _add(self, messages: Sequence[tuple[str, bytes]], again: bool) -> None:
        """Send messages with the numbers that follow; those that arrived before the connection broke stay."""
        with self._client.pipeline(transaction=False) as pipe:
            for i, (key, data) in enumerate(messages):
                pipe.xadd(self._key, {"key": key, "data": data}, id=f"{self._last + 1 + i}-0")
            found = pipe.execute(raise_on_error=False)
        for one in found:
            if isinstance(one, Exception) and not (again and "equal or smaller" in str(one)):
                raise one

    def flush(self) -> int:
        """Return the number of the newest entry before all that are there and did not come again yet."""
        return next(iter(self._there.values()), self._last + 1) - 1

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class RedisStream(BrokerKind):
    """Streams of Redis, or of a server that speaks its protocol."""

    name, example = "redis", "redis://host:6379/stream"
    place = "the id of the last entry"
    extra, packages = "redis", ("redis",)
    options: ClassVar[tuple[str, ...]] = ("start", "field")

    def connect(self, source: Source, address: Address) -> RedisFeed:
        """Connect to a stream."""
        return RedisFeed(source.path, address, source.field or address.options.get("field", ""))

    def connect_to_write(self, path: str, address: Address) -> RedisSink:
        """Connect to a stream that is written to."""
        return RedisSink(path, address)


REDIS = RedisStream()


def _client(name: str, address: Address) -> Any:
    """Return a client; credentials come from REDIS_PASSWORD or REDISCLI_AUTH, and REDIS_USERNAME."""
    host, _, port = address.server.partition(":")
    if not port.isdigit() and port:
        raise UsageError(f"{name}: {port!r} is no port. Write redis://host:6379/stream.")
    return importlib.import_module("redis").Redis(
        host=host,
        port=int(port or 6379),
        db=int(address.options.get("db", 0)),
        ssl=address.options.get("tls", "") == "yes",
        username=os.environ.get("REDIS_USERNAME"),
        password=os.environ.get("REDIS_PASSWORD") or os.environ.get("REDISCLI_AUTH"),
    )


def _reason(error: Exception) -> str:
    """Return what an error says, without the full stop that some of them have."""
    return str(error).rstrip(".")


def _order(key: bytes) -> tuple[int, int]:
    """Return an id as two numbers, which are in the order of the entries."""
    first, _, second = key.partition(b"-")
    return int(first), int(second or 0)


def _as_object(fields: Mapping[bytes, bytes]) -> bytes:
    """Return the fields of an entry as a JSON object; what is written as a number is one."""
    values = {
        name.decode("utf-8", "replace"): msgspec.Raw(value)
        if NUMBER.fullmatch(value)
        else value.decode("utf-8", "replace")
        for name, value in fields.items()
    }
    return msgspec.json.encode(values)
