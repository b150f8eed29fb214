"""Cells as people type them are read as a careful person would; what was decided is said, kept and can be changed."""

import datetime as dt
import json
import math
from collections import Counter
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kampong
from command import call
from kampong.streaming import learn
from kampong.streaming.columns import cells
from kampong.streaming.columns.schema import Layout, infer
from kampong.streaming.formats.delimited import Names
from kampong.streaming.sources.source import Source

pa = pytest.importorskip("pyarrow")


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("1,226.10", 1226.10),
        ("1'226", 1226.0),
        ("1\u00a0226.5", 1226.5),
        ("9.6%", 0.096),
        ("9.6 %", 0.096),
        ("$4", 4.0),
        ("-$4", -4.0),
        ("$-4", -4.0),
        ("€ 1,000", 1000.0),
        ("4 EUR", 4.0),
        ("USD 4.50", 4.5),
        ("(12)", -12.0),
        ("($1,200.50)", -1200.5),
        ("−3", -3.0),
        ("1e-3", 1e-3),
        (".5", 0.5),
        ("1,22", None),
        ("12,3456", None),
        ("12-3", None),
        ("1.2.3", None),
        ("(555) 123-4567", None),
        ("10.0.0.1", None),
        ("EUR", None),
        ("$", None),
        ("%", None),
        ("apple", None),
        ("9" * 50 + "%", None),
    ],
)
def test_numbers_with_a_point(cell, value):
    assert cells.number(cell) == (pytest.approx(value) if value is not None else None)


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("2,5", 2.5),
        ("1.226,10", 1226.10),
        ("1.226", 1226.0),
        ("-,5", -0.5),
        ("4,50 €", 4.5),
        ("0.52", 0.52),
        ("2,5a", None),
    ],
)
def test_numbers_with_a_comma(cell, value):
    assert cells.number(cell, ",") == (pytest.approx(value) if value is not None else None)


@given(
    st.decimals(-(10**9), 10**9, places=2),
    st.sampled_from([",", "'", " ", "\u00a0", "\u202f"]),
    st.sampled_from(["{}", "${}", "{} €", "EUR {}", "{} USD"]),
    st.booleans(),
)
def test_what_is_written_is_read_again(amount, groups, currency, in_parentheses):
    text = currency.format(f"{abs(amount):,.2f}".replace(",", groups))
    text = (f"({text})" if in_parentheses else f"-{text}") if amount < 0 else text
    assert cells.number(text) == pytest.approx(float(amount), rel=1e-12)
    european = f"{amount:,.2f}".translate({ord(","): ".", ord("."): ","})
    assert cells.number(european, ",") == pytest.approx(float(amount), rel=1e-12)


@given(
    st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2068, 12, 31)).map(lambda moment: moment.replace(microsecond=0))
)
def test_dates_of_every_order_are_the_same_day(moment):
    days = (moment - dt.datetime(1970, 1, 1)).total_seconds() / 86_400
    written = {
        "ymd": ("%Y-%m-%d %H:%M:%S", "%Y/%m/%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S+02:00"),
        "dmy": ("%d.%m.%Y %H:%M:%S", "%d/%m/%y %I:%M:%S %p"),
        "mdy": ("%m/%d/%Y, %I:%M:%S %p", "%m-%d-%Y %H:%M:%S"),
        "named": ("%d %b %Y %H:%M:%S", "%B %d, %Y %H:%M:%S", "%d-%b-%y %H:%M:%S"),
    }
    for order, patterns in written.items():
        for pattern in patterns:
            assert cells.day_of(moment.strftime(pattern), order) == pytest.approx(days, abs=1e-9), pattern


@pytest.mark.parametrize(
    "cell", ["2026-02-30", "2026-13-01", "99/99/2026", "12 Foo 2026", "2026-11/18", "red", "2026-11-18 25:00"]
)
def test_what_is_no_date_is_none(cell):
    assert [cells.day_of(cell, order) for order in cells.ORDERS] == [None] * 4


