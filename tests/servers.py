"""What the tests of sources share: servers on this machine, and a driver that kills a learner again and again."""

import contextlib
import json
import os
import random
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from kampong.files import read
from stream_problems import without_clock

QUIET = 300  # seconds without a word after which a driver is held to be stuck


def free_port():
    """Return a port that nobody uses now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def program(name, *folders):
    """Return the path of a program, or skip the test."""
    places = [str(Path(sys.executable).parent), *folders, os.environ["PATH"]]
    found = shutil.which(name, path=os.pathsep.join(places))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def wait_for(ready, seconds=20.0):
    """Wait until a server answers."""
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "the server does not answer"
        time.sleep(0.05)


def listens(port):
    """Tell whether someone listens on a port."""
    with socket.socket() as one:
        one.settimeout(1.0)
        return one.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def postgresql():
    """Start a server of PostgreSQL; yield the address of its base."""
    pytest.importorskip("adbc_driver_postgresql", reason="PostgreSQL needs the `sql` extra")
    folders = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"))]
    initdb, server = program("initdb", *folders), program("postgres", *folders)
    who = {"user": "nobody"} if os.geteuid() == 0 else {}  # it refuses to run as root
    home, port = Path(tempfile.mkdtemp(prefix="kampong-pg-")), free_port()
    secret = home / "secret"
    secret.write_text("geheim-4711\n")
    if who:
        for path in (home, secret):
            shutil.chown(path, "nobody")
    try:
        options = ["-D", str(home / "data"), "-U", "kampong", "-A", "scram-sha-256", f"--pwfile={secret}", "-N"]
        subprocess.run([initdb, *options], check=True, capture_output=True, cwd=home, **who)
        settings = ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-k", str(home), "-p", str(port)]
        with (home / "log").open("wb") as log:
            process = subprocess.Popen([server, "-D", str(home / "data"), *settings], stderr=log, cwd=home, **who)
        try:
            wait_for(lambda: listens(port))
            yield f"postgresql://kampong@127.0.0.1:{port}/postgres"
        finally:
            process.terminate()
            process.wait(30)
    finally:
        shutil.rmtree(home, ignore_errors=True)


class Server:
    """A server that a test can kill and start again; what it has stored stays."""

    def __init__(self, arguments, port):
        self.arguments, self.port, self.process, self.coming = arguments, port, None, None
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: listens(self.port))

    def kill(self):
        self.process.kill()
        self.process.wait(30)

    def die_for(self, seconds):
        """Kill the server, and start it again after some time; a death before is over first."""
        if self.coming is not None:
            self.coming.join()
        assert self.process.poll() is None
        self.kill()
        self.coming = threading.Timer(seconds, self.start)
        self.coming.start()


class Broker:
    """A broker of one kind: an address, and a way to send messages."""

    server = None
    once = True
    """Whether a message that is sent again is not there twice; a compacted topic of Kafka keeps the newest."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name

    def close(self):
        if self.server is not None:
            if self.server.coming is not None:
                self.server.coming.join()
            self.server.kill()


