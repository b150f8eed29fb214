"""Open connections to the streams of a broker: a feed that is read, a sink that is written to, messages that wait."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from kampong.streaming.errors import SourceError

AWAY = 60.0
"""Seconds that a server to which messages are written may be away."""

WRITE_AGAIN = "Check the address and the server, then start again: the run goes on from its last save."


Record = bytes | str
"""The record of a message, or in words why it has none."""


class Waiting:
    """The messages of a partition that were fetched and not taken: their records, and a mark of each."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._marks: list[Any] = []

    def __len__(self) -> int:
        return len(self._marks)

    def add(self, records: Sequence[Record], marks: Sequence[Any]) -> None:
        """Add messages after those that wait."""
        self._records += records
        self._marks += marks

    def take(self, count: int) -> tuple[list[Record], list[Any]]:
        """Remove the first messages; return their records and marks."""
        found = self._records[:count], self._marks[:count]
        del self._records[:count], self._marks[:count]
        return found


class Feed(ABC):
    """An open connection to the messages of a stream.

    Attributes
    ----------
    identity : str
        What tells the stream from others, wherever its server is.
    waiting : list of Waiting
        The messages of each partition that were fetched and not taken. What a mark is, only the feed knows.
    """

    identity: str
    waiting: list[Waiting]

    @abstractmethod
    def start(self, at: Sequence[Any], choice: str, *, ends: bool) -> list[Any]:
        """Begin to read.

        Parameters
        ----------
        at : sequence
            Where each partition goes on; those that are not in it begin with their first message.
        choice : {"", "earliest", "latest"}
            Where to go on if there is no such place, or if it has been dropped.
        ends : bool
            Whether to end with the messages that are there now.

        Returns
        -------
        list
            Where each partition goes on, found and checked.
        """

    @abstractmethod
    def fetch(self, seconds: float) -> None:
        """Add messages to those that wait; return after this many seconds if none come."""

    @abstractmethod
    def after(self, mark: Any) -> int | str:
        """Return where a partition goes on after a message."""

    @abstractmethod
    def number(self, mark: Any) -> int:
        """Return the number of a message in its partition."""

    @abstractmethod
    def key(self, partition: int, mark: Any) -> str:
        """Return what tells a message from all others of the stream."""

    @abstractmethod
    def over(self, partition: int) -> bool:
        """Tell whether a partition has nothing more that is to be read."""

    def show(self, at: Sequence[Any]) -> None:  # noqa: B027
        """Show in the server how far a saved model has come, where there is a way; called after `close` too."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


class Sink(ABC):
    """An open connection that writes messages to a stream, each with the key of the record that it is about."""

    @abstractmethod
    def begin(self, sent: int | None) -> int:
        """Begin to write.

        Parameters
        ----------
        sent : int or None
            What `flush` returned when the model was last saved: messages after it may be there and come again. None to
            write after what is there.

        Returns
        -------
        int
            How far the stream has come, as `flush` returns it.
        """

    @abstractmethod
    def send(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Send messages, each with its key; wait only if too many are on their way."""

    @abstractmethod
    def flush(self) -> int:
        """Wait until the server has all messages; return how far the stream has come."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


class Taken(Sequence[str]):
    """Messages in the order in which they are learnt; as a sequence, the key of each of them.

    Attributes
    ----------
    records : list of bytes or str
        Their records.
    marks : list
        Their marks.
    partitions : list of int
        Their partitions.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self.records: list[Record] = []
        self.marks: list[Any] = []
        self.partitions: list[int] = []

    def __len__(self) -> int:
        return len(self.marks)

    def __getitem__(self, i: Any) -> Any:
        return self._feed.key(self.partitions[i], self.marks[i])

    def take(self, order: Sequence[int], rounds: int) -> list[int | str]:
        """Take messages of each of these partitions, in turns; return where each of them goes on."""
        start, step = len(self), len(order)
        self.records += [b""] * (rounds * step)
        self.marks += [None] * (rounds * step)
        self.partitions += list(order) * rounds
        for i, partition in enumerate(order):
            some = slice(start + i, None, step)
            self.records[some], self.marks[some] = self._feed.waiting[partition].take(rounds)
        return [self._feed.after(one) for one in self.marks[-step:]]

    def number(self, i: int) -> int:
        """Return the number of a message in its partition."""
        return self._feed.number(self.marks[i])


def dropped(name: str, what: str) -> SourceError:
    """Return the error for a place that a server does not have any more."""
    return SourceError(
        f"{name}: the stream has dropped what comes after the place of this model ({what}), so messages may be lost. "
        "Go on with --from earliest (all that are still there) or --from latest (only those that come from now on)."
    )
