"""The report: what it says is what the history holds, read back from the file."""

import base64
import gzip
import html
import json
import re
from collections import deque

import numpy as np
import pytest

from kampong import InterClassScatter, MarginSubspace
from kampong.streaming.history import History

pytest.importorskip("bokeh", reason="the report needs the `stream` extra (bokeh)")

from kampong.report.figures import figures
from kampong.report.page import write_report
from kampong.report.snapshot import take


def run_stream(n_classes, n_batches=30, size=300, *, names=None, seed=0, falls_at=None, dead=1):
    """Yield the model and the history of a generated stream after each batch; class 1 moves onto 0 at `falls_at`."""
    rng = np.random.default_rng(seed)
    names = np.array([f"class {number:03d}" for number in range(n_classes)] if names is None else names)
    centres = 2.0 * rng.normal(size=(n_classes, 12))
    model, history = InterClassScatter(), History()
    for number in range(n_batches):
        codes = rng.integers(n_classes, size=size)
        if falls_at is not None and number == falls_at:
            centres[1] = centres[0]
        X, y = centres[codes] + rng.normal(size=(size, 12)), names[codes]
        predicted = model.predict(X) if number else None
        model.partial_fit(X, y)
        right = np.zeros(size, dtype=bool) if predicted is None else predicted == y
        classes, counts = np.unique(y, return_counts=True)
        history.observe(
            rows=size,
            correct=int(right.sum()),
            seconds=0.01 * (1 + number % 3),
            scored=None if predicted is not None else 0,
            dead=dead,
            eigenvalues=model.eigenvalues_,
            epsilon=0.0,
            class_rows=dict(zip(classes.tolist(), counts.tolist(), strict=True)),
            class_correct={label: int(right[y == label].sum()) for label in classes.tolist()},
        )
        centre = (model.class_means_ - model.mean_) @ model.components_.T
        history.keep_points(model.transform(X), y, predicted, centres=(model.classes_, centre))
        yield model, history


def last(stream):
    return deque(stream, maxlen=1).pop()


def document_of(path):
    """Return the JSON of the bokeh document in a report."""
    found = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', path.read_text("utf-8"), re.DOTALL)
    assert len(found) == 1
    (document,) = json.loads(html.unescape(found[0])).values()
    return document


def objects(node):
    if isinstance(node, dict):
        if "attributes" in node:
            yield node
        for value in node.values():
            yield from objects(value)
    elif isinstance(node, list):
        for value in node:
            yield from objects(value)


def decoded(value):
    if isinstance(value, dict) and value.get("type") == "ndarray":
        flat = value["array"]
        if isinstance(flat, dict):
            data = base64.b64decode(flat["data"])
            data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
            return np.frombuffer(data, dtype=value["dtype"]).reshape(value["shape"])
        return np.array(flat)
    return value


def columns_of(document, name):
    (source,) = [
        item for item in objects(document) if item["attributes"].get("name") == name and "data" in item["attributes"]
    ]
    return {key: decoded(value) for key, value in source["attributes"]["data"]["entries"]}


def texts_of(document):
    return [item["attributes"]["text"] for item in objects(document) if item["name"] == "Div"]


@pytest.mark.parametrize("n_classes", [2, 10, 127])
def test_the_document_holds_the_history(tmp_path, n_classes):
    model, history = last(run_stream(n_classes))
    path = tmp_path / "report.html"
    write_report(path, model, history, title="A & B", provenance={"source": "here"})
    document = document_of(path)
    curves, points, table = history.curves(), history.points(), history.class_table()

    progress = columns_of(document, "progress")
    np.testing.assert_array_equal(progress["rows"], np.cumsum(curves.rows))
    np.testing.assert_array_equal(progress["dead"], np.cumsum(curves.dead))
    scored, correct = np.cumsum(curves.scored), np.cumsum(curves.correct)
    np.testing.assert_array_equal(progress["accuracy"][1:], correct[1:] / scored[1:])
    assert np.isnan(progress["accuracy"][0])  # nothing can be predicted in the first batch
    np.testing.assert_array_equal(progress["e1"], curves.eigenvalues[:, 0])
    np.testing.assert_array_equal(progress["epsilon"], 0.0)

    shown = columns_of(document, "points")
    np.testing.assert_array_equal(shown["d1"], points.coordinates[:, 0])
    np.testing.assert_array_equal(shown["row"], points.row_numbers)
    assert list(shown["label"]) == points.labels
    classes = columns_of(document, "classes")
    assert sorted(classes["name"]) == sorted(table.names)
    assert dict(zip(classes["name"], classes["rows"], strict=True)) == dict(zip(table.names, table.rows, strict=True))
    assert (np.diff(classes["rows"]) <= 0).all()

    header = next(text for text in texts_of(document) if text.startswith("<h1>"))
    assert "<h1>A &amp; B</h1>" in header
    assert f"<dd>{history.rows:,}</dd>" in header
    assert f"<dd>{history.correct / history.scored:.1%}</dd>" in header
    assert any("<th>source</th><td>here</td>" in text for text in texts_of(document))
    assert path.stat().st_size < 4 * 2**20
    assert list(tmp_path.iterdir()) == [path]


