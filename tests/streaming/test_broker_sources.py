"""Redis, NATS and Kafka: every message is learnt once, whatever dies, and the place is in the model file."""

import json
import os
import threading
import time

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

from command import call
from kampong import FisherDiscriminant
from kampong.files import Contents
from kampong.files.model_errors import CheckpointError
from kampong.streaming import Layout, Source, learn
from kampong.streaming.errors import LearntError, ResumeError, SourceError, UsageError
from kampong.streaming.sources import kafka_topic, nats_stream, positions, redis_stream
from kampong.streaming.sources.positions import Position
from servers import BROKERS, Redis, facts_of, free_port, kill_and_compare, records
from stream_problems import rows_of, without_clock

LABEL = Layout(label="kind", drop=("id",))


@pytest.fixture(params=list(BROKERS))
def broker(request, tmp_path):
    (tmp_path / "server").mkdir()
    one = BROKERS[request.param](tmp_path / "server")
    one.kind = request.param
    yield one
    one.close()


@pytest.fixture
def small(monkeypatch):
    """Make parts and requests small, so that a short stream has many."""
    monkeypatch.setattr(positions, "SMALLEST", 32)
    monkeypatch.setattr(positions, "LARGEST", 64)
    monkeypatch.setattr(redis_stream, "LARGEST", 64)
    monkeypatch.setattr(nats_stream, "AT_ONCE", 64)


def encoded(rows):
    """Return rows as messages."""
    return [json.dumps(row).encode() for row in rows]


def once(broker, model_file, **more):
    """Learn the messages that are there."""
    source = Source(broker.address, LABEL, **more.pop("source", {}))
    return learn(source, FisherDiscriminant(), model_file=str(model_file), **more)


def test_the_rows_are_the_messages_in_their_order(broker):
    rows = records(1000)
    broker.send(encoded(rows))
    X, y = rows_of(Source(broker.address, LABEL))
    assert np.array_equal(X, [[row[f"x{j}"] for j in range(4)] for row in rows])
    assert y.tolist() == [row["kind"] for row in rows]


def test_messages_may_be_of_another_format(broker):
    sent = [f"{i % 2} 1:{i} 3:{i % 5 + 1}".encode() for i in range(300)]
    broker.send([*sent[:200], b"# no record", *sent[200:]])
    batches = list(Source(broker.address, Layout(format="libsvm", max_features=3)).open())
    X = np.concatenate([batch.X for batch in batches])
    assert np.array_equal(X, [[i, 0, i % 5 + 1] for i in range(300)])
    assert [letter.line for batch in batches for letter in batch.dead] == [201]


def test_partitions_of_different_lengths_are_read_in_turn_to_their_ends(tmp_path):
    broker = BROKERS["kafka"](tmp_path)
    rows, lengths, queues = iter(range(10_000)), (5, 400, 0, 90), []
    for partition, length in enumerate(lengths):
        queues.append([{"x": next(rows), "kind": "ab"[i % 2]} for i in range(length)])
        for one in encoded(queues[-1]):
            broker._producer.produce("rows", one, partition=partition)
    assert broker._producer.flush(30) == 0
    expected = [queue[i]["x"] for i in range(max(lengths)) for queue in queues if i < len(queue)]
    X, _ = rows_of(Source(broker.address, Layout(label="kind")))
    assert X[:, 0].tolist() == expected


def test_a_run_stopped_after_every_batch_ends_with_the_same_bits(broker, tmp_path):
    broker.send(encoded(records(900, bad=0.05)))
    once(broker, tmp_path / "whole")
    times, finished = 0, False
    while not finished:
        stop = threading.Event()
        finished = once(broker, tmp_path / "cut", watch=lambda _, stop=stop: stop.set(), stop=stop).finished
        times += 1
    assert times >= 5
    assert without_clock(tmp_path / "cut") == without_clock(tmp_path / "whole")


def test_a_finished_model_goes_on_with_the_messages_that_came_since(broker, tmp_path):
    rows = encoded(records(700))
    broker.send(rows[:400])
    once(broker, tmp_path / "m")
    with pytest.raises(LearntError, match="has learnt this already"):
        once(broker, tmp_path / "m")
    broker.send(rows[400:])
    run = once(broker, tmp_path / "m")
    assert (run.counters.rows, run.earlier.rows, run.model.class_counts_.sum()) == (700, 400, 700)
    assert once(broker, tmp_path / "m", again=True).counters.rows == 1400


