"""Tables of SQLite, DuckDB and PostgreSQL: the rows of the same file, exact resume, and no secret anywhere."""

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

from command import call
from kampong import FisherDiscriminant
from kampong.streaming import Layout, Source, learn
from kampong.streaming.errors import ColumnError, LearntError, ResumeError, SourceError, UsageError
from servers import facts_of, kill_and_compare, postgresql, records
from stream_problems import rows_of, without_clock

PASSWORD = "geheim-4711"
COLUMNS = ("id", "x0", "x1", "x2", "x3", "kind")
LABEL = Layout(label="kind")


@pytest.fixture(scope="module")
def server():
    """Start PostgreSQL once, and let the clients know its password as a user would."""
    with postgresql() as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", PASSWORD)
        yield address


class Base:
    """A base of tables of one kind, in which a test can write."""

    def __init__(self, kind, folder, request):
        self.kind, self.file = kind, folder / f"rows.{kind}"
        if kind == "duckdb":
            pytest.importorskip("duckdb", reason="DuckDB needs the `sql` extra")
        self.server = request.getfixturevalue("server") if kind == "postgresql" else ""
        self.sql("DROP TABLE IF EXISTS rows")
        self.number = "double precision" if kind != "sqlite" else "real"

    @property
    def address(self):
        return f"{self.server or f'{self.kind}:///{self.file}'}?table=rows"

    def sql(self, *texts):
        """Run statements."""
        if self.kind == "postgresql":
            import adbc_driver_postgresql.dbapi as client

            with client.connect(self.server, autocommit=True) as base, base.cursor() as cursor:
                for text in texts:
                    cursor.execute(text)
            return
        if self.kind == "duckdb":
            import duckdb

            base = duckdb.connect(str(self.file))
        else:
            base = sqlite3.connect(self.file)
        for text in texts:
            base.execute(text)
        if self.kind == "sqlite":
            base.commit()
        base.close()

    def create(self, key="bigint"):
        columns = ", ".join(f"x{j} {self.number}" for j in range(4))
        self.sql(f"CREATE TABLE rows (id {key}, {columns}, kind text)")

    def insert(self, rows):
        for start in range(0, len(rows), 500):
            values = ", ".join(
                "(" + ", ".join(repr(row[name]) for name in COLUMNS) + ")" for row in rows[start : start + 500]
            )
            self.sql(f"INSERT INTO rows VALUES {values}")

    def source(self, **more):
        return Source(self.address, LABEL, **{"order_by": "id", **more})


@pytest.fixture(params=["sqlite", "duckdb", "postgresql"])
def base(request, tmp_path):
    return Base(request.param, tmp_path, request)


def test_the_rows_are_those_of_the_table_in_their_order(base):
    rows = records(1000)
    base.create()
    base.insert(rows[::-1])
    X, y = rows_of(base.source())
    assert np.array_equal(X, [[row[f"x{j}"] for j in range(4)] for row in rows])
    assert y.tolist() == [row["kind"] for row in rows]


def test_a_query_is_learnt_in_place_of_a_table(base):
    rows = records(600)
    base.create()
    base.insert(rows)
    address = base.address.removesuffix("?table=rows")
    query = "SELECT id, x0 + x1 AS s, kind FROM rows WHERE id >= 300;"
    X, _ = rows_of(Source(address, LABEL, order_by="id", query=query))
    assert np.allclose(X, [[row["x0"] + row["x1"]] for row in rows if row["id"] >= 300], rtol=1e-15, atol=0)


