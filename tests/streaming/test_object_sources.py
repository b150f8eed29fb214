"""S3, Google Cloud Storage and web servers: the rows of the same local file, exact resume, and no secret anywhere."""

import gzip
import io
import threading
import time
import urllib.request

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

import pyarrow as pa
import pyarrow.parquet as pq

from command import call
from kampong import FisherDiscriminant
from kampong.streaming import Layout, Source, learn
from kampong.streaming.errors import LearntError, ResumeError, SourceError, UsageError
from kampong.streaming.sources import objects
from object_stores import Store, apart
from servers import records
from stream_problems import rows_of, without_clock

LABEL = Layout(label="kind", drop=("id",))
SECRET = "geheim-4711"


def csv(rows):
    """Return rows as CSV."""
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    return "".join(f"{line}\n" for line in lines).encode()


def parquet(rows):
    """Return rows as Parquet, in several row groups."""
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file, row_group_size=300)
    return file.getvalue()


def arrow(rows):
    """Return rows as an Arrow file."""
    file, table = io.BytesIO(), pa.Table.from_pylist(rows)
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, 250)
    return file.getvalue()


@pytest.fixture
def store(monkeypatch):
    """Serve an empty store; credentials are in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    one = Store()
    with one.serving() as host:
        one.host = host
        yield one


def web(host, name):
    return f"http://{host}/box/{name}"


def s3(host, name):
    return f"s3://box/{name}?endpoint_override={host}&scheme=http"


def google(host, name):
    return f"gs://box/{name}?anonymous=yes&endpoint_override={host}&scheme=http"


@pytest.mark.parametrize("where", [web, s3])
def test_the_rows_are_those_of_the_same_bytes_here(store, tmp_path, where):
    rows = records(900)
    made = {
        "a.csv": csv(rows),
        "b.csv.gz": gzip.compress(csv(rows)),
        "c.parquet": parquet(rows),
        "d.arrow": arrow(rows),
    }
    for name, data in made.items():
        store.files[f"box/{name}"] = data
        (tmp_path / name).write_bytes(data)
        here, there = Source(str(tmp_path / name), LABEL), Source(where(store.host, name), LABEL)
        X, y = rows_of(there)
        assert np.array_equal(X, [[row[f"x{j}"] for j in range(4)] for row in rows])
        assert y.tolist() == [row["kind"] for row in rows]
        places = [[batch.place for batch in source.open()] for source in (here, there)]
        assert places[0] == places[1]


def test_google_gives_files_and_folders():
    rows = records(600)
    files = {"box/rows/1.parquet": parquet(rows[:350]), "box/rows/2.parquet": parquet(rows[350:])}
    with apart({**files, "box/a.csv": csv(rows)}) as host:
        for name in ("a.csv", "rows"):
            X, _ = rows_of(Source(google(host, name), LABEL))
            assert np.array_equal(X, [[row[f"x{j}"] for j in range(4)] for row in rows])
        with pytest.raises(SourceError, match=r"none\.csv.*Check the address and the credentials"):
            Source(google(host, "none.csv"), LABEL).open()


@pytest.mark.parametrize(("where", "name"), [(web, "a.csv"), (web, "a.csv.gz"), (s3, "a.csv"), (s3, "a.parquet")])
def test_a_run_stopped_after_every_batch_ends_with_the_same_bits(store, tmp_path, where, name):
    data = parquet(records(900)) if "parquet" in name else csv(records(900))
    store.files[f"box/{name}"] = gzip.compress(data) if "gz" in name else data
    source, times, finished = Source(where(store.host, name), LABEL), 0, False
    learn(source, FisherDiscriminant(), model_file=str(tmp_path / "whole"))
    while not finished:
        stop = threading.Event()
        halt = {"watch": lambda _, stop=stop: stop.set(), "stop": stop}
        finished = learn(source, FisherDiscriminant(), model_file=str(tmp_path / "cut"), **halt).finished
        times += 1
    assert times >= 4
    assert without_clock(tmp_path / "cut") == without_clock(tmp_path / "whole")


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_other_bytes_at_the_address_are_refused(store, tmp_path, name):
    make = parquet if "parquet" in name else csv
    store.files[f"box/{name}"] = make(records(900))
    stop, source, model = threading.Event(), Source(web(store.host, name), LABEL), str(tmp_path / "m")
    learn(source, FisherDiscriminant(), model_file=model, watch=lambda _: stop.set(), stop=stop)
    store.files[f"box/{name}"] = make(records(900, seed=1))
    with pytest.raises(ResumeError, match=r"not (the one|those) this model was learnt from"):
        learn(source, FisherDiscriminant(), model_file=model)


def test_tomorrows_files_are_learnt_and_those_known_are_left_out(store, tmp_path):
    rows, model = records(900), str(tmp_path / "m")
    store.files |= {
        "box/day/1.csv": csv(rows[:300]),
        "box/day/.hidden.csv": b"?",
        "box/day/more/2.csv": csv(rows[300:600]),
    }
    folder = Source(s3(store.host, "day/"), LABEL)
    assert learn(folder, FisherDiscriminant(), model_file=model).counters.rows == 600
    with pytest.raises(LearntError, match="has learnt this already"):
        learn(folder, FisherDiscriminant(), model_file=model)
    store.files["box/day/3.csv"] = csv(rows[600:])
    run = learn(folder, FisherDiscriminant(), model_file=model)
    assert (run.counters.rows, len(run.skipped)) == (900, 2)
    (tmp_path / "copy.csv").write_bytes(csv(rows[:300]))  # the same bytes, wherever they are
    with pytest.raises(LearntError):
        learn(Source(str(tmp_path / "copy.csv"), LABEL), FisherDiscriminant(), model_file=model)
    X, _ = rows_of(Source(s3(store.host, "day/1.csv"), LABEL, more=(web(store.host, "day/3.csv"),)))
    assert len(X) == 600


@pytest.mark.parametrize(("ranges", "sized"), [(True, True), (False, True), (False, False)])
def test_connections_that_break_are_taken_up_again(store, ranges, sized):
    rows = records(6000)
    store.files["box/a.csv"], store.ranges, store.sized = csv(rows), ranges, sized
    store.breaks = 3 if sized else 0  # without a length, an end cannot be told from a break
    X, _ = rows_of(Source(web(store.host, "a.csv"), LABEL))
    assert len(X) == 6000
    assert store.breaks == 0


def test_tables_come_from_servers_without_parts_if_they_say_the_length(store):
    rows = records(900)
    store.files["box/a.parquet"], store.ranges = parquet(rows), False
    assert len(rows_of(Source(web(store.host, "a.parquet"), LABEL))[0]) == 900
    store.sized = False
    with pytest.raises(SourceError, match="does not say how long the file is, which tables need"):
        rows_of(Source(web(store.host, "a.parquet"), LABEL))


def test_a_file_that_changes_while_it_is_read_is_an_error(store, monkeypatch):
    store.files["box/a.csv"], store.breaks = csv(records(6000)), 1
    opened = objects.WebFile._ask
    asked = []

    def ask(file):
        if asked:
            store.version = '"2"'
        asked.append(file)
        opened(file)

    monkeypatch.setattr(objects.WebFile, "_ask", ask)
    with pytest.raises(SourceError, match="the file has changed while it was read"):
        rows_of(Source(web(store.host, "a.csv"), LABEL))


def test_a_server_that_stays_away_ends_the_run_which_keeps_what_it_learnt(store, tmp_path, monkeypatch):
    monkeypatch.setattr(objects, "PATIENCE", 0.5)
    store.files["box/a.csv"], store.breaks = csv(records(6000)), 1000
    store.ranges = False  # every answer ends at the same place
    model = str(tmp_path / "m")
    with pytest.raises(SourceError, match="reading stopped after"):
        learn(Source(web(store.host, "a.csv"), LABEL), FisherDiscriminant(), model_file=model)
    store.breaks = 0
    run = learn(Source(web(store.host, "a.csv"), LABEL), FisherDiscriminant(), model_file=model)
    assert run.resumed
    assert run.counters.rows == 6000


def test_secrets_come_from_a_file_and_go_to_one_server(store, tmp_path, capfd, monkeypatch):
    store.files["box/a.csv"], store.password = csv(records(400)), "Basic"
    arguments = ["learn", web(store.host, "a.csv"), "--label", "kind", "-m", tmp_path / "m", "--report", tmp_path / "r"]
    printed = call(capfd, *arguments, expect=3)
    assert "HTTP Error 401" in printed.err
    (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login someone password {SECRET}\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    printed += call(capfd, *arguments)
    store.password = ""
    printed += call(capfd, "learn", s3(store.host, "a.csv"), "--label", "kind", "-m", tmp_path / "s", "-q")
    assert SECRET not in "".join(printed)
    left = [path for path in tmp_path.iterdir() if path.name != "netrc"]
    assert len(left) >= 3
    assert not [path for path in left if SECRET.encode() in path.read_bytes()]
    assert any(one[3].startswith("Basic ") for one in store.asked)
    other = Store()
    other.files["box/a.csv"] = csv(records(400))
    with other.serving() as host:
        store.redirect = web(host, "a.csv")
        assert len(rows_of(Source(web(store.host, "a.csv"), LABEL))[0]) == 400
    assert [one[3] for one in other.asked] == [""]


def test_a_server_that_sends_away_from_encryption_is_not_followed():
    request = urllib.request.Request("https://somewhere/rows.csv")
    with pytest.raises(OSError, match="http://, which is not encrypted"):
        objects.Redirects().redirect_request(request, None, 302, "", {}, "http://elsewhere/rows.csv")


@pytest.mark.parametrize(
    "address",
    [
        f"https://me:{SECRET}@host/rows.csv",
        f"s3://{SECRET}@box/rows.csv",
        f"https://host/rows.csv?X-Amz-Credential=a&X-Amz-Signature={SECRET}",
        f"https://host/rows.csv?sig={SECRET}",
        f"https://host/rows.csv?api_key={SECRET}",
    ],
)
def test_an_address_with_a_secret_is_refused_without_repeating_it(address):
    with pytest.raises(UsageError, match="holds a password or a token") as found:
        Source(address, LABEL)
    assert SECRET not in str(found.value)


@pytest.mark.parametrize(
    ("name", "options", "error", "text"),
    [
        (
            "a.csv",
            {"follow": True},
            UsageError,
            "--follow is for files and streams that grow; http gives what is there",
        ),
        ("a.csv", {"live": True}, UsageError, "--live is for stdin"),
        ("a.csv", {"order_by": "id"}, UsageError, "--order-by does not belong"),
        ("none.csv", {}, SourceError, r"HTTP Error 404.*\. Check the address and the credentials"),
        ("empty.csv", {}, SourceError, "the source holds no record"),
        ("a.npy", {}, SourceError, "npy is read from this machine only. Copy the file here"),
        ("a.parquet", {"untrusted": True}, SourceError, "parquet is read with --untrusted from this machine only"),
        ("a.csv", {"more": ("redis://h/rows",)}, SourceError, "is read alone. Give one at a time"),
    ],
)
def test_what_does_not_fit_is_refused(store, name, options, error, text):
    store.files |= {
        "box/a.csv": csv(records(300)),
        "box/empty.csv": b"",
        "box/a.npy": b"\x93NUMPY",
        "box/a.parquet": b"",
    }
    with pytest.raises(error, match=text):
        list(Source(web(store.host, name), LABEL, **options).open())


def test_the_environment_says_where_s3_is(store, monkeypatch):
    store.files["box/a.csv"] = csv(records(300))
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{store.host}/")
    assert len(rows_of(Source("s3://box/a.csv", LABEL))[0]) == 300


def test_an_option_that_no_store_has_is_named(store):
    with pytest.raises(UsageError, match=r"\?profile= is unknown. Use region, endpoint_override, scheme, anonymous"):
        Source(f"{s3(store.host, 'a.csv')}&profile=me", LABEL).open()


def test_a_store_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(objects, "PATIENCE", 0.5)
    before = time.monotonic()
    with pytest.raises(SourceError, match=r"http://127\.0\.0\.1:1/a\.csv: .*refused.*Check the address"):
        Source("http://127.0.0.1:1/a.csv", LABEL).open()
    assert time.monotonic() - before < 20