def test_recent_curves_look_back_over_a_thousand_rows_or_a_fiftieth():
    rng = np.random.default_rng(1)
    history, batches = History(), []
    for _ in range(400):
        rows = int(rng.integers(1, 900))
        batches.append((rows, int(rng.integers(rows + 1)), float(rng.random())))
        history.observe(rows=rows, correct=batches[-1][1], seconds=batches[-1][2])
    progress = take(None, history).progress
    for place in (0, 3, 50, 399):
        so_far, window = sum(rows for rows, _, _ in batches[: place + 1]), [0, 0, 0.0]
        for rows, correct, seconds in reversed(batches[: place + 1]):
            window = [window[0] + rows, window[1] + correct, window[2] + seconds]
            if window[0] >= max(1000, so_far / 50):
                break
        assert progress["recent"][place] == pytest.approx(window[1] / window[0], rel=1e-12)
        assert progress["speed"][place] == pytest.approx(window[0] / window[2], rel=1e-6)


def test_a_class_that_moves_stands_out():
    _, history = last(run_stream(5, n_batches=60, falls_at=45))
    classes = take(None, history).classes
    by_name = {name: place for place, name in enumerate(classes["name"])}
    moved = by_name["class 001"]
    assert classes["errors"][moved] == np.nanmin(classes["errors"]) < -10
    assert classes["movement"][moved] == np.nanmax(classes["movement"]) > 1.5
    others = np.delete(classes["movement"], moved)
    assert (others < 0.8).all()
    table, place = history.class_table(), history.class_table().names.index("class 001")
    past = (table.correct - table.recent_correct)[place] / (table.scored - table.recent_scored)[place]
    recent = table.recent_correct[place] / table.recent_scored[place]
    pooled = table.correct[place] / table.scored[place]
    both = 1 / (table.scored - table.recent_scored)[place] + 1 / table.recent_scored[place]
    assert classes["errors"][moved] == pytest.approx((recent - past) / np.sqrt(pooled * (1 - pooled) * both))


def test_points_at_their_centres_have_not_moved():
    rng, history = np.random.default_rng(5), History()
    centres = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])
    moved = centres + np.array([[0.0, 0.0], [0.0, 0.0], [1.0, -2.0]])
    labels = np.repeat([0, 1, 2], 80)
    spreads = np.array([1.0, 3.0])
    history.observe(rows=240, correct=0, seconds=0, class_rows={0: 80, 1: 80, 2: 80})
    points = moved[labels] + rng.normal(size=(240, 2)) * spreads
    history.keep_points(points, labels, centres=([0, 1, 2], centres))
    movement = take(None, history).classes["movement"]
    # In spreads: the shift (1, −2) is 1 spread and 2/3 of one; 80 points leave about a tenth of chance.
    np.testing.assert_allclose(movement, [0, 0, np.hypot(1, 2 / 3)], atol=0.25)


def test_a_report_of_nothing_says_so(tmp_path):
    path = tmp_path / "empty.html"
    write_report(path, None, History(), title="nothing", provenance={})
    texts = texts_of(document_of(path))
    assert sum("no labelled rows yet" in text for text in texts) >= 4
    assert any("no dead letters" in text for text in texts)


def test_a_report_before_the_second_class(tmp_path):
    history = History()
    history.observe(rows=5, correct=0, seconds=0.1, scored=0, class_rows={"only": 5})
    model = MarginSubspace().partial_fit(np.arange(10.0).reshape(5, 2), ["only"] * 5)
    write_report(tmp_path / "one.html", model, history)
    texts = texts_of(document_of(tmp_path / "one.html"))
    assert any("they need rows of two classes" in text for text in texts)
    assert any("<th>rows learnt</th><td>5</td>" in text for text in texts)


def test_names_and_texts_are_data_not_markup(tmp_path):
    bad = "</script><script>alert(1)</script>"
    model, history = last(run_stream(3, 4, names=[bad, "<img src=x onerror=alert(2)>", "$$x^2$$"]))
    path = tmp_path / "report.html"
    write_report(path, model, history, title=bad, provenance={bad: bad})
    text = path.read_text("utf-8")
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    document = document_of(path)
    assert all("<script" not in div and "<img" not in div for div in texts_of(document))
    assert bad in columns_of(document, "classes")["name"]
    offered = next(item for item in objects(document) if item["name"] == "MultiChoice")["attributes"]["options"]
    assert not any("<" in label for _, label in offered)


def test_reading_a_model_for_the_page_solves_nothing():
    model, history = last(run_stream(4, 3))
    X = np.random.default_rng(0).normal(size=(20, 12))
    model.partial_fit(X, ["class 000"] * 20)
    take(model, history)
    assert model._predictor is None


def test_the_length_of_the_stream_does_not_matter(tmp_path):
    sizes = []
    history, rng = History(), np.random.default_rng(0)
    for number in range(12_000):
        labels = rng.integers(50, size=20)
        history.observe(rows=20, correct=10, seconds=0.01, class_rows={number % 50: 20}, eigenvalues=rng.random(9))
        history.keep_points(rng.normal(size=(20, 9)), labels, labels)
        if number in (1_000, 11_999):
            write_report(tmp_path / "long.html", None, history)
            sizes.append((tmp_path / "long.html").stat().st_size)
    assert sizes[1] < 1.05 * sizes[0] < 4 * 2**20


def test_an_existing_report_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("before")
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="full"):
            write_report(path, None, History())
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
    write_report(path, None, History())
    assert "bokeh" in path.read_text("utf-8")


def test_figures_is_a_layout():
    model, history = last(run_stream(3, 3))
    layout = figures(model, history, title="t")
    assert layout.select_one({"name": "points"}) is not None
    np.testing.assert_array_equal(layout.select_one({"name": "progress"}).data["rows"], [300, 600, 900])