@pytest.mark.parametrize(("key", "value"), [("bigint", "{}"), ("text", "'it''s {:06}'"), ("date", "'{}'")])
def test_a_run_stopped_after_every_batch_ends_with_the_same_bits(base, tmp_path, key, value):
    days = [np.datetime64("1970-01-01") + i for i in range(700)]
    base.create(key)
    rows = records(700)
    for start in range(0, 700, 500):
        part = [
            f"({value.format(days[i] if key == 'date' else i)}, "
            + ", ".join(repr(rows[i][name]) for name in COLUMNS[1:])
            + ")"
            for i in range(start, min(start + 500, 700))
        ]
        base.sql(f"INSERT INTO rows VALUES {', '.join(part)}")
    whole, cut = str(tmp_path / "whole"), str(tmp_path / "cut")
    learn(base.source(), FisherDiscriminant(), model_file=whole)
    assert stopped_after_every_batch(base.source, cut) >= 4
    assert without_clock(cut) == without_clock(whole)


def stopped_after_every_batch(source, model_file):
    """Learn a source batch by batch, in a run of its own each; return how many there were."""
    times, finished = 0, False
    while not finished:
        stop = threading.Event()
        halt = {"watch": lambda _, stop=stop: stop.set(), "stop": stop}
        finished = learn(source(), FisherDiscriminant(), model_file=model_file, **halt).finished
        times += 1
    return times


def test_the_order_of_several_columns_is_resumed_exactly(base, tmp_path):
    rows = records(600)
    base.create()
    base.insert([{**row, "id": i // 100} for i, row in enumerate(rows)])
    order = {"order_by": "id,x0,x1,x2"}  # x0 ties in places
    whole, cut = str(tmp_path / "whole"), str(tmp_path / "cut")
    learn(base.source(**order), FisherDiscriminant(), model_file=whole)
    stopped_after_every_batch(lambda: base.source(**order), cut)
    assert without_clock(cut) == without_clock(whole)


def test_a_finished_model_goes_on_with_the_rows_that_came_since(base, tmp_path):
    rows, model = records(900), str(tmp_path / "m")
    base.create()
    base.insert(rows[:500])
    learn(base.source(), FisherDiscriminant(), model_file=model)
    with pytest.raises(LearntError, match="has learnt this already"):
        learn(base.source(), FisherDiscriminant(), model_file=model)
    base.insert(rows[500:])
    run = learn(base.source(), FisherDiscriminant(), model_file=model)
    assert (run.counters.rows, run.earlier.rows) == (900, 500)
    assert run.model.class_counts_.sum() == 900
    run = learn(base.source(), FisherDiscriminant(), model_file=model, again=True)
    assert run.counters.rows == 1800


def test_two_tables_in_turn_are_each_gone_on_with(base, tmp_path):
    rows, model = records(400), str(tmp_path / "m")
    base.create()
    base.insert(rows[:200])
    other = base.source(query="SELECT * FROM rows WHERE id < 300")
    other = Source(base.address.removesuffix("?table=rows"), LABEL, order_by="id", query=other.query)
    learn(base.source(), FisherDiscriminant(), model_file=model)
    learn(other, FisherDiscriminant(), model_file=model)
    base.insert(rows[200:])
    assert learn(base.source(), FisherDiscriminant(), model_file=model).counters.rows == 200 + 100 + 200
    with pytest.raises(LearntError):
        learn(other, FisherDiscriminant(), model_file=model)


def test_follow_waits_for_rows(base, tmp_path):
    rows, stop, seen = records(400), threading.Event(), []
    base.create()
    base.insert(rows[:200])

    def watch(run):
        seen.append(run.counters.rows)
        if run.counters.rows == 400:
            stop.set()

    model = FisherDiscriminant()
    thread = threading.Thread(
        target=learn, args=(base.source(follow=True), model), kwargs={"watch": watch, "stop": stop}
    )
    thread.start()
    while not seen or seen[-1] < 200:
        time.sleep(0.05)
        assert thread.is_alive()
    if base.kind == "duckdb":  # a file of DuckDB has one writer, or readers
        stop.set()
    else:
        base.insert(rows[200:])
    thread.join(60)
    assert seen[-1] == (200 if base.kind == "duckdb" else 400)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"order_by": ""}, UsageError, r"give --order-by, or \?order-by=… in the address"),
        ({"order_by": "nr"}, ColumnError, "no column is named 'nr'"),
        ({"order_by": "kind"}, SourceError, "two rows have the same kind: 'a'"),
        ({"query": "SELECT 1"}, UsageError, "there are both"),
        ({"live": True}, UsageError, "--live is for stdin"),
        ({"untrusted": True}, UsageError, "--untrusted is for files"),
        ({"field": "x"}, UsageError, "--field does not belong"),
        ({"more": ("b.csv",)}, SourceError, "one at a time"),
    ],
)
def test_what_does_not_fit_is_refused(base, options, error, text):
    base.create()
    base.insert(records(300))
    with pytest.raises(error, match=text):
        list(base.source(**options).open())