def test_follow_learns_messages_as_they_come(broker, tmp_path):
    rows, stop, seen = encoded(records(500)), threading.Event(), []
    broker.send(rows[:300])

    def watch(run):
        seen.append(run.counters.rows)
        if run.counters.rows == 500:
            stop.set()

    more = {"source": {"follow": True}, "watch": watch, "stop": stop}
    thread = threading.Thread(target=once, args=(broker, tmp_path / "m"), kwargs=more)
    thread.start()
    while not seen or seen[-1] < 300:
        time.sleep(0.05)
        assert thread.is_alive()
    for start in range(300, 500, 50):  # 50 messages are no whole turns of four partitions
        broker.send(rows[start : start + 50])
        time.sleep(0.1)
    thread.join(60)
    assert seen[-1] == 500
    assert once(broker, tmp_path / "m").finished


def test_every_message_is_a_row_or_a_dead_letter(broker, tmp_path):
    good = records(400)
    spoilt = [b"", b"   ", b"{", b"[1]", b"\xff\xfe", b'{"id":1,"x0":"a","x1":1,"x2":1,"x3":1,"kind":"a"}', b"x" * 3000]
    sent = encoded(good)
    for i, one in enumerate(spoilt):
        sent.insert(200 + 7 * i, one)
    sent[300] = json.dumps(json.loads(sent[300]), indent=2).encode()  # a record on several lines
    broker.send(sent)
    layout = Layout(label="kind", drop=("id",), max_record_bytes=2000)
    run = learn(Source(broker.address, layout), FisherDiscriminant(), model_file=str(tmp_path / "m"))
    letters = [json.loads(line) for line in (tmp_path / "m.dead.jsonl").read_text().splitlines()]
    assert (run.counters.rows, run.counters.dead) == (400, len(spoilt))
    assert [letter["line"] for letter in letters] == [200 + 7 * i + 1 for i in range(len(spoilt))]
    assert [letter["reason"] for letter in letters[:2]] == ["the message is empty"] * 2
    assert letters[-1]["reason"] == "the message has 3,000 bytes, more than a record may have"
    assert {letter["source"] for letter in letters} == {broker.address}


def test_messages_whose_fields_change_in_mid_stream_are_counted_and_none_is_lost(broker, tmp_path):
    rows = records(900)
    for i, row in enumerate(rows[300:]):
        if i % 4 == 0:
            row["new"] = 1.5  # is left out
        elif i % 4 == 1:
            del row["x3"]  # is filled in
        elif i % 4 == 2:
            row["x0"] = {"value": row["x0"]}  # is a dead letter
        else:
            row["kind"] = "d"  # is learnt
    broker.send(encoded(rows))
    counters = once(broker, tmp_path / "m").counters
    assert (counters.records, counters.rows, counters.dead) == (900, 750, 150)
    assert (counters.unknown, counters.filled) == (150, 150)
    letters = [json.loads(line) for line in (tmp_path / "m.dead.jsonl").read_text().splitlines()]
    assert all("x0" in letter["reason"] for letter in letters)
    assert [letter["line"] for letter in letters] == [303 + 4 * i for i in range(150)]


def test_readers_that_join_and_leave_the_group_change_nothing(tmp_path, small):
    confluent_kafka = pytest.importorskip("confluent_kafka", reason="Kafka needs the `kafka` extra")

    broker = BROKERS["kafka"](tmp_path)
    broker.send(encoded(records(900)))
    once(broker, tmp_path / "whole")
    others = []

    def watch(run):
        if len(others) < 3:
            one = confluent_kafka.Consumer(
                {"bootstrap.servers": broker.address.split("/")[2], "group.id": "kampong", "log_level": 0}
            )
            one.subscribe(["rows"])
            one.poll(0.2)
            others.append(one)
        elif run.counters.records > 600:
            others[-1].close()

    once(broker, tmp_path / "m", watch=watch)
    for one in others:
        one.close()
    assert without_clock(tmp_path / "m") == without_clock(tmp_path / "whole")


def consumer_of(broker, group):
    """Return a consumer of a group."""
    import confluent_kafka

    servers = broker.address.split("/")[2]
    return confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})


def committed(broker, group="kampong"):
    """Return what a group has committed, partition by partition, and the ends of the partitions."""
    import confluent_kafka

    consumer = consumer_of(broker, group)
    try:
        places = [confluent_kafka.TopicPartition("rows", i) for i in range(4)]
        ends = [consumer.get_watermark_offsets(place, timeout=10)[1] for place in places]
        return [place.offset for place in consumer.committed(places, timeout=10)], ends
    finally:
        consumer.close()