class Redis(Broker):
    """Redis, with every entry on the disk before it is acknowledged."""

    def __init__(self, folder, name="rows", *, password=""):
        super().__init__(folder, name)
        pytest.importorskip("redis", reason="Redis needs the `redis` extra")
        port, self.password = free_port(), password
        options = ["--port", port, "--dir", folder, "--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        options += ["--requirepass", password] if password else []
        self.server = Server([program("redis-server"), *map(str, options)], port)
        self.address = f"redis://127.0.0.1:{port}/{name}"

    @property
    def client(self):
        import redis

        return redis.Redis(port=self.server.port, password=self.password or None)

    def send(self, messages):
        with self.client as client, client.pipeline(transaction=False) as pipe:
            for one in messages:
                pipe.xadd(self.name, {"data": one})
            pipe.execute()

    def drop(self, left):
        """Drop all but the newest messages."""
        with self.client as client:
            client.xtrim(self.name, maxlen=left, approximate=False)

    def stored(self, name):
        """Return keys and messages of a stream in their order."""
        with self.client as client:
            return [(one[b"key"].decode(), one[b"data"]) for _, one in client.xrange(name)]


class Nats(Broker):
    """NATS with JetStream, on the disk."""

    def __init__(self, folder, name="rows"):
        super().__init__(folder, name)
        pytest.importorskip("nats", reason="NATS needs the `nats` extra")
        port = free_port()
        self.server = Server(
            [program("nats-server"), "-js", "-sd", str(folder), "-a", "127.0.0.1", "-p", str(port)], port
        )
        self.address = f"nats://127.0.0.1:{port}/{name}"
        self.do(lambda js: js.add_stream(name=name, subjects=[name]))

    def do(self, work):
        import asyncio

        import nats

        async def run():
            client = await nats.connect(f"nats://127.0.0.1:{self.server.port}")
            try:
                return await work(client.jetstream())
            finally:
                await client.close()

        return asyncio.run(run())

    def send(self, messages):
        async def work(js):
            for start in range(0, len(messages), 500):
                futures = [await js.publish_async(self.name, one) for one in messages[start : start + 500]]
                for future in futures:
                    await future

        self.do(work)

    def drop(self, left):
        """Drop all but the newest messages."""
        self.do(lambda js: js.purge_stream(self.name, keep=left))

    def stored(self, name):
        """Return keys and messages of a stream in their order."""

        async def work(js):
            left = (await js.stream_info(name)).state.messages
            reader = await js.pull_subscribe_bind(
                stream=name,
                consumer=(await js.add_consumer(name, ack_policy="none", name=f"reader-{free_port()}")).name,
            )
            found = []
            while len(found) < left:
                found += await reader.fetch(500, timeout=5)
            return [(one.subject.removeprefix(f"{name}."), one.data) for one in found]

        return self.do(work)


class Kafka(Broker):
    """A cluster of librdkafka's own, which speaks the protocol of Kafka on this machine; four partitions."""

    once = False

    def __init__(self, folder, name="rows"):
        super().__init__(folder, name)
        kafka = pytest.importorskip("confluent_kafka", reason="Kafka needs the `kafka` extra")
        self._cluster = kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 0})
        (found,) = self._cluster.list_topics(timeout=10).brokers.values()
        self.address = f"kafka://{found.host}:{found.port}/{name}"
        self._producer = kafka.Producer({"bootstrap.servers": f"{found.host}:{found.port}", "log_level": 0})
        self.sent = 0

    def send(self, messages):
        for one in messages:
            self._producer.produce(self.name, one, partition=self.sent % 4)
            self.sent += 1
        assert self._producer.flush(30) == 0

    def stored(self, name):
        """Return keys and messages of a topic, one partition after the other."""
        import confluent_kafka as kafka

        settings = {"bootstrap.servers": self.address.split("/")[2], "group.id": "test", "enable.partition.eof": True}
        consumer = kafka.Consumer({**settings, "log_level": 0, "auto.offset.reset": "earliest"})
        try:
            partitions = consumer.list_topics(name, timeout=10).topics[name].partitions
            consumer.assign([kafka.TopicPartition(name, one, 0) for one in partitions])
            found, ended = [], 0
            while ended < len(partitions):
                one = consumer.poll(10)
                ended += one.error() is not None
                if one.error() is None:
                    found.append((one.key().decode(), one.value()))
            return found
        finally:
            consumer.close()


BROKERS = {"redis": Redis, "nats": Nats, "kafka": Kafka}


def records(rows, *, seed=0, bad=0.0):
    """Return rows of three classes as dictionaries; some have a text of their own where a number belongs."""
    rng = random.Random(seed)
    found = []
    for i in range(rows):
        kind = rng.randrange(3)
        one = {f"x{j}": round(rng.gauss(0, 1) + 2 * (j == kind), 3) for j in range(4)}
        one = {"id": 3 * i, **one, "kind": "abc"[kind]}
        if i > 50 and rng.random() < bad:
            one["x1"] = f"oops {i}"
        found.append(one)
    return found


