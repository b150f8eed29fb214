"""Predictions and dead letters to brokers: each record once, with a key, whatever dies."""

import json
import os
import threading
import time

import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

from command import call
from kampong import FisherDiscriminant
from kampong.streaming import Layout, Source, learn
from kampong.streaming.errors import OutputError, ResumeError, SourceError, UsageError
from kampong.streaming.sources import blocks, connections, kind_of
from servers import BROKERS, Nats, Redis, free_port, kill_and_compare, records

LABEL = Layout(label="kind", drop=("id",))


@pytest.fixture(params=list(BROKERS))
def broker(request, tmp_path):
    (tmp_path / "server").mkdir()
    one = BROKERS[request.param](tmp_path / "server")
    one.kind = request.param
    one.out = one.address.replace("/rows", "/out")
    yield one
    one.close()


def encoded(rows):
    return [json.dumps(row).encode() for row in rows]


def in_file(path, rows):
    """Write rows as a file, and return its path."""
    path.write_bytes(b"\n".join(encoded(rows)) + b"\n")
    return str(path)


def parsed(stored):
    """Return messages by key."""
    return {key: json.loads(data) for key, data in stored}


def test_messages_are_the_lines_of_the_file_with_the_keys_of_their_records(broker, tmp_path):
    rows = records(600, bad=0.1)
    broker.send(encoded(rows))
    source = Source(broker.address, LABEL)
    letters = broker.address.replace("/rows", "/letters")
    learn(source, FisherDiscriminant(), model_file=str(tmp_path / "m"), out=broker.out, dead_letters=letters)
    learn(source, FisherDiscriminant(), model_file=str(tmp_path / "f"), out=str(tmp_path / "o.jsonl"))
    found = parsed(broker.stored("out"))
    lines = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert sorted(found.values(), key=lambda one: one["row"]) == lines
    dead = parsed(broker.stored("letters"))
    written = [json.loads(line) for line in (tmp_path / "f.dead.jsonl").read_text().splitlines()]
    assert sorted(dead.values(), key=lambda one: one["line"]) == written
    assert len(found) + len(dead) == len(found.keys() | dead.keys()) == 600
    if broker.kind == "nats":
        numbers = {int(key.removeprefix("rows-")): one["row"] for key, one in found.items()}
        assert all(number == row for number, row in numbers.items())
    elif broker.kind == "kafka":
        assert found["rows-3-7"]["row"] == 4 * 7 + 3 + 1
    assert {key.split("-")[0] for key in found} == {"rows"}


def test_records_of_a_file_have_their_numbers_as_keys(broker, tmp_path, capfd):
    rows = records(400, bad=0.1)
    path = in_file(tmp_path / "rows.jsonl", rows)
    call(capfd, "learn", path, "--label", "kind", "--drop", "id", "-m", tmp_path / "m", "--out", broker.out, "-q")
    found = parsed(broker.stored("out"))
    good = [i + 1 for i, row in enumerate(rows) if isinstance(row["x1"], float)]
    assert {int(key): one["row"] for key, one in found.items()} == {row: row for row in good}
    answers = broker.address.replace("/rows", "/answers")
    call(capfd, "predict", path, "-m", tmp_path / "m", "--out", answers, "-q")
    assert sorted(one["row"] for one in parsed(broker.stored("answers")).values()) == good


def test_a_finished_model_goes_on_writing_after_what_is_there(broker, tmp_path):
    rows = encoded(records(500))
    for sent in (rows[:300], rows[300:]):
        broker.send(sent)
        learn(Source(broker.address, LABEL), FisherDiscriminant(), model_file=str(tmp_path / "m"), out=broker.out)
    assert sorted(one["row"] for one in parsed(broker.stored("out")).values()) == list(range(1, 501))


def test_a_run_that_was_stopped_writes_where_it_wrote(broker, tmp_path):
    broker.send(encoded(records(900)))
    stop = threading.Event()
    run = {"model_file": str(tmp_path / "m"), "out": broker.out}
    learn(Source(broker.address, LABEL), FisherDiscriminant(), **run, watch=lambda _: stop.set(), stop=stop)
    elsewhere = {**run, "out": broker.address.replace("/rows", "/other")}
    with pytest.raises(ResumeError, match="the run saved in the model file writes elsewhere"):
        learn(Source(broker.address, LABEL), FisherDiscriminant(), **elsewhere)
    learn(Source(broker.address, LABEL), FisherDiscriminant(), **run)
    assert len(broker.stored("out")) == 900


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks")
@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=pytest.mark.slow)])
def test_a_learner_killed_again_and_again_writes_every_record_once(broker, tmp_path, kills):
    rows = records(1500, bad=0.05)
    broker.send(encoded(rows))
    kill_and_compare(tmp_path / "runs", broker.address, kills, len(rows), drop=True, broker=broker)


