"""Messages per second from Redis, NATS and Kafka: learnt, beside a bare consumer of the same client.

The bare consumer drops the messages; another one decodes them with `json.loads`, as whoever uses them must.

Servers run on this machine; that of Kafka is the cluster of its own client, in a process of its own, which has room for
40,000 of the messages. Every contender reads the whole stream in turn. Seconds are of the processor, of this process
only, so that neither the server nor other work on the machine counts; the clock is printed beside them. A shorter
stream is read too, so that what a run costs once (the first choices and solves) can be told from what a message costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong import FisherDiscriminant
from kampong.streaming import Layout, Source, learn
from kampong.streaming.options import estimator

if TYPE_CHECKING:
    from collections.abc import Iterator

Consumer = Callable[[Callable[[bytes], Any]], int]
"""Gives every message to a function, and returns how many there were."""

Server = Callable[[str, list[bytes]], contextlib.AbstractContextManager[tuple[str, Consumer]]]
"""Serves messages from a folder, and gives the address and a consumer."""

ROWS, COLUMNS, CLASSES = 100_000, 20, 5
MOST_OF_KAFKA = 40_000  # the cluster of its client keeps 5 MiB of each of its four partitions, and drops older messages
NAME = "rows"
AT_ONCE = 1000
PART = 4  # the cost of further messages is that of those after the first in so many

CLUSTER = """
import sys
from confluent_kafka import Producer
cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 0})
(broker,) = cluster.list_topics(timeout=10).brokers.values()
print(broker.host, broker.port, flush=True)
sys.stdin.read()
"""


def messages(count: int) -> list[bytes]:
    """Return rows of 20 numbers and a label as JSON objects."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, count)
    X = (rng.normal(size=(CLASSES, COLUMNS))[y] + 2 * rng.normal(size=(count, COLUMNS))).round(4).tolist()
    return [
        json.dumps({**{f"x{j}": value for j, value in enumerate(row)}, "label": f"c{label}"}).encode()
        for row, label in zip(X, y.tolist(), strict=True)
    ]


