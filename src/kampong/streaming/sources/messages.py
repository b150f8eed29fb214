"""Messages of a broker as blocks of lines: one record each, partitions in turn, with the place of each of them."""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from kampong._core.extras import extra
from kampong.streaming import formats
from kampong.streaming.columns.records import Batch, Dead, shown
from kampong.streaming.errors import ResumeError, UsageError
from kampong.streaming.formats.format import LineFormat
from kampong.streaming.sources.address import Address
from kampong.streaming.sources.blocks import LATE, PAUSE, Block
from kampong.streaming.sources.connections import Taken
from kampong.streaming.sources.kind import Kind
from kampong.streaming.sources.positions import Position

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kampong.streaming.columns.schema import Schema
    from kampong.streaming.formats.format import AnyPlace, Format
    from kampong.streaming.sources.connections import Feed, Sink
    from kampong.streaming.sources.source import Source

STARTS = ("", "earliest", "latest")


class BrokerKind(Kind):
    """Streams of messages, each of which is a record."""

    options: ClassVar[tuple[str, ...]] = ("start",)

    @abstractmethod
    def connect(self, source: Source, address: Address) -> Feed:
        """Connect to a stream."""

    @abstractmethod
    def connect_to_write(self, path: str, address: Address) -> Sink:
        """Connect to a stream that is written to."""

    def place_type(self, chosen: Format) -> type[AnyPlace]:
        """Return the place that such sources share."""
        return Position

    def sink(self, path: str) -> Sink:
        """Connect to a stream that is written to."""
        with extra(self.extra, f"{self.name}://"):
            return self.connect_to_write(path, Address.of(path))

    def format(self, source: Source) -> str:
        """Return the format that was stated; otherwise JSON."""
        lines = [one for one in map(formats.get, formats.names()) if isinstance(one, LineFormat)]
        return self.stated(source, "jsonl", tuple(one.name for one in lines if not one.quoted(source)))

    def inputs(self, source: Source) -> list[str]:
        """Return the stream, which predictions must not go to."""
        return [source.path]

    def parser(self, chosen: Format) -> Callable[[Schema, Any], Batch]:
        """Return what makes rows and dead letters of messages."""
        return partial(parse_messages, chosen)

    def check(self, source: Source) -> None:
        """Refuse options that do not belong to it."""
        super().check(source)
        if source.start not in STARTS:
            raise UsageError(f"--from must be earliest or latest; got {source.start!r}.")
        self.check_to_write(source.path)

    def check_to_write(self, path: str) -> None:
        """Refuse an address that names no stream."""
        address = Address.of(path)
        if not (address.server and address.path):
            raise UsageError(f"{path}: host and stream are needed, as in {self.example}.")

    def open(
        self, source: Source, chosen: Format, place: Mapping[str, Any] | None, stop: threading.Event | None
    ) -> Messages:
        """Open a stream at a place, or at its start."""
        with extra(self.extra, f"{self.name}://"):
            return Messages(source, self.connect(source, Address.of(source.path)), place, stop)


@dataclass(frozen=True)
class MessageBlock(Block):
    """Messages as lines, and those that cannot be lines.

    Attributes
    ----------
    usable : sequence of int
        Which of the messages the lines are.
    unusable : tuple of Dead
        The other messages.
    taken : Taken, optional
        All of them.
    """

    usable: Sequence[int] = ()
    unusable: tuple[Dead, ...] = ()
    taken: Taken | None = None

    @property
    def blank(self) -> bool:
        """Whether it holds no messages."""
        return not (self.usable or self.unusable)

    @property
    def begins(self) -> bool:
        """Whether it may hold a header: no message is one."""
        return False

    @property
    def count(self) -> int:
        """The number of lines."""
        return len(self.usable)

    def lines(self, spans: Sequence[tuple[int, int]] = ()) -> list[tuple[int, int, bytes]]:
        """Return each message: which one it is of this source, its number in its partition, and its bytes."""
        texts = self.data.removesuffix(b"\n").split(b"\n") if self.usable else []
        assert self.taken is not None
        number = self.taken.number
        return [(self.line + i + 1, number(i), text) for i, text in zip(self.usable, texts, strict=True)]


