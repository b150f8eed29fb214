"""Streams of NATS JetStream, read by their sequence numbers, and written to with a subject per record."""

from __future__ import annotations

import asyncio
import importlib
import os
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from kampong.streaming.errors import OutputError, SourceError
from kampong.streaming.sources.blocks import PAUSE
from kampong.streaming.sources.connections import AWAY, WRITE_AGAIN, Feed, Sink, Waiting, dropped
from kampong.streaming.sources.messages import BrokerKind

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from kampong.streaming.sources.address import Address
    from kampong.streaming.sources.source import Source

AT_ONCE = 1000  # messages of one request
PATIENCE = 10.0  # seconds that a server may take to answer
FORGOTTEN = 60.0  # seconds after which the server forgets a reader that is gone
NO_PART = {ord(one): f"%{ord(one):02X}" for one in "% .*>"}  # what a part of a subject must not hold


class Connection:
    """A client of a server, which works in a thread of its own.

    Credentials come from the environment: NATS_CREDS (a file), NATS_TOKEN, or NATS_USER and NATS_PASSWORD.
    """

    def __init__(self, address: Address) -> None:
        self._nats: Any = importlib.import_module("nats")
        self._api: Any = importlib.import_module("nats.js.api")
        self._stream = address.path
        scheme = "tls" if address.options.get("tls", "") == "yes" else "nats"
        self._servers = [f"{scheme}://{one}" for one in address.server.split(",")]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._client: Any = None
        self._js: Any = None

    def _failures(self) -> tuple[type[BaseException], ...]:
        return (self._nats.errors.Error, OSError, TimeoutError)

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do something in the thread of the client, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * PATIENCE)

    async def _connect(self) -> None:
        async def quiet(_: Exception) -> None:
            """Print nothing: a server that is gone is waited for."""

        given = {
            "user_credentials": os.environ.get("NATS_CREDS"),
            "token": os.environ.get("NATS_TOKEN"),
            "user": os.environ.get("NATS_USER"),
            "password": os.environ.get("NATS_PASSWORD"),
        }
        client = self._nats.NATS()
        self._client = client
        options = {name: value for name, value in given.items() if value}
        await asyncio.wait_for(
            client.connect(self._servers, allow_reconnect=False, error_cb=quiet, **options), PATIENCE
        )
        self._js = client.jetstream()

    def _info(self) -> Any:
        return self._wait(self._js.stream_info(self._stream))

    def _last_words(self) -> None:
        """Do what is to be done before the connection is closed."""

    def close(self) -> None:
        """Close the connection, and end the thread of the client."""
        if self._loop.is_closed():
            return
        if self._client is not None and self._client.is_connected:
            try:
                self._last_words()
                self._wait(self._client.close())
            except self._failures():
                pass
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()


class NatsFeed(Connection, Feed):
    """The messages of a stream."""

    def __init__(self, name: str, address: Address) -> None:
        super().__init__(address)
        self._name = name
        self.waiting = [Waiting()]
        self._next, self._over, self._choice = 1, False, ""
        self._end: int | None = None
        self._reader: Any = None
        self._delivered = 0
        try:
            self._wait(self._connect())
            self.identity = f"nats {self._stream} {self._created(self._info())}"
        except BaseException as error:
            self.close()
            if isinstance(error, self._failures()):
                raise SourceError(
                    f"{name}: {str(error) or 'no answer'}. Check the address, and that the server runs with "
                    "JetStream and has this stream."
                ) from None
            raise

    @staticmethod
    def _created(info: Any) -> str:
        """Return when a stream was made, which tells it from a later one of the same name."""
        return str(info.created)

    def start(self, at: Sequence[Any], choice: str, *, ends: bool) -> list[Any]:
        """Begin to read."""
        state = self._info().state
        self._choice = choice
        begin = state.last_seq + 1 if choice == "latest" else max(state.first_seq, 1)
        self._next = int(at[0]) if at else begin
        self._end = state.last_seq if ends else None
        self._check(state)
        self._note_end()
        return [self._next]

    def _check(self, state: Any) -> None:
        """Refuse a place that the stream has dropped, or has not come to."""
        if self._next > state.last_seq + 1 or (self._next < state.first_seq and state.first_seq > 1):
            if not self._choice:
                raise dropped(self._name, f"message {self._next:,}; it has {state.first_seq:,} to {state.last_seq:,}")
            self._next = state.first_seq if self._choice == "earliest" else state.last_seq + 1

    def fetch(self, seconds: float) -> None:
        """Add messages to those that wait; after an error connect again, and read on after the last message."""
        try:
            if self._reader is None:
                self._begin()
            found = self._wait(self._some(seconds))
        except SourceError:
            raise
        except self._failures():
            self._reader = None
            time.sleep(seconds)
            return
        self._add(found)

    def _begin(self) -> None:
        """Ask for the messages from the next one on."""
        if self._client is None or not self._client.is_connected:
            self._wait(self._connect())
        info = self._info()
        if not self.identity.endswith(self._created(info)):
            raise SourceError(f"{self._name}: the stream was removed and made again while it was read.")
        self._check(info.state)
        api = self._api
        config = api.ConsumerConfig(
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self._next,
            ack_policy=api.AckPolicy.NONE,
            inactive_threshold=FORGOTTEN,
        )
        self._reader = self._wait(self._js.pull_subscribe(">", stream=self._stream, config=config))
        self._delivered = 0

    async def _some(self, seconds: float) -> list[Any]:
        """Return messages; without any, see whether the server still knows us, and whether more are to come."""
        try:
            return list(await self._reader.fetch(AT_ONCE, timeout=seconds))
        except (TimeoutError, self._nats.errors.TimeoutError):
            info = await self._reader.consumer_info()
            self._over = self._end is not None and not info.num_pending
            return []

    def _add(self, messages: Sequence[Any]) -> None:
        """Add messages; if one before them was lost on its way, begin again after the last."""
        records, marks = [], []
        for message in messages:
            number, delivered = _numbers(message.reply)
            if delivered != self._delivered + 1:
                self._reader = None
                break
            if number > self._next:
                try:
                    state = self._info().state
                except self._failures():
                    self._reader = None
                    break
                if state.first_seq > self._next:
                    self._check(state)
            self._delivered, self._next = delivered, number + 1
            if self._end is None or number <= self._end:
                records.append(message.data)
                marks.append(number)
        self.waiting[0].add(records, marks)
        if messages:
            self._note_end()

    def after(self, mark: Any) -> int:
        """Return the number after that of a message."""
        return int(mark) + 1

    def number(self, mark: Any) -> int:
        """Return the number of a message."""
        return int(mark)

    def key(self, partition: int, mark: Any) -> str:
        """Return the stream and the number of a message."""
        return f"{self._stream}-{mark}"

    def _note_end(self) -> None:
        self._over = self._end is not None and self._next > self._end

    def over(self, partition: int) -> bool:
        """Tell whether all messages that were there have been fetched."""
        return self._over

    def _last_words(self) -> None:
        """Let the server forget the reader."""
        if self._reader is not None:
            self._wait(self._reader.unsubscribe())