@contextlib.contextmanager
def started(command: list[str], port: int) -> Iterator[None]:
    """Start a server; wait until it listens."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    """Return a port that nobody uses now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def program(name: str) -> str:
    """Return the path of a program, or raise ImportError."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        raise ImportError(f"{name} is not installed")
    return found


@contextlib.contextmanager
def of_redis(folder: str, sent: list[bytes]) -> Iterator[tuple[str, Consumer]]:
    """Serve messages by Redis; yield the address, and a consumer."""
    import redis

    port = free_port()
    with started([program("redis-server"), "--port", str(port), "--dir", folder, "--save", ""], port):
        client: Any = redis.Redis(port=port)
        for start in range(0, len(sent), AT_ONCE):
            with client.pipeline(transaction=False) as pipe:
                for one in sent[start : start + AT_ONCE]:
                    pipe.xadd(NAME, {"data": one})
                pipe.execute()

        def consume(use: Callable[[bytes], Any]) -> int:
            count, last = 0, "0"
            while found := client.xread({NAME: last}, count=8 * AT_ONCE):
                entries = found[0][1] if isinstance(found, list) else next(iter(found.values()))[0]
                for _, fields in entries:
                    use(fields[b"data"])
                count, last = count + len(entries), entries[-1][0]
            return count

        yield f"redis://127.0.0.1:{port}/{NAME}", consume


@contextlib.contextmanager
def of_nats(folder: str, sent: list[bytes]) -> Iterator[tuple[str, Consumer]]:
    """Serve messages by NATS; yield the address, and a consumer."""
    import nats

    port = free_port()

    async def publish() -> None:
        client: Any = await nats.connect(f"nats://127.0.0.1:{port}")
        js = client.jetstream()
        await js.add_stream(name=NAME, subjects=[NAME])
        for start in range(0, len(sent), AT_ONCE):
            await asyncio.gather(*[await js.publish_async(NAME, one) for one in sent[start : start + AT_ONCE]])
        await client.close()

    async def read(use: Callable[[bytes], Any]) -> int:
        client: Any = await nats.connect(f"nats://127.0.0.1:{port}")
        config = nats.js.api.ConsumerConfig(ack_policy=nats.js.api.AckPolicy.NONE)
        reader, count = await client.jetstream().pull_subscribe(NAME, stream=NAME, config=config), 0
        while count < len(sent):
            found = await reader.fetch(AT_ONCE, timeout=5)
            for one in found:
                use(one.data)
            count += len(found)
        await client.close()
        return count

    command = [program("nats-server"), "-js", "-sd", folder, "-a", "127.0.0.1", "-p", str(port)]
    with started(command, port):
        asyncio.run(publish())
        yield f"nats://127.0.0.1:{port}/{NAME}", lambda use: asyncio.run(read(use))


@contextlib.contextmanager
def of_kafka(_: str, sent: list[bytes]) -> Iterator[tuple[str, Consumer]]:
    """Serve messages by the cluster of Kafka's client; yield the address, and a consumer."""
    import confluent_kafka as kafka

    cluster = subprocess.Popen(
        [sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert cluster.stdout is not None
    try:
        server = ":".join(cluster.stdout.readline().split())
        settings = {"bootstrap.servers": server, "log_level": 0}
        producer = kafka.Producer(settings)
        for i, one in enumerate(sent):
            producer.produce(NAME, one, partition=i % 4)
            if i % AT_ONCE == 0:
                producer.poll(0)
        producer.flush(60)

        def consume(use: Callable[[bytes], Any]) -> int:
            consumer = kafka.Consumer({**settings, "group.id": "bare", "auto.offset.reset": "earliest"})
            consumer.assign([kafka.TopicPartition(NAME, i, 0) for i in range(4)])
            count = 0
            while count < len(sent):
                found = consumer.consume(8 * AT_ONCE, 0.2)
                for one in found:
                    use(one.value())
                count += len(found)
            consumer.close()
            return count

        yield f"kafka://{server}/{NAME}", consume
    finally:
        cluster.kill()
        cluster.wait()


def main(shrink: int = 1) -> None:
    """Print messages per second of each contender and broker; `shrink` divides the rows."""
    sent, repeats = messages(ROWS // shrink), 3 if shrink == 1 else 1
    print(f"{len(sent):,} JSON objects of {COLUMNS} numbers, {CLASSES} classes; messages per second of processor time")
    for name, serve in {"redis": of_redis, "nats": of_nats, "kafka": of_kafka}.items():
        some = sent[:MOST_OF_KAFKA] if name == "kafka" else sent
        try:
            few, all_of_them = (_measured(name, serve, part, repeats) for part in (some[: len(some) // PART], some))
        except ImportError as error:
            print(f"{name}: {error}; left out")
        else:
            _show(name, len(some), few, all_of_them)


def _measured(name: str, serve: Server, sent: list[bytes], repeats: int) -> dict[str, np.ndarray]:
    """Return the median seconds that each contender takes for a stream: of the processor, and by the clock."""
    with tempfile.TemporaryDirectory() as folder, serve(folder, sent) as (address, consume):
        source = Source(address, Layout(label="label"))
        contenders: dict[str, Callable[[], int]] = {
            "the client alone": lambda: consume(len),
            "the client and json.loads": lambda: consume(json.loads),
            "the source: rows of numbers": lambda: sum(batch.rows for batch in source.open()),
            "learn, FisherDiscriminant(ridge=0.1)": lambda: learn(source, FisherDiscriminant(ridge=0.1)).counters.rows,
            "learn, defaults": lambda: learn(source, estimator()).counters.rows,
        }
        spent: dict[str, list[tuple[float, float]]] = {one: [] for one in contenders}
        for turn in range(repeats + 1):
            for one, run in contenders.items():
                before = time.process_time(), time.perf_counter()
                found = run()
                if found != len(sent):
                    raise RuntimeError(f"{name}, {one}: {found:,} messages of {len(sent):,}")
                if turn:
                    spent[one].append((time.process_time() - before[0], time.perf_counter() - before[1]))
        return {one: np.median(seconds, axis=0) for one, seconds in spent.items()}


def _show(name: str, count: int, few: dict[str, np.ndarray], all_of_them: dict[str, np.ndarray]) -> None:
    """Print what each contender takes, and how much of it each further message takes after a part of them."""
    bare, decoded = all_of_them["the client alone"], all_of_them["the client and json.loads"]
    further = {one: (seconds[0] - few[one][0]) / (count - count // PART) for one, seconds in all_of_them.items()}
    print(f"\n{name}, {count:,} messages; a further message is one after the first {count // PART:,}")
    head = ("messages/s", "× the client", "by the clock", "× json.loads", "µs/further", "× the client", "fixed s")
    print(" " * 40 + "".join(f"{one:>13}" for one in head))
    for one, seconds in all_of_them.items():
        ratios = bare[0] / seconds[0], bare[1] / seconds[1], decoded[0] / seconds[0]
        cells = (f"{count / seconds[0]:,.0f}", *(f"{ratio:.2f}" for ratio in ratios), f"{1e6 * further[one]:.1f}")
        more = f"{further['the client alone'] / further[one]:.2f}", f"{seconds[0] - count * further[one]:.2f}"
        print(f"  {one:<38}" + "".join(f"{cell:>13}" for cell in (*cells, *more)))
    print("  goal of learn: at least 0.5 × the client")


if __name__ == "__main__":
    main()