def test_the_order_of_dates_is_found_where_one_of_them_tells():
    assert cells.date_order(["03/04/2026", "03/25/2026"], 0.5) == "mdy"
    assert cells.date_order(["03/04/2026", "25/03/2026"], 0.5) == "dmy"
    assert cells.date_order(["03/04/2026"], 0.5) == "mdy"
    assert cells.date_order(["03/04/2026"], 0.5, "dmy") == "dmy"
    assert cells.date_order(["03.04.2026"], 0.5) == "dmy"
    assert cells.date_order(["2026-03-04", "red", "green"], 0.5) == ""


def test_parts_of_dates_are_the_cycles_that_numpy_and_datetime_find():
    days = [dt.datetime(2026, 1, 1) + dt.timedelta(hours=7 * i) for i in range(2000)]
    column = pa.array([*(day.strftime("%Y-%m-%d %H:%M") for day in days), None, "", "soon"])
    wrong = {}
    found = np.array(cells.read_dates(column, "when", "ymd", cells.PARTS, wrong))
    assert wrong == {2002: "column 'when' holds 'soon', which is not a date (ymd)"}
    assert np.isnan(found[:, 2000:]).all()
    for place, (period, part) in enumerate(
        [(24, lambda d: d.hour), (7, lambda d: d.weekday()), (12, lambda d: d.month - 1)]
    ):
        turn = np.array([2 * math.pi * part(day) / period for day in days])
        np.testing.assert_allclose(found[1 + 2 * place, :2000], np.sin(turn), atol=1e-9)
        np.testing.assert_allclose(found[2 + 2 * place, :2000], np.cos(turn), atol=1e-9)
    np.testing.assert_allclose(
        found[0, :2000], [(day - dt.datetime(1970, 1, 1)).total_seconds() / 86_400 for day in days]
    )


def test_numbers_of_rows_are_told_from_measurements():
    rng = np.random.default_rng(0)
    assert cells.numbers_the_rows([*range(1000, 1020)])
    assert cells.numbers_the_rows(rng.permutation(5000)[:400].tolist())
    wrong = sum(cells.numbers_the_rows(rng.integers(0, extent, 200).tolist()) for extent in [10, 100, 1000, 2000] * 250)
    assert wrong <= 8  # one in a thousand at most is expected; 8 of 1,000 would be more than seven deviations
    assert not cells.numbers_the_rows(rng.integers(0, 10**9, 1000).tolist())


def test_words_of_a_large_vocabulary_are_told_from_categories():
    rng = np.random.default_rng(0)
    for kinds, many in [(2, False), (50, False), (500, False), (5_000, True), (10**6, True)]:
        assert cells.more_than([str(word) for word in rng.integers(0, kinds, 1000)], 1024) is many
    assert not cells.more_than([str(i) for i in range(30)], 1024)  # too few to say


ANY_CELL = st.one_of(
    st.sampled_from(["1", "1.0", " 7 ", "nan", "", "NA", " - ", "$4", "2,5", "1,226", "10+", " 10+", "9" * 45]),
    st.sampled_from(["1.226", " " * 45 + "3", "\u0663", None, float("nan"), 1, 1.0, True, 2**60]),
    st.text("0123456789.,+-eE%$( )ab", max_size=8),
)


@given(st.lists(ANY_CELL, max_size=30), st.sampled_from([".", ","]))
def test_first_cells_are_what_each_of_them_is(values, decimal):
    column = cells.FirstCells(values)
    there = [value for value in values if not cells.is_missing(value)]
    assert [id(value) for value in column.there] == [id(value) for value in there]
    assert column.numbers(typed=False) == sum(cells.is_plain(value) for value in there)
    assert column.numbers(typed=True) == sum(not isinstance(value, str) for value in there)
    words = [value for value in there if cells.is_word(value, decimal)]
    assert list(column.words(decimal).items()) == list(Counter(words).items())
    by_hand = [value for value in there if not cells.is_plain(value) and cells.number(value, decimal) is not None]
    assert {text for text in column.others if text not in words} == set(by_hand)