class NatsSink(Connection, Sink):
    """Messages of a stream that keeps one of each subject, which is the key of a record: a replay overwrites."""

    def __init__(self, name: str, address: Address) -> None:
        super().__init__(address)
        self._name, self._sent = name, 0

    def begin(self, sent: int | None) -> int:
        """Begin to write; a stream that is not there is made."""
        self._sent = sent or 0
        self._ask(self._prepare, patience=0.0)
        return self._sent

    async def _prepare(self) -> None:
        """Make the stream, or see that it keeps one message of each subject below its name."""
        subjects = f"{self._stream}.>"
        try:
            config = (await self._js.stream_info(self._stream)).config
        except self._nats.js.errors.NotFoundError:
            await self._js.add_stream(name=self._stream, subjects=[subjects], max_msgs_per_subject=1)
            return
        if config.max_msgs_per_subject != 1 or subjects not in (config.subjects or ()):
            raise OutputError(
                f"{self._name}: a replay would not overwrite in this stream: it keeps {config.max_msgs_per_subject} "
                f"messages of a subject (-1 is all), and its subjects are {', '.join(config.subjects or ())}. Make it "
                f"with the subjects {subjects} and one message of each (nats stream add --max-msgs-per-subject 1), "
                "or name a stream that is not there."
            )

    def _ask(self, work: Callable[[], Coroutine[Any, Any, None]], patience: float | None = None) -> None:
        """Do something with the server, which may be away for this many seconds."""
        end = time.monotonic() + (AWAY if patience is None else patience)
        while True:
            try:
                if self._client is None or not self._client.is_connected:
                    self._wait(self._connect())
                self._wait(work())
                return
            except self._failures() as error:
                if time.monotonic() >= end:
                    reason = str(error) or "no answer"
                    raise OutputError(f"{self._name}: {reason}. {WRITE_AGAIN}") from None
                time.sleep(PAUSE)

    def send(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Send messages, and wait until the server has them."""
        for start in range(0, len(messages), AT_ONCE):
            some = messages[start : start + AT_ONCE]
            self._ask(partial(self._publish, some))
        self._sent += len(messages)

    async def _publish(self, messages: Sequence[tuple[str, bytes]]) -> None:
        publish, before = self._js.publish_async, f"{self._stream}."
        waiting = [await publish(before + key.translate(NO_PART), data) for key, data in messages]
        for one in await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), PATIENCE):
            if isinstance(one, BaseException):
                raise one

    def flush(self) -> int:
        """Return how many messages were sent: the server has them all."""
        return self._sent


class NatsStream(BrokerKind):
    """Streams of NATS JetStream."""

    name, example = "nats", "nats://host:4222/stream"
    place = "the number of the next message"
    extra, packages = "nats", ("nats",)

    def connect(self, source: Source, address: Address) -> NatsFeed:
        """Connect to a stream."""
        return NatsFeed(source.path, address)

    def connect_to_write(self, path: str, address: Address) -> NatsSink:
        """Connect to a stream that is written to."""
        return NatsSink(path, address)


NATS = NatsStream()


def _numbers(reply: str) -> tuple[int, int]:
    """Return the number of a message in its stream and among those of its reader, which the subject for replies holds.

    It is `$JS.ACK.stream.reader.times.number.delivered.time.left`; newer servers have two words more before the stream.
    """
    words = reply.split(".")
    at = 5 if len(words) == 9 else 7
    return int(words[at]), int(words[at + 1])