def test_rows_without_a_place_are_refused(base):
    base.create()
    base.insert(records(300))
    base.sql("INSERT INTO rows VALUES (NULL, 1, 2, 3, 4, 'a')")
    with pytest.raises(SourceError, match="a row has no value in id"):
        base.source().open()


def test_ties_between_two_batches_are_refused(base):
    rows = records(256)
    rows[128]["id"] = rows[127]["id"]
    base.create()
    base.insert(rows)
    with pytest.raises(SourceError, match=f"the same id: {rows[127]['id']}"):
        list(base.source().open())


def test_servers_and_tables_that_are_not_there_are_named(base, tmp_path):
    base.create()
    with pytest.raises(SourceError, match="nope"):
        Source(
            base.address.replace("rows", "nope") if base.server else f"{base.kind}:///{base.file}?table=nope",
            LABEL,
            order_by="id",
        ).open()
    missing = "postgresql://127.0.0.1:1/x" if base.server else f"{base.kind}:///{tmp_path}/none"
    with pytest.raises(SourceError, match=r"there is no such file|Connection refused"):
        Source(f"{missing}?table=rows", LABEL, order_by="id").open()
    assert not (tmp_path / "none").exists()


def test_a_whole_path_with_one_slash_too_few_is_shown_with_all_of_them(tmp_path):
    (tmp_path / "rows.db").touch()
    address = f"sqlite://{tmp_path}/rows.db?table=rows"
    with pytest.raises(SourceError, match=f"there is no such file. Write sqlite:///{tmp_path}/rows.db for a whole"):
        Source(address, LABEL, order_by="id").open()
    with pytest.raises(SourceError, match=r"none: there is no such file\. Give a file that is there"):
        Source(f"sqlite://{tmp_path}/none?table=rows", LABEL, order_by="id").open()


def test_another_source_in_the_middle_of_a_run_is_refused(base, tmp_path):
    base.create()
    base.insert(records(600))
    stop, model = threading.Event(), str(tmp_path / "m")
    learn(base.source(), FisherDiscriminant(), model_file=model, watch=lambda _: stop.set(), stop=stop)
    with pytest.raises(ResumeError, match="not the one this model was learnt from"):
        learn(base.source(order_by="id,x0"), FisherDiscriminant(), model_file=model)
    (tmp_path / "a.csv").write_text("x0,x1,x2,x3,kind\n1,2,3,4,a\n")
    with pytest.raises(ResumeError, match="goes on with sources of that kind only"):
        learn(Source(str(tmp_path / "a.csv"), LABEL), FisherDiscriminant(), model_file=model)


def test_a_text_among_numbers_is_a_dead_letter(tmp_path, request):
    base = Base("sqlite", tmp_path, request)
    base.create()
    base.insert(records(900, bad=0.1))
    run = learn(base.source(), FisherDiscriminant(), model_file=str(tmp_path / "m"))
    letters = [json.loads(line) for line in (tmp_path / "m.dead.jsonl").read_text().splitlines()]
    wrong = [i for i, row in enumerate(records(900, bad=0.1)) if isinstance(row["x1"], str)]
    assert run.counters.dead == len(wrong) > 50
    assert [letter["line"] - 1 for letter in letters] == wrong
    assert letters[0]["reason"] == f"column 'x1' holds 'oops {wrong[0]}', which is not a number"