def test_what_is_committed_is_the_place_of_the_saved_model(tmp_path, small):
    broker, seen = BROKERS["kafka"](tmp_path), []
    broker.send(encoded(records(603)))

    def watch(_):
        if (tmp_path / "m").exists():
            seen.append((committed(broker)[0], json.loads(facts_of(tmp_path / "m")["place.at"])))

    once(broker, tmp_path / "m", watch=watch, checkpoint_every=0)
    assert len(seen) >= 5
    assert all(mine == saved for mine, saved in seen)
    assert committed(broker) == ([151, 151, 151, 150],) * 2
    once(broker, tmp_path / "not saved every batch")
    broker.send(encoded(records(100)))
    once(broker, tmp_path / "m")
    assert committed(broker) == ([176, 176, 176, 175],) * 2


def test_a_group_of_another_name_or_none(tmp_path):
    broker = BROKERS["kafka"](tmp_path)
    broker.send(encoded(records(400)))
    address, unknown = broker.address, [-1001] * 4
    broker.address = f"{address}?group=mine"
    once(broker, tmp_path / "m")
    assert (committed(broker, "mine")[0], committed(broker)[0]) == ([100] * 4, unknown)
    broker.address = f"{address}?group="
    once(broker, tmp_path / "other")
    broker.address = address
    list(Source(broker.address, LABEL).open())  # nothing is saved
    assert committed(broker)[0] == unknown


@pytest.mark.parametrize("offset", [0, 37, 150, 10**6])
def test_what_others_commit_is_never_read(tmp_path, small, offset):
    confluent_kafka = pytest.importorskip("confluent_kafka", reason="Kafka needs the `kafka` extra")

    broker = BROKERS["kafka"](tmp_path)
    broker.send(encoded(records(600)))
    once(broker, tmp_path / "whole")
    stop, consumer = threading.Event(), consumer_of(broker, "kampong")
    once(broker, tmp_path / "m", watch=lambda run: run.counters.records < 200 or stop.set(), stop=stop)
    assert committed(broker)[0] == json.loads(facts_of(tmp_path / "m")["place.at"]) != [150] * 4
    wrong = [confluent_kafka.TopicPartition("rows", i, offset) for i in range(4)]
    consumer.commit(offsets=wrong, asynchronous=False)
    consumer.close()
    assert committed(broker)[0] == [offset] * 4
    once(broker, tmp_path / "m")
    assert without_clock(tmp_path / "m") == without_clock(tmp_path / "whole")
    assert committed(broker)[0] == [150] * 4


def test_commits_that_fail_are_one_word_and_no_more(tmp_path, small, caplog, monkeypatch):
    broker = BROKERS["kafka"](tmp_path)
    broker.send(encoded(records(600)))
    once(broker, tmp_path / "whole")
    monkeypatch.setattr(kafka_topic, "PATIENCE", 0.5)
    saves, show = [], kafka_topic.KafkaFeed.show
    monkeypatch.setattr(kafka_topic.KafkaFeed, "show", lambda self, at: saves.append(at) or show(self, at))

    def watch(run):
        if run.counters.records == 600:
            saves.clear()
            broker._cluster = None  # it stops

    assert once(broker, tmp_path / "m", watch=watch, checkpoint_every=0).finished
    assert without_clock(tmp_path / "m") == without_clock(tmp_path / "whole")
    assert saves == [[150] * 4] * 2
    (word,) = caplog.messages
    assert f"{broker.address}: the offsets could not be committed for the group kampong" in word


def test_partitions_that_were_added_are_read_from_their_start(tmp_path):
    broker = BROKERS["kafka"](tmp_path)
    broker.send(encoded(records(400)))
    batch, schema = list(Source(broker.address, LABEL).open())[-1], Source(broker.address, LABEL).open().schema
    place = {**batch.place, "at": json.dumps([100, 100, 100]), "turn": 0}
    stream = Source(broker.address, LABEL).open(place=place, schema=schema)
    assert sum(batch.records for batch in stream) == 100