@given(st.lists(st.lists(ANY_CELL, max_size=12), max_size=4))
def test_the_decimal_mark_is_that_of_most_cells_with_one_reading(columns):
    read = [
        [cells.number(cell, mark) is not None for mark in ",."]
        for cell in chain.from_iterable(columns)
        if isinstance(cell, str)
    ]
    comma, point = (read.count(one) for one in ([True, False], [False, True]))
    assert cells.decimal_mark(map(cells.FirstCells, columns)) == ("," if comma > point else ".")


def fruit(count=300, seed=0):
    rng = np.random.default_rng(seed)
    kind = np.where(rng.random(count) < 0.5, "pear", "plum")
    price = np.round(np.where(kind == "pear", 1200.0, 2400.0) + rng.normal(0, 500, count), 2)
    return price, rng.normal(size=count), kind


def write(path, header, columns, delimiter=","):
    quoted = [[f'"{value}"' if delimiter in str(value) else str(value) for value in column] for column in columns]
    lines = [delimiter.join(row) for row in zip(*quoted, strict=True)]
    path.write_text("\n".join([delimiter.join(header), *lines]) + "\n", encoding="utf-8")


def numbers_of(path, **layout):
    stream = Source(str(path), Layout(label="kind", **layout)).open()
    batches = list(stream)
    assert not any(batch.dead for batch in batches)
    return stream.schema, np.concatenate([batch.X for batch in batches])


@pytest.mark.parametrize(
    ("style", "delimiter"),
    [
        ("{:,.2f}", ","),
        ("${:,.2f}", ","),
        ("{:.2f} EUR", ","),
        ("late", ","),
        ("comma", ";"),
    ],
)
def test_typed_numbers_are_the_numbers(tmp_path, style, delimiter):
    price, size, kind = fruit()
    typed = [style.format(value) for value in price]
    if style == "late":  # plain at first, so that the fast way of reading fails in the middle
        typed = [f"{v:.2f}" if i < 150 else f"${v:,.2f}" for i, v in enumerate(price)]
    sizes = [f"{value:.3f}" for value in size]
    if style == "comma":
        typed = [f"{v:,.2f}".translate({44: ".", 46: ","}) for v in price]
        sizes = [text.replace(".", ",") for text in sizes]
    write(tmp_path / "a.csv", ["price", "size", "kind"], [typed, sizes, kind], delimiter)
    schema, X = numbers_of(tmp_path / "a.csv")
    np.testing.assert_allclose(X, np.column_stack([price, np.round(size, 3)]))
    assert schema.decimal == ("," if style == "comma" else ".")


def test_a_model_of_typed_cells_is_applied_to_files_of_other_kinds(tmp_path, capfd):
    price, size, kind = fruit()
    when = [(dt.date(2026, 1, 1) + dt.timedelta(days=i % 60)).strftime("%d.%m.%Y") for i in range(len(kind))]
    write(
        tmp_path / "a.csv",
        ["when", "price", "size", "kind"],
        [when, [f"{v:,.2f}".translate({44: ".", 46: ","}) for v in price], size, kind],
        ";",
    )
    call(capfd, "learn", tmp_path / "a.csv", "-l", "kind", "-m", tmp_path / "m", "-q")
    answers = call(capfd, "predict", tmp_path / "a.csv", "-m", tmp_path / "m").out
    moments = [dt.datetime.strptime(text, "%d.%m.%Y") for text in when]
    records = [
        {"when": day, "price": p, "size": s} for day, p, s in zip(when, price.tolist(), size.tolist(), strict=True)
    ]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n")
    assert call(capfd, "predict", tmp_path / "b.jsonl", "-m", tmp_path / "m").out == answers
    table = pa.table({"size": size, "price": price, "when": when})
    pa.parquet.write_table(table, tmp_path / "c.parquet")
    assert call(capfd, "predict", tmp_path / "c.parquet", "-m", tmp_path / "m").out == answers
    assert len(set(moments)) == 60