def test_numbers_of_any_precision_are_numbers(tmp_path, request):
    base = Base("postgresql", tmp_path, request)
    base.sql("CREATE TABLE rows (id numeric(40), x0 numeric(12, 4), kind text)")
    big = 10**35
    base.sql(
        f"INSERT INTO rows SELECT {big} + i, i / 8.0, CASE WHEN i % 2 = 0 THEN 'a' ELSE 'b' END "
        "FROM generate_series(0, 499) AS i"
    )
    X, _ = rows_of(base.source())
    assert np.array_equal(X[:, 0], np.arange(500) / 8.0)
    whole, cut = str(tmp_path / "whole"), str(tmp_path / "cut")
    learn(base.source(), FisherDiscriminant(), model_file=whole)
    stopped_after_every_batch(base.source, cut)  # as float64, the numbers of the order would all be one
    assert without_clock(cut) == without_clock(whole)


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://kampong:{PASSWORD}@h/base?table=rows",
        f"postgresql://h/base?table=rows&password={PASSWORD}",
        f"redis://:{PASSWORD}@h/rows",
        f"nats://{PASSWORD}@h/rows",
        f"mqtt://u:{PASSWORD}@h/rows",
    ],
)
def test_an_address_with_a_secret_is_refused_without_repeating_it(tmp_path, capfd, address):
    model = tmp_path / "m"
    for given in ([address], ["a.csv", address]):
        printed = call(capfd, "learn", *given, "--label", "kind", "-m", model, expect=2)
        assert "holds a password or a token" in printed.err
        assert PASSWORD not in printed.err + printed.out
    assert not model.exists()


def test_no_secret_is_in_what_a_run_leaves(tmp_path, capfd, request, monkeypatch):
    base = Base("postgresql", tmp_path, request)
    base.create()
    base.insert(records(400))
    arguments = ["--order-by", "id", "--label", "kind", "-m", tmp_path / "m", "--out", tmp_path / "o.csv"]
    printed = call(capfd, "learn", base.address, *arguments, "--report", tmp_path / "r.html")
    printed += call(capfd, "inspect", tmp_path / "m")
    base.sql("INSERT INTO rows VALUES (999999, 1, 2, 3, 4, 'a')")
    monkeypatch.setenv("PGPASSWORD", f"{PASSWORD}-wrong")
    printed += call(capfd, "learn", base.address, *arguments, expect=3)
    assert "password authentication failed" in printed[-1]
    assert PASSWORD not in "".join(printed)
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(left) >= 3
    assert not [path for path in left if PASSWORD.encode() in path.read_bytes()]
    assert facts_of(tmp_path / "m")["source"] == base.address  # the model file can be read, and names its source


def test_the_other_commands_read_tables_too(base, tmp_path, capfd):
    base.create()
    base.insert(records(400))
    call(capfd, "learn", base.address, "--order-by", "id", "--label", "kind", "-m", tmp_path / "m", "-q")
    printed = call(capfd, "score", f"{base.address}&order-by=id", "-m", tmp_path / "m", "--json")
    assert json.loads(printed.out)["rows"] == 400


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks")
@pytest.mark.parametrize("kills", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_a_learner_killed_again_and_again_loses_no_row(base, tmp_path, kills):
    rows = records(1500, bad=0.05 * (base.kind == "sqlite"))
    base.create()
    base.insert(rows)
    kill_and_compare(tmp_path / "runs", base.address, kills, len(rows), order_by="id")


def test_a_command_about_duckdb_that_fails_says_one_thing(tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="DuckDB needs the `sql` extra")
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as base:
        base.execute("CREATE TABLE rows (x DOUBLE, kind VARCHAR)")
    command = [sys.executable, "-m", "kampong", "learn", "duckdb:///rows.duckdb?table=rows", "-l", "kind", "-m", "m"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert [line[:8] for line in done.stderr.splitlines()] == ["kampong:"]