def test_a_place_that_was_dropped_is_an_error_with_a_choice(broker, tmp_path):
    if broker.kind == "kafka":
        pytest.skip("the cluster of librdkafka keeps every message")
    rows = encoded(records(900))
    broker.send(rows[:300])
    once(broker, tmp_path / "m")
    broker.send(rows[300:])
    broker.drop(200)
    saved = (tmp_path / "m").read_bytes()
    with pytest.raises(SourceError, match=r"has dropped what comes after .*--from earliest .* or --from latest"):
        once(broker, tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == saved
    assert once(broker, tmp_path / "m", source={"start": "earliest"}).counters.rows == 300 + 200
    broker.send(rows[:100])
    broker.drop(50)
    with pytest.raises(LearntError):
        once(broker, tmp_path / "m", source={"start": "latest"})
    assert once(broker, tmp_path / "m", source={"start": "earliest"}).counters.rows == 300 + 200 + 50


def test_offsets_that_a_topic_does_not_have_are_an_error_with_a_choice(tmp_path):
    broker = BROKERS["kafka"](tmp_path)
    broker.send(encoded(records(400)))
    batch = list(Source(broker.address, LABEL).open())[-1]
    place = {**batch.place, "at": json.dumps([100, 100, 100, 7000])}
    schema = Source(broker.address, LABEL).open().schema
    with pytest.raises(SourceError, match=r"offset 7,000 of partition 3; it has 0 to 100"):
        Source(broker.address, LABEL).open(place=place, schema=schema)
    again = Source(broker.address, LABEL, start="earliest").open(place=place, schema=schema)
    assert sum(batch.records for batch in again) == 100
    again.close()
    place["at"] = json.dumps([100] * 5)
    with pytest.raises(ResumeError, match="fewer partitions"):
        Source(broker.address, LABEL).open(place=place, schema=schema)


def test_latest_begins_with_the_messages_that_come(broker, tmp_path):
    broker.send(encoded(records(300)))
    with pytest.raises(SourceError, match="holds no record"):
        once(broker, tmp_path / "m", source={"start": "latest"})


def test_another_stream_in_the_middle_of_a_run_is_refused(broker, tmp_path):
    broker.send(encoded(records(600)))
    stop = threading.Event()
    once(broker, tmp_path / "m", watch=lambda _: stop.set(), stop=stop)
    facts = facts_of(tmp_path / "m")
    other = {**{name.removeprefix("place."): facts[name] for name in facts if name.startswith("place.")}}
    other["source"] = "another"
    schema = Source(broker.address, LABEL).open().schema
    with pytest.raises(ResumeError, match="not the one this model was learnt from"):
        Source(broker.address, LABEL).open(place=other, schema=schema)


def test_fields_of_an_entry_are_columns(tmp_path):
    broker = Redis(tmp_path)
    try:
        rows = records(400)
        with broker.client as client:
            for row in rows:
                client.xadd("rows", {name: str(value) for name, value in row.items()})
            client.xadd("rows", {"x0": "much", "x1": "1", "x2": "1", "x3": "1", "kind": "a"})
            for row in rows:
                client.xadd("named", {"at": "now", "record": json.dumps(row)})
            client.xadd("named", {"at": "now"})
        for name, more, reason in (("rows", {}, "x0"), ("named", {"field": "record"}, "no field 'record'")):
            source = Source(broker.address.replace("/rows", f"/{name}"), LABEL, **more)
            batches = list(source.open())
            X = np.concatenate([batch.X for batch in batches if batch.rows])
            assert np.array_equal(X, [[row[f"x{j}"] for j in range(4)] for row in rows])
            (letter,) = [letter for batch in batches for letter in batch.dead]
            assert (letter.line, reason in letter.reason or "column_0" in letter.reason) == (401, True)
    finally:
        broker.close()


def test_no_secret_is_in_what_a_run_leaves(tmp_path, capfd, monkeypatch):
    (tmp_path / "server").mkdir()
    broker = Redis(tmp_path / "server", password="geheim-4711")
    try:
        broker.send(encoded(records(400)))
        arguments = ["learn", broker.address, "--label", "kind", "--drop", "id", "-m", tmp_path / "run.m"]
        printed = call(capfd, *arguments, expect=3)
        assert "authenticated" in printed.err
        monkeypatch.setenv("REDIS_PASSWORD", "geheim-4711")
        printed += call(capfd, *arguments, "--report", tmp_path / "r.html", "--out", tmp_path / "o.csv")
        assert "geheim" not in "".join(printed)
        left = [path for path in tmp_path.iterdir() if path.is_file()]
        assert len(left) >= 3
        assert not [path for path in left if b"geheim" in path.read_bytes()]
    finally:
        broker.close()


@pytest.mark.parametrize(
    ("kind", "more", "error", "text"),
    [
        ("kafka", {"layout": Layout(format="csv")}, SourceError, "--format csv is not for kafka. Use jsonl or libsvm"),
        ("nats", {"start": "now"}, UsageError, "--from must be earliest or latest; got 'now'"),
        ("nats", {"query": "SELECT 1"}, UsageError, "--query does not belong to a source of the kind nats"),
        ("redis", {"live": True}, UsageError, "redis goes on from the place"),
        ("redis", {"path": "redis://127.0.0.1"}, UsageError, "host and stream are needed"),
        (
            "redis",
            {"path": "redis:/127.0.0.1/rows"},
            SourceError,
            "redis: begins no file that is there. An address begins with redis://",
        ),
        (
            "s3",
            {"path": "S3:bucket/rows.csv"},
            SourceError,
            "S3: begins no file that is there. An address begins with s3://",
        ),
        ("reddis", {}, SourceError, r"reddis:// is no source that is known. Is redis:// meant\?"),
        ("mqtt", {}, SourceError, r"mqtt:// hands a message out once.* `kampong learn - --live --format jsonl`"),
    ],
)
def test_what_does_not_fit_is_refused(kind, more, error, text):
    options = {"path": f"{kind}://127.0.0.1:1/rows", **more}
    with pytest.raises(error, match=text):
        Source(**options).open()


@pytest.mark.parametrize("kind", list(BROKERS))
def test_a_server_that_is_not_there_is_named(kind, monkeypatch):
    pytest.importorskip({"kafka": "confluent_kafka"}.get(kind, kind))
    if kind == "kafka":
        monkeypatch.setattr(kafka_topic, "PATIENCE", 1.0)
    address = f"{kind}://127.0.0.1:{free_port()}/rows"
    with pytest.raises(SourceError, match=f"{address}: .*Check the address"):
        Source(address, LABEL).open()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("row", 0),
        ("in_source", 11),
        ("source", ""),
        ("at", "[[1]]"),
        ("at", "[" * 100_000),
        ("at", "[null]"),
        ("turn", 2),
        ("earlier", "[]"),
        ("earlier", '{"a": [1, 0]}'),
        ("earlier", '{"a": [[1], -1]}'),
    ],
)
def test_a_place_that_cannot_be_is_refused(name, value):
    state = Position(10, 10, "redis rows", "[1, 2]", 1, '{"a": [[3], 0]}').to_state()
    assert Position.from_state(Contents({}, state, "x")) == Position(**state)
    with pytest.raises(CheckpointError, match=name):
        Position.from_state(Contents({}, {**state, name: value}, "x"))