class Messages:
    """The messages of a stream from a place on, in parts whose size depends only on the messages before."""

    def __init__(
        self, source: Source, feed: Feed, place: Mapping[str, Any] | None, stop: threading.Event | None
    ) -> None:
        self.name, self._feed, self._stop, self._follow = source.path, feed, stop, source.follow
        self._most = source.layout.max_record_bytes
        try:
            self.place = Position.entering(place, feed.identity, self.name, again=source.known is None)
            self._known, self._found = self.place.at != "[]", False
            if len(self.place.values) > len(feed.waiting):
                raise ResumeError(f"{self.name}: the stream has fewer partitions than this model has read.")
            self._at = feed.start(self.place.values, source.start, ends=not source.follow)
        except BaseException:
            feed.close()
            raise

    @property
    def skipped(self) -> list[str]:
        """The source, if all its messages were read before."""
        return [self.name] if self._known and not self._found else []

    def saved(self, place: Mapping[str, Any]) -> None:
        """Show in the server the place of a model that was saved."""
        if place["source"] == self._feed.identity:
            self._feed.show(json.loads(place["at"]))

    def close(self) -> None:
        """Close the connection."""
        self._feed.close()

    def __iter__(self) -> Iterator[MessageBlock]:
        while (taken := self._take()) is not None:
            yield self._block(*taken)

    def _take(self) -> tuple[Taken, int] | None:
        """Return messages, one of each partition in turn, and whose turn is next; None at the end.

        A partition that has nothing yet is waited for, so that the order is the same in every run. Only a followed
        stream passes over it, after a second.
        """
        taken = Taken(self._feed)
        waiting, turn, missed = self._feed.waiting, self.place.turn, 0
        late, wanted = time.monotonic() + LATE, self.place.size
        while len(taken) < wanted:
            order = [i for i in (*range(turn, len(waiting)), *range(turn)) if waiting[i] or not self._feed.over(i)]
            rounds = min((len(waiting[i]) for i in order), default=0)
            if order and (rounds := min(rounds, (wanted - len(taken)) // len(order))):
                for i, after in zip(order, taken.take(order, rounds), strict=True):
                    self._at[i] = after
                turn, missed = (order[-1] + 1) % len(waiting), 0
                continue
            if waiting[turn]:
                (self._at[turn],), missed = taken.take([turn], 1), 0
            elif self._feed.over(turn) or (self._follow and (missed or time.monotonic() >= late)):
                missed += 1
            else:
                if self._stop is not None and self._stop.is_set():
                    return None
                self._feed.fetch(PAUSE)
                continue
            turn = (turn + 1) % len(waiting)
            if missed >= len(waiting):
                if taken or not self._follow:
                    break
                if self._stop is not None and self._stop.is_set():
                    return None
                self._feed.fetch(PAUSE)
                missed = 0
        return (taken, turn) if taken else None

    def _block(self, taken: Taken, turn: int) -> MessageBlock:
        """Return messages as a block, with the place after them."""
        before, self.place, self._found = self.place, self.place.after(len(taken), self._at, turn), True
        lines, usable, dead = self._lines(taken, before.in_source)
        data = b"\n".join(lines) + b"\n" if lines else b""
        if data.count(b"\n") > len(lines):
            # A message is one record: a line break in it is a space, as between the parts of a JSON object.
            data = b"\n".join(line.replace(b"\n", b" ") for line in lines) + b"\n"
        end = cast("Any", self.place)
        return MessageBlock(data, 0, before.in_source, end, usable=usable, unusable=tuple(dead), taken=taken)

    def _lines(self, taken: Taken, before: int) -> tuple[Sequence[bytes], Sequence[int], list[Dead]]:
        """Return records that can be lines, which of the messages they are, and dead letters for the others."""
        lines = [one for one in taken.records if isinstance(one, bytes)]
        if len(lines) == len(taken) and all(map(bytes.strip, lines)) and max(map(len, lines)) <= self._most:
            return lines, range(len(lines)), []
        lines, usable, dead = [], [], []
        for i, one in enumerate(taken.records):
            data = b"" if isinstance(one, str) else one
            wrong = one if isinstance(one, str) else ""
            if not data.strip():
                wrong = wrong or "the message is empty"
            elif len(data) > self._most:
                wrong = f"the message has {len(data):,} bytes, more than a record may have"
            if wrong:
                dead.append(Dead(i, before + i + 1, taken.number(i), wrong, shown(data)))
            else:
                lines.append(data)
                usable.append(i)
        return lines, usable, dead


def parse_messages(chosen: Format, schema: Schema, part: MessageBlock) -> Batch:
    """Return the records of messages; every message is a row or a dead letter.

    Parameters
    ----------
    chosen : Format
        The format of the messages.
    schema : Schema
        What each column is.
    part : MessageBlock
        The messages.

    Returns
    -------
    Batch
        As many records as there are messages.
    """
    which, keys = np.array(part.usable, dtype=np.int64), part.taken or ()
    if not len(which):
        return Batch(None, None, which, list(part.unusable), len(part.unusable), keys=keys)
    batch = chosen.parse(schema, part)
    if batch.records != len(which):  # such as a comment, which is no record in a file
        return parse_messages(chosen, schema, _without_comments(chosen, schema, part))
    dead = [*part.unusable, *(one._replace(record=int(which[one.record])) for one in batch.dead)]
    batch.good, batch.dead, batch.records = which[batch.good], sorted(dead), len(which) + len(part.unusable)
    batch.keys = keys
    return batch


def _without_comments(chosen: Format, schema: Schema, part: MessageBlock) -> MessageBlock:
    """Return a block in which the messages that are not one record each are among the unusable ones."""
    lines, usable, dead = [], [], list(part.unusable)
    for i, (line, number, text) in zip(part.usable, part.lines(), strict=True):
        one = replace(part, data=text + b"\n", usable=(i,), unusable=())
        if chosen.parse(schema, one).records == 1:
            lines.append(text + b"\n")
            usable.append(i)
        else:
            dead.append(Dead(i, line, number, f"the message is not one record of {chosen.name}", shown(text)))
    data = b"".join(lines)
    return replace(part, data=data, usable=usable, unusable=tuple(dead))
