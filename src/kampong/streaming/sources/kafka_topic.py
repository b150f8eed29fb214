"""Topics of Kafka: all partitions, assigned at the offsets of the model file; commits are written and never read."""

from __future__ import annotations

import importlib
import logging
import os
from bisect import bisect_left
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kampong.streaming.errors import OutputError, SourceError, UsageError
from kampong.streaming.sources.blocks import PAUSE
from kampong.streaming.sources.connections import AWAY, WRITE_AGAIN, Feed, Record, Sink, Waiting, dropped
from kampong.streaming.sources.messages import BrokerKind
from kampong.streaming.sources.positions import LARGEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong.streaming.sources.address import Address
    from kampong.streaming.sources.source import Source

PATIENCE = 10.0  # seconds that a broker may take to answer
GROUP = "kampong"
MOST = 4 * LARGEST  # messages of a partition that may wait before its turn


class KafkaFeed(Feed):
    """The messages of a topic. Credentials come from the file that KAFKA_CONFIG names: name=value, one per line."""

    def __init__(self, name: str, address: Address) -> None:
        self._kafka: Any = importlib.import_module("confluent_kafka")
        self._name, self._topic = name, address.path
        self._client = {"log_level": 2, **_settings(name), "bootstrap.servers": address.server}
        self._group = address.options.get("group", self._client.pop("group.id", GROUP))
        self._admin: Any = None
        self._warned = False
        self._consumer: Any = self._kafka.Consumer(
            {
                **self._client,
                "group.id": self._group or GROUP,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
            }
        )
        try:
            found = self._ask(lambda: self._consumer.list_topics(self._topic, timeout=PATIENCE))
            topic = found.topics[self._topic]
            if topic.error is not None or not topic.partitions:
                raise SourceError(f"{name}: {topic.error or 'the topic has no partitions'}. Check the address.")
        except BaseException:
            self.close()
            raise
        self._partitions = sorted(topic.partitions)
        self.identity, self.waiting = f"kafka {found.cluster_id} {self._topic}", [Waiting() for _ in self._partitions]
        count = len(self._partitions)
        self._ends: list[int] | None = None
        self._over, self._paused = [False] * count, [False] * count
        self._choice = ""

    def _ask(self, work: Any) -> Any:
        try:
            return work()
        except self._kafka.KafkaException as error:
            reason = self._reason(error)
            raise SourceError(f"{self._name}: {reason}. Check the address, and that the broker runs.") from None

    def _reason(self, error: Exception) -> str:
        """Return what the client says, without its codes."""
        first = error.args[0] if error.args else error
        return str(first.str() if isinstance(first, self._kafka.KafkaError) else error)

    def _place(self, partition: int, offset: int = 0) -> Any:
        return self._kafka.TopicPartition(self._topic, self._partitions[partition], offset)

    def _range(self, partition: int) -> tuple[int, int]:
        """Return the first offset of a partition, and the one after its last."""
        place = self._place(partition)
        low, high = self._ask(lambda: self._consumer.get_watermark_offsets(place, timeout=PATIENCE))
        return int(low), int(high)

    def start(self, at: Sequence[Any], choice: str, *, ends: bool) -> list[Any]:
        """Begin to read."""
        found, last = [], []
        self._choice = choice
        for i in range(len(self._partitions)):
            low, high = self._range(i)
            begin = high if choice == "latest" else low
            offset = int(at[i]) if i < len(at) else begin
            if not low <= offset <= high:
                if not choice:
                    raise dropped(
                        self._name, f"offset {offset:,} of partition {self._partitions[i]}; it has {low:,} to {high:,}"
                    )
                offset = begin
            found.append(offset)
            last.append(high)
            self._over[i] = ends and offset >= high
        self._ends = last if ends else None
        self._ask(lambda: self._consumer.assign([self._place(i, offset) for i, offset in enumerate(found)]))
        return found

    def fetch(self, seconds: float) -> None:
        """Add messages to those that wait; the client finds a broker again that was gone."""
        fetched: dict[int, tuple[list[Record], list[int]]] = {one: ([], []) for one in self._partitions}
        for message in self._ask(lambda: self._consumer.consume(LARGEST, seconds)):
            if message.error() is None:
                records, offsets = fetched[message.partition()]
                records.append(message.value() or b"")
                offsets.append(message.offset())
            else:
                self._note(message)
        for i, (records, offsets) in enumerate(fetched.values()):
            if offsets:
                self._add(i, records, offsets)
        for i, some in enumerate(self.waiting):
            if (len(some) > MOST) != self._paused[i] and (not self._paused[i] or len(some) < LARGEST):
                self._paused[i] = not self._paused[i]
                act = self._consumer.pause if self._paused[i] else self._consumer.resume
                self._ask(lambda act=act, i=i: act([self._place(i)]))

    def _add(self, i: int, records: list[Record], offsets: list[int]) -> None:
        """Add messages of a partition, without those that came after the end."""
        end, last = None if self._ends is None else self._ends[i], offsets[-1]
        wanted = None if end is None or last < end else bisect_left(offsets, end)
        self.waiting[i].add(records[:wanted], offsets[:wanted])
        self._over[i] = self._over[i] or (end is not None and last + 1 >= end)

    def after(self, mark: Any) -> int:
        """Return the offset after that of a message."""
        return int(mark) + 1

    def number(self, mark: Any) -> int:
        """Return the offset of a message."""
        return int(mark)

    def key(self, partition: int, mark: Any) -> str:
        """Return topic, partition and offset of a message."""
        return f"{self._topic}-{self._partitions[partition]}-{mark}"

    def _note(self, message: Any) -> None:
        """Take an event that is no message: the end of a partition, or an error that does not pass by itself."""
        error = message.error()
        if error.name() == "_PARTITION_EOF":
            self._over[self._partitions.index(message.partition())] = self._ends is not None
        elif error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
            i = self._partitions.index(message.partition())
            if not self._choice:
                raise dropped(self._name, f"partition {message.partition()}: {error.str()}")
            low, high = self._range(i)
            self._ask(lambda: self._consumer.seek(self._place(i, low if self._choice == "earliest" else high)))
        elif error.fatal() or not (error.retriable() or error.code() < 0):
            raise SourceError(f"{self._name}: {error.str()}.")

    def over(self, partition: int) -> bool:
        """Tell whether all messages of a partition that were there have been fetched."""
        return self._over[partition]

    def show(self, at: Sequence[Any]) -> None:
        """Commit the offsets of a saved model, so that tools show its lag; a run goes on if it cannot be done."""
        if not self._group:
            return
        admin = importlib.import_module("confluent_kafka.admin")
        reached = [self._place(i, offset) for i, offset in enumerate(at)]
        group = self._kafka.ConsumerGroupTopicPartitions(self._group, reached)
        try:
            # A client of its own: that of the messages belongs to another thread, and is closed before the last save.
            self._admin = self._admin or admin.AdminClient(self._client)
            (answer,) = self._admin.alter_consumer_group_offsets([group], request_timeout=PATIENCE).values()
            reasons = [one.error.str() for one in answer.result().topic_partitions if one.error is not None]
        except (self._kafka.KafkaException, ValueError) as error:
            reasons = [self._reason(error)]
        if reasons and not self._warned:
            self._warned = True
            logging.getLogger(__name__).warning(
                "%s: the offsets could not be committed for the group %s, so its lag is not right: %s. The model file "
                "holds the right place.",
                *(self._name, self._group, reasons[0]),
            )

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()