@pytest.mark.parametrize("times", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_a_server_that_dies_and_comes_back_loses_no_message(broker, tmp_path, small, times):
    if broker.kind == "kafka":
        pytest.skip("the cluster of librdkafka keeps its messages in memory")
    broker.send(encoded(records(700 * times, bad=0.05)))
    once(broker, tmp_path / "whole")
    batches, deaths = [], []

    def watch(run):
        batches.append(run.counters.records)
        if len(batches) % 10 == 5 and len(deaths) < times:
            broker.server.die_for(0.3)
            deaths.append(run.counters.records)

    run = once(broker, tmp_path / "m", watch=watch)
    print(f"{broker.kind}: {len(deaths)} deaths of the server")
    assert len(deaths) == times
    assert run.counters.records == 700 * times
    assert without_clock(tmp_path / "m") == without_clock(tmp_path / "whole")


def test_a_server_that_is_away_when_a_message_was_deleted_is_asked_again(tmp_path, monkeypatch):
    broker = BROKERS["nats"](tmp_path)
    try:
        broker.send([json.dumps({"x": i, "kind": "ab"[i % 2]}).encode() for i in range(300)])
        broker.do(lambda js: js.delete_msg("rows", 100))
        ask, asked = nats_stream.NatsFeed._info, []

        def away(feed):
            asked.append(feed._next)
            if asked.count(100) == 1:  # the place of the deleted message
                raise TimeoutError
            return ask(feed)

        monkeypatch.setattr(nats_stream.NatsFeed, "_info", away)
        X, _ = rows_of(Source(broker.address, Layout(label="kind")))
        assert asked.count(100) >= 2
        assert X[:, 0].tolist() == [i for i in range(300) if i != 99]
    finally:
        broker.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks")
@pytest.mark.parametrize("kills", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_a_learner_killed_again_and_again_loses_no_message(broker, tmp_path, kills):
    rows = records(1500, bad=0.05)
    broker.send(encoded(rows))
    kill_and_compare(tmp_path / "runs", broker.address, kills, len(rows), drop=True)