@pytest.mark.parametrize("times", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_a_server_that_dies_and_comes_back_has_every_message_once(broker, tmp_path, monkeypatch, times):
    if broker.kind == "kafka":
        pytest.skip("the cluster of librdkafka keeps its messages in memory")
    monkeypatch.setattr(blocks, "LARGEST", 8 * 2**10)
    path = in_file(tmp_path / "rows.jsonl", records(700 * times, bad=0.05))
    deaths = []

    def watch(run):
        if len(deaths) < times and run.counters.records > 300 * (len(deaths) + 1):
            broker.server.die_for(0.3)
            deaths.append(run.counters.records)

    source = Source(path, LABEL)
    run = learn(source, FisherDiscriminant(), model_file=str(tmp_path / "m"), out=broker.out, watch=watch)
    print(f"{broker.kind}: {len(deaths)} deaths of the server")
    assert len(deaths) == times
    stored = broker.stored("out")
    assert len(dict(stored)) == len(stored) == run.counters.rows
    assert [one["row"] for one in map(json.loads, dict(stored).values())] == sorted(int(key) for key, _ in stored)


def test_a_server_that_stays_away_ends_the_run_and_the_next_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("kampong.streaming.sources.redis_stream.AWAY", 0.5)
    broker = Redis(tmp_path)
    try:
        path, run = in_file(tmp_path / "rows.jsonl", records(900)), {"model_file": str(tmp_path / "m")}
        run["out"] = broker.address.replace("/rows", "/out")
        kill = {"watch": lambda run: run.counters.records > 300 and broker.server.kill(), "checkpoint_every": 0.0}
        with pytest.raises(OutputError, match=r"Check the address and the server, then start again"):
            learn(Source(path, LABEL), FisherDiscriminant(), **run, **kill)
        broker.server.start()
        assert learn(Source(path, LABEL), FisherDiscriminant(), **run).resumed
        assert [key for key, _ in broker.stored("out")] == [str(i + 1) for i in range(900)]
    finally:
        broker.close()


def test_a_save_in_the_middle_of_a_replay_does_not_send_the_rest_twice(broker):
    messages = [(f"rows-{i}", b"%d" % i) for i in range(12)]

    def run(sent, first, *stops):
        """Send messages from the first on, save at each stop but the last, and die."""
        sink = kind_of(broker.out).sink(broker.out)
        try:
            sink.begin(sent)
            for stop in stops:
                sink.send(messages[first:stop])
                first, saved, sent = stop, sent, sink.flush()
            return saved
        finally:
            sink.close()

    saved = run(run(None, 0, 3, 9), 3, 5, 8)
    saved = run(run(saved, 5, 6, 12), 6, 9, 10)
    run(saved, 9, 12)
    stored = broker.stored("out")
    assert dict(stored) == dict(messages)
    assert len(stored) == 12 or not broker.once


def test_a_stream_that_has_lost_what_was_written_is_an_error(tmp_path):
    broker = Redis(tmp_path)
    try:
        path, stop = in_file(tmp_path / "rows.jsonl", records(900)), threading.Event()
        run = {"model_file": str(tmp_path / "m"), "out": broker.address.replace("/rows", "/out")}
        learn(Source(path, LABEL), FisherDiscriminant(), **run, watch=lambda _: stop.set(), stop=stop)
        with broker.client as client:
            client.delete("out")
        with pytest.raises(ResumeError, match=r"has come to entry 0, and \d+ had been written"):
            learn(Source(path, LABEL), FisherDiscriminant(), **run)
    finally:
        broker.close()


def test_a_stream_that_would_keep_a_replay_beside_the_first_is_refused(tmp_path):
    (tmp_path / "server").mkdir()
    broker = Nats(tmp_path / "server")
    try:
        path = in_file(tmp_path / "rows.jsonl", records(300))
        broker.do(lambda js: js.add_stream(name="plain", subjects=["plain.>"]))
        with pytest.raises(OutputError, match=r"it keeps -1 messages of a subject .*--max-msgs-per-subject 1"):
            learn(Source(path, LABEL), FisherDiscriminant(), out=broker.address.replace("/rows", "/plain"))
    finally:
        broker.close()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"out": "sqlite:///rows.db"}, UsageError, "sqlite:///rows.db: only brokers can be written to"),
        ({"out": "mqtt://h/rows"}, SourceError, "mqtt:// hands a message out once"),
        ({"out": "redis://h"}, UsageError, "host and stream are needed"),
        ({"dead_letters": "redis://:geheim@h/dead"}, UsageError, "holds a password or a token"),
        ({"model_file": "redis://h/m"}, UsageError, "--model redis://h/m: this is an address. Give a file"),
    ],
)
def test_what_cannot_be_written_to_is_refused(tmp_path, options, error, text):
    path = in_file(tmp_path / "rows.jsonl", records(300))
    with pytest.raises(error, match=text) as found:
        learn(Source(path, LABEL), FisherDiscriminant(), **options)
    assert "geheim" not in str(found.value)


def test_the_source_is_not_written_to(tmp_path):
    address = f"redis://127.0.0.1:{free_port()}/rows"
    with pytest.raises(UsageError, match="this is the source, and writing would destroy it"):
        learn(Source(address, LABEL), FisherDiscriminant(), out=address)


@pytest.mark.parametrize("kind", list(BROKERS))
def test_a_server_that_is_not_there_is_named_at_once(kind, tmp_path, monkeypatch):
    pytest.importorskip({"kafka": "confluent_kafka"}.get(kind, kind))
    module = {"kafka": "kafka_topic", "nats": "nats_stream"}.get(kind)
    if module:
        monkeypatch.setattr(f"kampong.streaming.sources.{module}.PATIENCE", 1.0)
    assert connections.AWAY > 30
    address, before = f"{kind}://127.0.0.1:{free_port()}/out", time.monotonic()
    with pytest.raises(OutputError, match=rf"{address}: .*[^.]\. Check the address"):
        learn(Source(in_file(tmp_path / "r.jsonl", records(300)), LABEL), FisherDiscriminant(), out=address)
    assert time.monotonic() - before < 30