class KafkaSink(Sink):
    """Messages of a topic with the keys of their records, so that a compacted topic keeps the newest of each key."""

    def __init__(self, name: str, address: Address) -> None:
        self._kafka: Any = importlib.import_module("confluent_kafka")
        self._name, self._topic, self._sent, self._error = name, address.path, 0, ""
        settings = {"log_level": 2, **_settings(name), "bootstrap.servers": address.server}
        self._producer: Any = self._kafka.Producer(
            {**settings, "enable.idempotence": True, "linger.ms": 20, "message.timeout.ms": int(1000 * AWAY)}
        )

    def begin(self, sent: int | None) -> int:
        """Begin to write: what comes again has the keys that it had."""
        self._sent = sent or 0
        try:
            self._producer.list_topics(self._topic, timeout=PATIENCE)
        except self._kafka.KafkaException as error:
            raise OutputError(f"{self._name}: {error.args[0].str()}. {WRITE_AGAIN}") from None
        return self._sent

    def send(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Send messages; wait if too many are on their way."""
        for key, data in messages:
            while True:
                try:
                    self._producer.produce(self._topic, data, key, on_delivery=self._delivered)
                    break
                except BufferError:
                    self._producer.poll(PAUSE)
                except self._kafka.KafkaException as error:
                    raise OutputError(f"{self._name}: {error.args[0].str()}. {WRITE_AGAIN}") from None
        self._producer.poll(0)
        self._sent += len(messages)
        self._check()

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self._error = error.str()

    def _check(self) -> None:
        if self._error:
            raise OutputError(f"{self._name}: {self._error}. {WRITE_AGAIN}")

    def flush(self) -> int:
        """Wait until the broker has all messages; return how many were sent."""
        left = self._producer.flush(2 * AWAY)  # by then each is delivered, or has an error
        self._error = self._error or (f"{left:,} messages could not be delivered" if left else "")
        self._check()
        return self._sent

    def close(self) -> None:
        """Drop what is not delivered: only a run that has failed leaves something."""
        self._producer.purge()
        self._producer.flush(PATIENCE)


class KafkaTopic(BrokerKind):
    """Topics of Kafka, or of a broker that speaks its protocol."""

    name, example = "kafka", "kafka://host:9092/topic"
    place = "the next offset of every partition"
    extra, packages = "kafka", ("confluent_kafka",)

    def connect(self, source: Source, address: Address) -> KafkaFeed:
        """Connect to a topic."""
        return KafkaFeed(source.path, address)

    def connect_to_write(self, path: str, address: Address) -> KafkaSink:
        """Connect to a topic that is written to."""
        return KafkaSink(path, address)


KAFKA = KafkaTopic()


def _settings(name: str) -> dict[str, str]:
    """Return the settings of the client in the file that KAFKA_CONFIG names."""
    path = os.environ.get("KAFKA_CONFIG", "")
    if not path:
        return {}
    try:
        lines = [line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise UsageError(f"{name}: KAFKA_CONFIG names {path}, which cannot be read: {error.strerror}.") from None
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {key.strip(): value.strip() for key, _, value in pairs}
