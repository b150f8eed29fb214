"""Streams of NATS JetStream, read by their sequence numbers."""

from __future__ import annotations

import asyncio
import importlib
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from kampong.streaming.errors import SourceError
from kampong.streaming.sources.messages import BrokerKind, Feed, Message, dropped

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from kampong.streaming.sources.address import Address
    from kampong.streaming.sources.source import Source

AT_ONCE = 1000  # messages of one request
PATIENCE = 10.0  # seconds that a server may take to answer
FORGOTTEN = 60.0  # seconds after which the server forgets a reader that is gone


class NatsFeed(Feed):
    """The messages of a stream.

    Credentials come from the environment: NATS_CREDS (a file), NATS_TOKEN, or NATS_USER and NATS_PASSWORD.
    """

    def __init__(self, name: str, address: Address) -> None:
        self._nats: Any = importlib.import_module("nats")
        self._api: Any = importlib.import_module("nats.js.api")
        self._name, self._stream = name, address.path
        scheme = "tls" if address.options.get("tls", "") == "yes" else "nats"
        self._servers = [f"{scheme}://{one}" for one in address.server.split(",")]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.waiting = [deque()]
        self._next, self._over, self._choice = 1, False, ""
        self._end: int | None = None
        self._client: Any = None
        self._reader: Any = None
        self._delivered = 0
        try:
            self._wait(self._connect())
            self.identity = f"nats {self._stream} {self._created(self._info())}"
        except BaseException as error:
            self.close()
            if isinstance(error, self._failures()):
                raise SourceError(
                    f"{name}: {str(error) or type(error).__name__}. Check the address, and that the server runs with "
                    "JetStream and has this stream."
                ) from None
            raise

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

    def _info(self) -> Any:
        return self._wait(self._client.jetstream().stream_info(self._stream))

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
        for message in found:
            self._add(message)
            if self._reader is None:
                return

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
        self._reader = self._wait(self._client.jetstream().pull_subscribe(">", stream=self._stream, config=config))
        self._delivered = 0

    async def _some(self, seconds: float) -> list[Any]:
        """Return messages; without any, see whether the server still knows us, and whether more are to come."""
        try:
            return list(await self._reader.fetch(AT_ONCE, timeout=seconds))
        except (TimeoutError, self._nats.errors.TimeoutError):
            info = await self._reader.consumer_info()
            self._over = self._end is not None and not info.num_pending
            return []

    def _add(self, message: Any) -> None:
        """Add a message; if one before it was lost on its way, begin again after the last."""
        numbers = message.metadata.sequence
        if numbers.consumer != self._delivered + 1:
            self._reader = None
            return
        if numbers.stream > self._next and self._info().state.first_seq > self._next:
            self._check(self._info().state)
        self._delivered, self._next = numbers.consumer, numbers.stream + 1
        if self._end is None or numbers.stream <= self._end:
            self.waiting[0].append(Message(message.data, "", numbers.stream, self._next))
        self._note_end()

    def _note_end(self) -> None:
        self._over = self._end is not None and self._next > self._end

    def over(self, partition: int) -> bool:
        """Tell whether all messages that were there have been fetched."""
        return self._over

    def close(self) -> None:
        """Close the connection, and end the thread of the client."""
        if self._loop.is_closed():
            return
        if self._client is not None and self._client.is_connected:
            try:
                if self._reader is not None:
                    self._wait(self._reader.unsubscribe())
                self._wait(self._client.close())
            except self._failures():
                pass
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()


class NatsStream(BrokerKind):
    """Streams of NATS JetStream."""

    name, example = "nats", "nats://host:4222/stream"
    place = "the number of the next message"
    extra, packages = "nats", ("nats",)

    def connect(self, source: Source, address: Address) -> NatsFeed:
        """Connect to a stream."""
        return NatsFeed(source.path, address)


NATS = NatsStream()
