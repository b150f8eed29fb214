"""The report: what it says is what the history holds and what an independent count of the predictions says."""

import csv
import html
import json
import re
from collections import Counter
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest
from sklearn import metrics
from sklearn.datasets import load_digits

from command import call
from kampong import FisherDiscriminant, MarginSubspace
from kampong.streaming.history.history import History
from report_problems import EVIL, data_of, last, run_stream

pytest.importorskip("msgspec", reason="the report needs the `stream` extra")
pytest.importorskip("pyarrow", reason="the report needs the `stream` extra")

from kampong.report.page import to_json, write_report
from kampong.report.snapshot import take
from kampong.report.verdict import verdict_of
from kampong.streaming import Layout, Source, learn
from kampong.streaming.model_file import read_model


def write_blobs(path, rows=2600, kinds=("a", "b", "c", "d"), bad=()):
    """Write a CSV of overlapping classes, some records of it bad."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(len(kinds), 4))
    codes = rng.integers(len(kinds), size=rows)
    X = centres[codes] + 0.8 * rng.normal(size=(rows, 4))
    lines = [[*(f"{value:.3f}" for value in row), kinds[code]] for row, code in zip(X, codes, strict=True)]
    for place in bad:
        lines[place][0] = "none at all"
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([["w", "x", "y", "z", "kind"], *lines])


def test_every_number_is_what_an_independent_count_of_the_predictions_says(tmp_path):
    source, out, model_file = (str(tmp_path / name) for name in ("s.csv", "out.csv", "m"))
    write_blobs(tmp_path / "s.csv", bad=(50, 60, 1500))
    run = learn(
        Source(source, Layout(label="kind")), FisherDiscriminant(half_life="auto"), model_file=model_file, out=out
    )
    write_report(tmp_path / "r.html", run.model, run.history, predictor=run.predictor, memory=run.memory)
    data = data_of(tmp_path / "r.html")
    with (tmp_path / "out.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    scored = [row for row in rows if row["predicted"]]
    true, said = np.array([row["label"] for row in scored]), np.array([row["predicted"] for row in scored])
    recent = slice(-1000, None)

    assert data["totals"]["rows"] == len(rows) == 2597
    assert (data["totals"]["scored"], data["totals"]["correct"]) == (len(scored), int((true == said).sum()))
    assert data["totals"]["dead"] == 3
    assert data["totals"]["classes"] == 4
    assert data["totals"]["rows_per_second"] == pytest.approx(len(rows) / data["totals"]["seconds"])
    assert data["recent"]["rows"] == 1000
    for found, y, z in ((data["measures"], true, said), (data["recent"], true[recent], said[recent])):
        assert found["accuracy"] == pytest.approx(metrics.accuracy_score(y, z), abs=1e-12)
        assert found["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(y, z), abs=1e-12)
        assert found["macro_f1"] == pytest.approx(metrics.f1_score(y, z, average="macro"), abs=1e-12)

    labels = [row["label"] for row in rows]
    before = [i for i, row in enumerate(rows) if row["predicted"]]
    last = sum(labels[i] == labels[i - 1] for i in before) / len(before)
    assert data["baselines"]["last_label"] == pytest.approx(last, abs=1e-12)
    assert data["baselines"]["kappa"] == pytest.approx(metrics.cohen_kappa_score(true, said), abs=1e-12)
    assert data["unscored"] == len(rows) - len(scored)

    classes = data["classes"]
    assert classes["name"] == ["a", "b", "c", "d"]
    assert classes["rows"] == [sum(row["label"] == name for row in rows) for name in "abcd"]
    for name, score in (("precision", metrics.precision_score), ("recall", metrics.recall_score)):
        np.testing.assert_allclose(classes[name], score(true, said, average=None), rtol=1e-12)
    latest = metrics.recall_score(true[recent], said[recent], average=None)
    np.testing.assert_allclose(classes["recent_recall"], latest, rtol=1e-12)
    matrix = metrics.confusion_matrix(true, said)
    wrong = {(i, j): int(matrix[i, j]) for i in range(4) for j in range(4) if i != j and matrix[i, j]}
    assert {(i, j): count for i, j, count in data["confusions"]["pairs"]} == wrong
    assert data["confusions"]["left_out"] == 0

    progress = data["progress"]
    assert progress["rows"][-1] == len(rows)
    assert progress["accuracy"][-1] == data["measures"]["accuracy"]
    assert progress["recent"][-1] == data["recent"]["accuracy"]
    right = np.array([row["label"] == row["predicted"] for row in rows])
    known = np.array([bool(row["predicted"]) for row in rows])
    for place in (3, len(progress["rows"]) // 2):
        n = progress["rows"][place]
        assert progress["accuracy"][place] == pytest.approx(right[:n].sum() / known[:n].sum(), abs=1e-12)
        window = right[:n][known[:n]]
        size = min(1000, -(-len(window) // 2))
        assert progress["recent"][place] == pytest.approx(window[-size:].mean(), abs=1e-12)

    points = data["points"]
    for place in range(0, len(points["row"]), 37):
        row = rows[points["row"][place] - 1]
        assert classes["name"][points["label"][place]] == row["label"]
        said_here = points["predicted"][place]
        assert (classes["name"][said_here] if said_here >= 0 else "") == row["predicted"]
        assert points["probability"][place] is None or 0.25 <= points["probability"][place] <= 1
    assert [
        p
        for p, said_here in zip(points["probability"], points["predicted"], strict=True)
        if said_here >= 0 and p is None
    ] == []

    # The same from the model file, at any time.
    model, state, _ = read_model(model_file)
    more = {"predictor": state.course.predictor, "memory": state.memory}
    again = json.loads(to_json(take(model, state.course.history, **more)))
    for name in (
        "totals",
        "measures",
        "recent",
        "classes",
        "confusions",
        "points",
        "progress",
        "alarms",
        "dead",
        "chosen",
    ):
        assert again[name] == data[name], name
    assert [(one["kind"], one["rows"], one["line"]) for one in data["dead"]] == [
        ("column … holds …, which is not a number", 3, 52)
    ]


def test_the_report_has_the_numbers_of_the_runs_json(tmp_path, capfd):
    pytest.importorskip("typer", reason="the command line needs the `stream` extra")
    write_blobs(tmp_path / "s.csv", bad=(7,))
    places = ("--model", tmp_path / "m", "--report", tmp_path / "r.html")
    said = json.loads(call(capfd, "learn", tmp_path / "s.csv", "--label", "kind", "--json", *places).out)
    data = data_of(tmp_path / "r.html")
    for name in ("rows", "scored", "correct", "dead"):
        assert data["totals"][name] == said[name]
    assert data["totals"]["rows_per_second"] == said["rows_per_second"]
    for name in ("accuracy", "balanced_accuracy", "macro_f1"):
        assert data["measures"][name] == said[name]
        assert data["recent"][name] == said["recent"][name]
    assert data["recent"]["rows"] == said["recent"]["rows"]
    assert data["alarms"]["count"] == said["alarms"]
    for one in data["chosen"]:
        name = one["name"].replace("-", "_")
        value = said["chosen"][name]["value"]
        assert one["since"] == said["chosen"][name]["since"]
        assert one["value"] == ("none" if name == "half_life" and value is None else value)
    # From the model file the same, wherever it goes.
    printed = call(capfd, "report", tmp_path / "m", "--out", tmp_path / "again.html")
    assert "the report of 2,599 rows" in printed.err
    again = data_of(tmp_path / "again.html")
    assert {name: again[name] for name in data if name not in ("state", "provenance", "facts")} == {
        name: data[name] for name in data if name not in ("state", "provenance", "facts")
    }


def test_the_verdict_says_what_the_numbers_say(tmp_path):
    write_blobs(tmp_path / "s.csv", bad=(50, 60, 1500))
    run = learn(str(tmp_path / "s.csv"), FisherDiscriminant(ridge=0.1), label="kind")
    figures = run.history.summary()
    first, second, *others = verdict_of(run.history, run.memory)
    reason = "column 'w' holds 'none at all', which is not a number"
    assert second == {
        "text": f"3 of 2,600 records could not be used; most often: {reason}.",
        "attention": True,
    }
    assert first["text"].startswith(
        f"{figures['accuracy']:.1%} of {run.history.scored:,} rows were predicted correctly"
    )
    assert f"the most frequent class in {figures['baselines']['majority']:.1%}" in first["text"]
    assert f"the last label in {figures['baselines']['last_label']:.1%}" in first["text"]
    assert not any(one["attention"] for one in (first, *others))
    pairs = {(true, said): count for true, said, count in run.history.outcomes.confusions()[0] if true != said}
    (true, said), count = max(pairs.items(), key=lambda pair: (pair[1], pair[0]))
    assert f"The most frequent mistake: {true} predicted as {said}, {count:,} rows." in [one["text"] for one in others]
    assert verdict_of(History()) == []


def test_the_verdict_tells_a_model_that_is_no_better_than_guessing(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{x:.3f},{y:.3f},{rng.choice(['a', 'b'])}" for x, y in rng.normal(size=(800, 2))]
    (tmp_path / "s.csv").write_text("x,y,kind\n" + "\n".join(lines) + "\n")
    run = learn(str(tmp_path / "s.csv"), FisherDiscriminant(ridge=0.1), label="kind")
    first = verdict_of(run.history)[0]
    assert first["attention"]
    assert re.search(r"The model is no better than the (most frequent class|last label)\.", first["text"])


def test_the_verdict_warns_of_columns_and_of_a_saved_model_that_will_do_worse(tmp_path):
    rng = np.random.default_rng(1)
    rows, missing = 3000, 0
    with (tmp_path / "s.csv").open("w") as stream:
        stream.write("order,width,height,kind\n")
        for number in range(rows):
            kind = ["Cat", "dog", "cat"][number // 300 % 3]  # the class of a row is that of its neighbours
            gone = number % 10 == 7
            missing += gone
            width = "" if gone else f"{rng.normal():.3f}"
            stream.write(f"{70000 + number},{width},{rng.normal():.3f},{kind}\n")
    file = str(tmp_path / "m.kampong")
    run = learn(str(tmp_path / "s.csv"), FisherDiscriminant(half_life="auto"), label="kind", model_file=file)
    said = {one["text"]: one["attention"] for one in verdict_of(run.history, run.memory)}
    assert said["Left out, because the values seem to name the rows: order."]
    assert said["Classes that differ only in upper and lower case: Cat and cat."]
    assert said[f"Numbers are missing: width in {missing / rows:.1%} of the rows."] is False
    saved = run.history.summary()["saved_model"]
    expected = [text for text in said if text.startswith("Expect the saved model")]
    assert len(expected) == 1
    assert f"on {saved['accuracy']:.1%} of rows that come {saved['delay']:,} rows after its last label" in expected[0]
    assert said[expected[0]], "the label chain predicts this stream, and it has no labels then"
    # The report from the model file says the same.
    _, state, _ = read_model(file)
    assert verdict_of(state.course.history, state.memory) == verdict_of(run.history, run.memory)


def test_what_was_chosen_and_since_when(tmp_path):
    write_blobs(tmp_path / "s.csv")
    run = learn(str(tmp_path / "s.csv"), FisherDiscriminant(half_life="auto"), label="kind")
    data = take(run.model, run.history, predictor=run.predictor, memory=run.memory)
    chosen = {one["name"]: one for one in data["chosen"]}
    assert chosen["head"]["value"] == run.predictor.head.name
    assert chosen["ridge"]["value"] == run.predictor.criterion.value
    assert chosen["half-life"]["value"] == "none"
    for name, key in (("head", "head"), ("ridge", "value")):
        log = data["choices"]["log"]
        same = [one for one in log if one[key] == log[-1][key]]
        first = log.index(same[0])
        while any(one[key] != log[-1][key] for one in log[first:]):
            first += 1
        assert chosen[name]["since"] == log[first]["row"]
    choice = run.predictor.choice
    assert data["choices"]["curve"]["chosen"] == choice.value
    assert data["choices"]["curve"]["values"] == choice.values.tolist()
    assert data["choices"]["heads"] == choice.heads
    assert data["choices"]["members"] == run.model.member_weights_
    assert sum(data["choices"]["members"].values()) == pytest.approx(1.0)
    assert run.history.summary()["chosen"]["head"] == {
        "value": chosen["head"]["value"],
        "since": chosen["head"]["since"],
    }


def test_points_of_directions_that_have_turned_are_left_out(tmp_path):
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    with (tmp_path / "digits.csv").open("w", newline="") as stream:
        names = [*(f"x{column}" for column in range(64)), "digit"]
        csv.writer(stream).writerows([names, *([*map(int, row), label] for row, label in zip(X, y, strict=True))])
    run = learn(Source(str(tmp_path / "digits.csv"), Layout(label="digit")), FisherDiscriminant(half_life="auto"))
    data = take(run.model, run.history, predictor=run.predictor, memory=run.memory)["points"]
    every = run.history.points()
    assert len(data["row"]) + data["turned"] == len(every.row_numbers)
    assert data["turned"] > 20
    # Where the directions of today put the same rows.
    width = every.coordinates.shape[1]
    now = run.predictor.points(X)[every.row_numbers - 1, :width]
    away = np.square(np.nan_to_num(every.coordinates - now)).sum(axis=1)
    kept = np.isin(every.row_numbers, data["row"])
    assert away[kept].mean() < 0.25 * away[~kept].mean()
    assert away[kept].mean() < 0.5 * np.square(now - now.mean(axis=0)).sum(axis=1).mean()
    assert set(data["label"]) == set(range(10))


def test_if_all_points_lie_in_earlier_directions_those_of_the_latest_are_shown(tmp_path):
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=300)
    X = np.eye(3)[codes] * 9.0 + rng.normal(size=(300, 3))
    with (tmp_path / "s.csv").open("w", newline="") as stream:
        lines = [[*map(repr, row), "abc"[code]] for row, code in zip(X.tolist(), codes, strict=True)]
        csv.writer(stream).writerows([["x", "y", "z", "kind"], *lines])
    run = learn(str(tmp_path / "s.csv"), FisherDiscriminant(), label="kind")
    now = take(run.model, run.history, predictor=run.predictor, memory=run.memory)
    # Directions of another sign put every class elsewhere.
    turned = replace(run.predictor, components=-run.predictor.components, centres=-run.predictor.centres)
    before = turned.centres.copy()
    data = take(run.model, run.history, predictor=turned, memory=run.memory)
    assert not now["points"]["earlier"]
    assert data["points"]["earlier"]
    assert len(data["points"]["row"]) > 150
    assert set(now["points"]["row"]) <= set(data["points"]["row"])
    assert data["points"]["row"][-1] == 300
    np.testing.assert_array_equal(turned.centres, before)
    assert data["directions"][0]["low"] == now["directions"][0]["high"]


def test_one_row_is_written_as_one(tmp_path):
    (tmp_path / "s.csv").write_text("x,y,kind\n1,2,a\n2,3,b\n")
    run = learn(str(tmp_path / "s.csv"), FisherDiscriminant(), label="kind")
    assert run.history.scored == 1
    assert "% of 1 row was predicted correctly before it was learnt." in verdict_of(run.history)[0]["text"]


def test_directions_name_their_columns_and_the_classes_at_their_ends(tmp_path):
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=1200)
    X = rng.normal(size=(1200, 5)) * [1, 1, 1, 100, 1]  # a column of large numbers is not a strong one
    X[:, 2] += 6.0 * codes
    lines = [[*map(repr, row), ["low", "middle", "high"][code]] for row, code in zip(X.tolist(), codes, strict=True)]
    with (tmp_path / "s.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["p", "q", "height", "large", "t", "kind"], *lines])
    run = learn(str(tmp_path / "s.csv"), FisherDiscriminant(), label="kind")
    data = take(run.model, run.history, predictor=run.predictor, memory=run.memory)
    first = data["directions"][0]
    name, weight = first["columns"][0]
    assert name == "height"
    assert weight == pytest.approx(run.predictor.components[0, 2] * X[codes == 0, 2].std(), rel=0.1)
    names = data["classes"]["name"]
    ends = [names[first["low"][0]], names[first["high"][0]]]
    assert ends == (["low", "high"] if weight > 0 else ["high", "low"])
    assert first["eigenvalue"] == run.predictor.eigenvalues[0]
    assert sum(one["share"] for one in data["directions"]) == pytest.approx(1.0)


def test_a_text_model_says_its_words(tmp_path):
    rng = np.random.default_rng(0)
    words = {"a": ["sun", "beach"], "b": ["snow", "ice"]}
    kinds = ["ab"[k] for k in rng.integers(2, size=600)]
    lines = [f"{words[kind][rng.integers(2)]} and more,{kind}" for kind in kinds]
    (tmp_path / "s.csv").write_text("\n".join(["note,kind", *lines]) + "\n")
    run = learn(Source(str(tmp_path / "s.csv"), Layout(label="kind", text=("note",))), FisherDiscriminant())
    (direction,) = take(run.model, run.history, predictor=run.predictor, memory=run.memory)["directions"]
    strongest = dict(direction["columns"][:4])
    assert set(strongest) == {"sun", "beach", "snow", "ice"}
    assert np.sign(strongest["sun"]) == np.sign(strongest["beach"]) == -np.sign(strongest["snow"])


def test_iris_in_its_own_order_has_a_full_report(tmp_path):
    from sklearn.datasets import load_iris

    iris = load_iris()
    names = [name.removesuffix(" (cm)") for name in iris.feature_names]
    lines = [[*row, iris.target_names[code]] for row, code in zip(iris.data.tolist(), iris.target, strict=True)]
    with (tmp_path / "iris.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([[*names, "species"], *lines])
    run = learn(str(tmp_path / "iris.csv"), FisherDiscriminant(half_life="auto"), label="species")
    data = take(run.model, run.history, predictor=run.predictor, memory=run.memory)
    points = data["points"]
    assert Counter(points["label"]) == {0: 50, 1: 50, 2: 50}
    assert all(None not in column for column in points["coordinates"][:2])
    assert len(data["directions"]) == 2
    assert len(data["progress"]["rows"]) >= 9
    assert data["measures"]["accuracy"] > 0.9
    assert data["chosen"]


def test_a_class_that_moves_stands_out():
    _, history = last(run_stream(5, n_batches=60, falls_at=45))
    data = take(None, history)
    moved = np.array(data["classes"]["moved"])
    place = data["classes"]["name"].index("class 001")
    assert moved[place] == moved.max() > 1.5
    assert (np.delete(moved, place) < 0.8).all()
    recalls = data["classes"]
    assert recalls["recent_recall"][place] < recalls["recall"][place] - 0.2
    falls = [one for one in data["alarms"]["latest"] if one["after"] < one["before"]]
    assert 45 * 300 < falls[0]["row"] < 48 * 300
    assert data["alarms"]["count"] == history.drift.n_alarms


def test_points_at_their_centres_have_not_moved():
    rng, history = np.random.default_rng(5), History()
    centres = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])
    moved = centres + np.array([[0.0, 0.0], [0.0, 0.0], [1.0, -2.0]])
    labels = np.repeat([0, 1, 2], 80)
    spreads = np.array([1.0, 3.0])
    history.observe(labels, seconds=0)
    points = moved[labels] + rng.normal(size=(240, 2)) * spreads
    history.keep_points(points, labels, centres=([0, 1, 2], centres))
    movement = take(None, history)["classes"]["moved"]
    # In spreads: the shift (1, −2) is 1 spread and 2/3 of one; 80 points leave about a tenth of chance.
    np.testing.assert_allclose(movement, [0, 0, np.hypot(1, 2 / 3)], atol=0.25)


def test_nothing_moves_while_the_directions_turn(tmp_path):
    write_blobs(tmp_path / "s.csv", rows=4000, kinds=[f"kind {k}" for k in range(12)])
    run = learn(str(tmp_path / "s.csv"), FisherDiscriminant(half_life="auto"), label="kind")
    moved = take(run.model, run.history, predictor=run.predictor)["classes"]["moved"]
    assert max(moved) < 0.5


def test_names_are_in_natural_order():
    history = History()
    history.observe(["10", "9", "b 2", "b 10", "a", "9"], seconds=0)
    assert take(None, history)["classes"]["name"] == ["9", "10", "a", "b 2", "b 10"]


@pytest.mark.parametrize("model", [None, MarginSubspace()])
def test_a_report_of_nothing_can_be_written(tmp_path, model):
    write_report(tmp_path / "empty.html", model, History(), title="nothing", provenance={})
    data = data_of(tmp_path / "empty.html")
    assert data["measures"] == {"accuracy": None, "balanced_accuracy": None, "macro_f1": None}
    assert data["totals"]["rows"] == 0
    history = History()
    history.observe(["only"] * 5, seconds=0.1)
    write_report(tmp_path / "one.html", model, history)
    assert data_of(tmp_path / "one.html")["classes"]["name"] == ["only"]


def test_a_model_without_a_course_has_the_classes_that_it_learnt():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.repeat(["b 10", "b 9", "a"], [10, 20, 30])
    model = FisherDiscriminant(ridge=0.1).partial_fit(X, y, classes=["a", "b 10", "b 9", "unseen"])
    model.freeze()
    found = take(model, History())
    assert (found["classes"]["name"], found["classes"]["rows"]) == (["a", "b 9", "b 10"], [30, 20, 10])
    assert (found["totals"]["learnt"], found["totals"]["classes"], found["totals"]["directions"]) == (60, 3, 2)
    assert found["choices"]["parameter"] == "ridge"
    weighted = take(FisherDiscriminant(ridge=0.1).fit(X, y, sample_weight=np.full(60, 0.25)), History())
    assert weighted["classes"]["rows"] == [7.5, 5, 2.5]
    # past what a report holds, the rarest are counted together
    rows = np.repeat(np.arange(1100), 2 + (np.arange(1100) % 7 > 0))
    many = take(FisherDiscriminant().partial_fit(rng.normal(size=(len(rows), 3)), rows), History())
    assert (len(many["classes"]["name"]), many["classes"]["name"][-1]) == (1025, "(other classes)")
    assert sum(many["classes"]["rows"]) == len(rows)
    assert many["classes"]["rows"][-1] == 2 * 76


def test_names_and_texts_are_data_not_markup(tmp_path):
    model, history = last(run_stream(len(EVIL) - 1, 4, names=EVIL[:-1]))
    history.observe([EVIL[-1]], seconds=0)
    path = tmp_path / "report.html"
    write_report(path, model, history, title=EVIL[0], provenance={EVIL[1]: EVIL[0]})
    text = path.read_text("utf-8")
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert "\u2028" not in text
    assert f"<title>{html.escape(EVIL[0])}</title>" in text
    assert sorted(data_of(path)["classes"]["name"]) == sorted([*EVIL[:-1], "?"])
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.split("style-src")[0]


def test_reading_a_model_for_the_page_solves_nothing():
    model, history = last(run_stream(4, 3))
    X = np.random.default_rng(0).normal(size=(20, 12))
    model.partial_fit(X, ["class 000"] * 20)
    take(model, history)
    assert model._predictor is None


def test_the_length_of_the_stream_does_not_matter(tmp_path):
    sizes = []
    history, rng = History(), np.random.default_rng(0)
    for number in range(3_000):
        labels = rng.integers(300, size=20)
        history.observe(labels, rng.integers(300, size=20), seconds=0.01, eigenvalues=rng.random(9))
        history.keep_points(rng.normal(size=(20, 9)), labels, labels, rng.random(20))
        if number in (1_000, 2_999):
            write_report(tmp_path / "long.html", None, history)
            sizes.append((tmp_path / "long.html").stat().st_size)
    assert sizes[1] < 1.05 * sizes[0] < 3e6


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
    assert "Content-Security-Policy" in path.read_text("utf-8")


# Contrast, by the formula of WCAG 2.


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_formula_of_contrast_is_that_of_wcag():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


def test_every_mark_has_a_contrast_of_three_and_every_text_of_four_and_a_half():
    style = resources.files("kampong.report").joinpath("assets", "page.css").read_text("utf-8")
    blocks = re.findall(r":root\s*\{(.*?)\}", style, re.DOTALL)
    assert len(blocks) == 3  # light, dark, paper
    for block in blocks:
        colours = dict(re.findall(r"--([\w]+):\s*(#[0-9a-f]{6})", block))
        marks = [f"c{k}" for k in range(10)] + ["first", "second", "alarm", "good", "edge", "ink", "accent"]
        assert {
            name: contrast(colours[name], colours["bg"]) for name in marks if contrast(colours[name], colours["bg"]) < 3
        } == {}
        for back in ("bg", "panel"):
            for name in ("ink", "soft", "accent"):
                assert contrast(colours[name], colours[back]) >= 4.5, (name, back)
        # Text on the darkest shade of the matrix: 38 % of the tint.
        mixed = "#" + "".join(
            f"{round(0.38 * int(colours['tint'][k : k + 2], 16) + 0.62 * int(colours['bg'][k : k + 2], 16)):02x}"
            for k in (1, 3, 5)
        )
        assert contrast(colours["ink"], mixed) >= 4.5
        # Ten colours that can be told apart.
        ten = [[int(colours[f"c{k}"][place : place + 2], 16) for place in (1, 3, 5)] for k in range(10)]
        apart = min(np.abs(np.subtract(a, b)).sum() for k, a in enumerate(ten) for b in ten[:k])
        assert apart > 60
    # A mark is drawn in one of these colours, at full strength.
    scripts = "".join(
        item.read_text("utf-8") for item in resources.files("kampong.report").joinpath("assets").iterdir()
    )
    assert "opacity" not in scripts
    used = set(re.findall(r"(?:fill|stroke)\s*:\s*var\(--(\w+)", scripts)) - {"bg", "rule"}  # halo of names, grid
    assert used <= {"ink", "edge", "first", "second", "alarm", "good", "c"}