def test_dates_of_parquet_are_dates(tmp_path):
    _price, size, kind = fruit()
    moments = [dt.datetime(2026, 1, 1) + dt.timedelta(hours=(777 * i) % 2000) for i in range(len(kind))]
    pa.parquet.write_table(pa.table({"when": moments, "size": size, "kind": kind}), tmp_path / "a.parquet")
    schema, X = numbers_of(tmp_path / "a.parquet")
    assert schema.dates == ("when",)
    assert schema.number_features[0] == "when"
    np.testing.assert_allclose(X[:, 0], [(m - dt.datetime(1970, 1, 1)).total_seconds() / 86_400 for m in moments])
    np.testing.assert_allclose(X[:, -1], size)


def test_a_clock_that_goes_forward_gives_cycles_and_not_days(tmp_path, capfd):
    _price, size, kind = fruit()
    days = [(dt.date(2026, 1, 1) + dt.timedelta(days=i // 3)).isoformat() for i in range(len(kind))]
    write(tmp_path / "a.csv", ["day", "size", "kind"], [days, size, kind])
    schema, _ = numbers_of(tmp_path / "a.csv")
    assert schema.date_parts == ("weekday month",)
    schema, _ = numbers_of(tmp_path / "a.csv", date=("day",))
    assert schema.date_parts == ("days weekday month",)
    write(
        tmp_path / "b.csv",
        ["day", "size", "kind"],
        [[f"{1990 + i}-01-01 00:00" for i in range(40)], size[:40], kind[:40]],
    )
    said = call(capfd, "learn", tmp_path / "b.csv", "-l", "kind", "-m", tmp_path / "m").err
    assert "1 date (day: ymd)" in said  # weekdays of New Year differ


def test_names_of_rows_are_left_out_and_said_and_can_be_kept(tmp_path, capfd):
    price, _size, kind = fruit()
    names = [f"k{(7919 * i) % 100_003}" for i in range(len(kind))]
    write(tmp_path / "a.csv", ["id", "key", "price", "kind"], [np.arange(5000, 5300), names, price, kind])
    command = ("learn", tmp_path / "a.csv", "-l", "kind", "-m")
    said = call(capfd, *command, tmp_path / "m").err
    assert "1 number (price), 2 dropped (id, key)" in said
    assert (
        "WARNING: column id: its numbers name the rows (5000, 5001, …), so it is left out. Keep it with --as number:id."
        in said
    )
    assert (
        "column key: nearly every record has a value of its own (k0, k7919, …), so it is left out. --as text:key"
        in said
    )
    assert kampong.load(tmp_path / "m").n_features_in_ == 1
    assert "1 number (price), 2 dropped (id, key)" in call(capfd, "inspect", tmp_path / "m").out.replace("\n", " ")
    said = call(capfd, *command, tmp_path / "n", "--as", "number:id,category:key").err
    assert "2 number (id, price), 1 category (key); label" in said


def test_a_total_below_hides_no_names_of_rows_and_an_empty_column_is_left_out(tmp_path, capfd):
    price, _size, kind = fruit()
    rows = [[*map(str, range(1, 301)), "Total"], [*price, sum(map(float, price))], [""] * 301, [*kind, ""]]
    write(tmp_path / "a.csv", ["deal id", "price", "notes", "kind"], rows)
    command = ("learn", tmp_path / "a.csv", "-l", "kind", "-m")
    said = call(capfd, *command, tmp_path / "m").err
    assert "1 number (price), 2 dropped (deal id, notes)" in said
    assert "its numbers name the rows (1, 2, …), so it is left out. Keep it with --as 'number:deal id'." in said
    assert "notes: the first 301 records hold nothing there, so it is left out. Keep it with --as number:notes" in said
    assert "300 rows" in said
    assert ", 1 dead letter in " in said
    said = call(capfd, *command, tmp_path / "n", "--as", "number:deal id,category:notes").err
    assert "2 number (deal id, price), 1 category (notes); label" in said
    (tmp_path / "b.csv").write_text("notes,kind\n,a\n,b\n")
    said = call(capfd, "learn", tmp_path / "b.csv", "-l", "kind", "-m", tmp_path / "o", expect=2).err
    assert "no column is left for features" in said
    assert "notes: the first 2 records hold nothing" in said


def test_files_that_no_table_begins_are_named_with_what_to_do(tmp_path, capfd):
    (tmp_path / "wide.csv").write_text("price,kind\n1,a\n", encoding="utf-16")
    (tmp_path / "titled.csv").write_text("Sales,\n,\n\nprice,kind\n1,a\n2,b\n")
    (tmp_path / "old.csv").write_bytes("price,kind\n1,ä\n2,ö\n3,o\n4,o\n5,a\n7,a\n".encode("cp1252"))
    command = ("-l", "kind", "-m", tmp_path / "m")
    said = call(capfd, "learn", tmp_path / "wide.csv", *command, expect=3).err
    assert "wide.csv: this is text in UTF-16, and UTF-8 is needed. Convert it" in said
    said = call(capfd, "learn", tmp_path / "titled.csv", *command, expect=3).err
    assert "the first line names no column 'kind', and line 4 does. Remove the lines above it" in said
    said = call(capfd, "learn", tmp_path / "old.csv", *command).err
    assert "not UTF-8 at byte 2 of the line. Convert the source to UTF-8, for instance with iconv." in said


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("number", "--as 'number' must be a kind, a colon and a column, such as date:when"),
        ("day:price", "Kinds are text, category, number, date and drop."),
        ("date:prices", "--as date: no column is named 'prices'. Did you mean 'price'?"),
        ("date:price", "no value of the column 'price' is a date"),
        ("number:price,drop:price", "The column 'price' is said to be two things"),
    ],
)
def test_mistakes_in_what_columns_are(tmp_path, capfd, wrong, message):
    price, _size, kind = fruit()
    write(tmp_path / "a.csv", ["price", "kind"], [price, kind])
    assert (
        message
        in call(capfd, "learn", tmp_path / "a.csv", "-l", "kind", "-m", tmp_path / "m", "--as", wrong, expect=2).err
    )
    assert not (tmp_path / "m").exists()


def test_labels_and_categories_are_trimmed_and_case_is_warned_of(tmp_path, capfd):
    price, _size, kind = fruit()
    spaced = [f"{word} " if i % 3 else word for i, word in enumerate(kind)]
    write(
        tmp_path / "a.csv",
        ["price", "colour", "kind"],
        [price, [f" c{i % 3}" if i % 2 else f"c{i % 3}" for i in range(300)], spaced],
    )
    run = learn(str(tmp_path / "a.csv"), kampong.FisherDiscriminant(), label="kind")
    assert run.model.classes_.tolist() == ["pear", "plum"]
    (spaces,) = [hint for hint in run.schema.hints if hint.startswith("kind: ")]
    assert spaces.startswith("kind: spaces around labels are cut off, so each of these is one class: ")
    assert sorted(spaces.partition("class: ")[2].removesuffix(".").split("; ")) == [
        "'pear', 'pear '",
        "'plum', 'plum '",
    ]
    assert sorted(run.memory.names) == [b"colour=c0", b"colour=c1", b"colour=c2"]
    write(
        tmp_path / "b.csv",
        ["price", "kind"],
        [price, [word.title() if i % 5 == 0 else word for i, word in enumerate(kind)]],
    )
    said = call(capfd, "learn", tmp_path / "b.csv", "-l", "kind", "-m", tmp_path / "m").err
    said = " ".join(said.split())
    different = "labels that differ only in case or in spaces inside them are different classes"
    assert f"{different} ('Pear', 'pear'; " in said.replace(
        "'Plum', 'plum'; 'Pear', 'pear'", "'Pear', 'pear'; 'Plum', 'plum'"
    )
    assert "spaces around labels" not in said
    write(tmp_path / "c.csv", ["price", "kind"], [price, ["ripe  pear" if i % 3 else "ripe pear" for i in range(300)]])
    said = call(capfd, "learn", tmp_path / "c.csv", "-l", "kind", "-m", tmp_path / "m3").err
    assert f"{different} ('ripe pear', 'ripe pear')" in " ".join(said.split())


def test_columns_without_a_name_or_with_one_twice_have_names(tmp_path, capfd):
    price, size, kind = fruit()
    write(tmp_path / "a.csv", ["", "x", "x", "kind"], [np.arange(300), price, size, kind])
    said = call(capfd, "learn", tmp_path / "a.csv", "-l", "kind", "-m", tmp_path / "m").err
    assert "2 number (x, x.2), 1 dropped (column 1)" in said
    assert "column x.2: this is column 3, and an earlier one is named 'x' too." in said
    predicted = call(capfd, "predict", tmp_path / "a.csv", "-m", tmp_path / "m").out
    assert len(predicted.splitlines()) == 301


def test_categories_keep_their_names_and_a_model_is_as_wide_as_what_came(tmp_path, capfd):
    price, _size, kind = fruit()
    colour = np.where(kind == "pear", "green", "blue")
    write(tmp_path / "a.csv", ["price", "colour", "kind"], [price, colour, kind])
    call(capfd, "learn", tmp_path / "a.csv", "-l", "kind", "-m", tmp_path / "m", "-q")
    assert (tmp_path / "m").stat().st_size < 400_000
    shown = call(capfd, "inspect", tmp_path / "m").out
    assert "colour=green" in shown
    assert "colour=blue" in shown


@pytest.mark.parametrize("decimal", [".", ","])
def test_the_decimal_mark_can_be_said(decimal):
    columns = {"x": ["1,226", "2,500", "3,125"], "y": ["a", "b", "a"]}
    schema = infer(Layout(label="y", decimal=decimal), "csv", ["x", "y"], columns, "a.csv")
    assert (schema.decimal, schema.styled) == (decimal, ("x",))


def nested(price, size, kind, depth):
    inner = {"size": size, "tags": ["a", "b"]}
    for _ in range(depth):
        inner = {"in": inner}
    return {"price": price, **inner, "kind": kind}


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_objects_inside_json_are_columns_with_dots(tmp_path, capfd, depth):
    price, size, kind = fruit()
    records = [nested(*row, depth) for row in zip(price.tolist(), size.tolist(), kind.tolist(), strict=True)]
    flat = [{"price": p, "in." * depth + "size": s, "kind": k} for p, s, k in zip(price, size, kind, strict=True)]
    (tmp_path / "a.jsonl").write_text(
        "\n".join(map(json.dumps, records)) + '\n{"price": 1, "in": 3, "kind": "pear"}\n[1]\n'
    )
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, flat)) + "\n")
    said = call(capfd, "learn", tmp_path / "a.jsonl", "-l", "kind", "-m", tmp_path / "m").err
    assert f"2 number (price, {'in.' * depth}size); label kind" in said
    assert f"column {'in.' * depth}tags: it holds lists or objects, which are not learnt." in said
    letters = (tmp_path / "m.dead.jsonl").read_text().splitlines()
    assert "Expected `object`, got `list`" in letters[-1]
    answers = [call(capfd, "predict", tmp_path / name, "-m", tmp_path / "m").out for name in ("a.jsonl", "b.jsonl")]
    assert answers[0].splitlines()[:301] == answers[1].splitlines()
    assert (
        "1 number (price)"
        in call(capfd, "learn", tmp_path / "a.jsonl", "-l", "kind", "-m", tmp_path / "n", "--flatten", "0").err
    )


def test_names_of_columns_are_told_apart_whatever_they_are():
    names = Names(["x", "", "x.2", "x", "x", "", " x ", "column 2"], ",")
    assert list(names) == ["x", "column 2", "x.2", "x.3", "x.4", "column 6", "x.5", "column 2.2"]
    assert len(Names(["same"] * 20_000, ",")) == 20_000  # in a time that does not grow with the square


def test_numbers_of_rows_are_learnt_where_there_is_nothing_else():
    columns = {"x": list(range(50)), "z": list(range(0, 100, 2)), "y": ["a", "b"] * 25}
    assert infer(Layout(label="y"), "csv", list(columns), columns, "a.csv").numbers == ("x", "z")