# Starts run after run in a forked child and kills it after a random time, until enough were killed; then lets one end.
# Where one ends by itself before, its files are put aside and a new stream begins.
DRIVER = """
import json, os, random, signal, sys, time
import kampong
from kampong.streaming import Layout, Source, errors, learn
from kampong.streaming.sources import positions
options = json.loads(sys.argv[1])
positions.SMALLEST, positions.LARGEST = 32, 64

def run(folder, source, out=""):
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    name = os.path.basename(folder)
    where = {"out": f"{out}-{name}", "dead_letters": f"{out}-dead-{name}"} if out else {"out": "o.csv"}
    learn(source, kampong.FisherDiscriminant(half_life="auto"), model_file="m", **where,
          checkpoint_every=0.05, watch=lambda _: time.sleep(0.004))

def start(folder):
    child = os.fork()
    if child == 0:
        try:
            layout = Layout(label="kind", drop=("id",) * options["drop"])
            run(folder, Source(options["address"], layout, **options["more"]), options["out"])
        except errors.LearntError:
            pass
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr, flush=True)
            os._exit(3)
        os._exit(0)
    return child

def ended(child):
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        sys.exit(3)
    return os.WIFEXITED(status)

home = options["folder"]
os.makedirs(f"{home}/warm")
with open(f"{home}/warm/a.csv", "w") as file:
    file.write("x,y,kind" + chr(10) + "".join(f"{i % 7},{i % 3},{'ab'[i % 2]}" + chr(10) for i in range(400)))
run(f"{home}/warm", Source("a.csv", Layout(label="kind")))
before = time.perf_counter()
ended(start(f"{home}/whole"))
longest = 0.6 * (time.perf_counter() - before)
rng, kills, rounds = random.Random(options["seed"]), 0, 0
while kills < options["kills"]:
    child = start(f"{home}/{rounds:04}")
    time.sleep(rng.uniform(0.0, longest))
    os.kill(child, signal.SIGKILL)
    killed = not ended(child)
    kills, rounds = kills + killed, rounds + (not killed)
    print(kills, file=sys.stderr, flush=True)
ended(start(f"{home}/{rounds:04}"))
print(json.dumps([kills, rounds + 1]))
"""


def kill_and_compare(folder, address, kills, sent, *, seed=0, drop=False, broker=None, **more):
    """Kill a learner of a source so often: model, predictions and dead letters are those of one that nobody killed.

    They are files, or messages of a broker.
    """
    out = broker and broker.address.replace(f"/{broker.name}", "/out")
    options = {"folder": str(folder), "address": address, "kills": kills, "seed": seed, "drop": drop, "more": more}
    options["out"] = out
    killed, rounds = json.loads(driven([sys.executable, "-c", DRIVER, json.dumps(options)]))
    assert killed == kills
    whole = left(folder / "whole", broker)
    counters = {name: whole[0]["stream"][f"counters.{name}"] for name in ("records", "rows", "dead")}
    assert counters["records"] == sent == counters["rows"] + counters["dead"]
    assert len(whole[2]) == counters["rows"] + (broker is None)
    assert len(whole[3]) == counters["dead"]
    for i in range(rounds):
        assert left(folder / f"{i:04}", broker) == whole
    return whole


def driven(code):
    """Return what a driver printed; it may take any time, as long as it tells of a run now and then."""
    with subprocess.Popen(code, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        told = b""
        while select.select([process.stderr], [], [], QUIET)[0]:
            more = os.read(process.stderr.fileno(), 65536)
            if not more:
                break
            told += more
        else:
            process.kill()
            pytest.fail(f"the driver has told nothing for {QUIET} seconds, after {told[-1000:].decode()}")
        printed = process.stdout.read()
    assert process.returncode == 0, told.decode()
    return printed


def left(folder, broker=None):
    """Return what a run has left: the model without its clock, predictions and dead letters."""
    facts, *rest = without_clock(folder / "m")
    if broker is None:
        letters = folder / "m.dead.jsonl"
        return facts, rest, lines_of(folder / "o.csv"), lines_of(letters) if letters.exists() else []
    facts["stream"] = {name: one for name, one in facts["stream"].items() if not name.startswith("written.")}
    names = (f"out-{folder.name}", f"out-dead-{folder.name}")
    stored = [broker.stored(name) for name in names]
    if broker.once:
        assert all(len(dict(one)) == len(one) for one in stored)
    return facts, rest, *(dict(one) for one in stored)


def lines_of(path):
    """Return the lines of a file."""
    return path.read_bytes().splitlines()


def facts_of(path):
    """Return the facts of the stream in a model file."""
    return read(path)[1]["stream"]
