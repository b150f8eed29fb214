"""Stream states that lie under a right digest: a clear error each, from resuming and from inspecting alike."""

import copy
import threading

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

import pyarrow as pa
import pyarrow.parquet as pq

import kampong
from kampong.files import CheckpointError, read, write
from kampong.files.contents import to_lines
from kampong.streaming import Layout, Source, learn
from kampong.streaming.apply_model import apply
from kampong.streaming.inspection import describe, merge_files
from kampong.streaming.model_file import VERSION
from stream_problems import write_points

PREFIX = "stream."


def write_words(path, rows=800):
    """Write a CSV of a number, a category and a text."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, rows)
    lines = [f"{rng.normal() + c:.3f},{'uvw'[rng.integers(3)]},some {'ab'[c]} words,{'ab'[c]}" for c in y]
    path.write_text("\n".join(["number,colour,note,kind", *lines]) + "\n")


def write_table(path, rows=800):
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, rows)
    pq.write_table(pa.table({"x": rng.normal(size=rows) + y, "w": rng.normal(size=rows), "kind": y}), path)


def write_pairs(path, rows=800):
    rng = np.random.default_rng(3)
    comment = "# " + 100 * "-"  # blocks of libsvm are large
    lines = [f"{c} 1:{rng.normal() + c:.3f} 5:{rng.normal():.3f} {comment}" for c in rng.integers(0, 2, rows)]
    path.write_text("\n".join(lines) + "\n")


KINDS = {
    "points": ("a.csv", lambda path: write_points(path, 800, bad=0.05), {"label": "kind"}),
    "words": ("b.csv", write_words, {"label": "kind", "text": ("note",), "hash_width": 16}),
    "table": ("c.parquet", write_table, {"label": "kind"}),
    "pairs": ("d.svm", write_pairs, {"max_features": 6}),
}


def run(folder, kind, *, stop_at=300):
    """Learn a stream, or go on with it; stop after this many rows."""
    name, _, options = KINDS[kind]
    stop = threading.Event()
    return learn(
        Source(str(folder / name), Layout(**options)),
        kampong.FisherDiscriminant(ridge="rule"),
        model_file=str(folder / kind),
        out=str(folder / f"{kind}.csv") if kind == "points" else "",
        classes=["a", "b", "c"] if kind == "points" else (),
        label_delay=40 if kind == "pairs" else 0,
        stop=stop,
        watch=lambda run: stop.set() if run.counters.rows >= stop_at else None,
    )


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """Return a folder, and the arrays and facts of a model file of each kind."""
    folder, found = tmp_path_factory.mktemp("lies"), {}
    for kind, (name, make, _) in KINDS.items():
        make(folder / name)
        run(folder, kind)
        found[kind] = read(folder / kind)
    merge_files([str(folder / "table"), str(folder / "table")], str(folder / "merged"))
    found["merged"] = read(folder / "merged")
    return folder, found


def lies_about_a_fact(value):
    """Yield what a value of its type can never be."""
    yield "is nothing", None
    yield "is a list", [value]
    if isinstance(value, bool):
        yield "is a number", 1
        yield "is a text", "true"
    elif isinstance(value, int):
        yield "is negative", -1
        yield "has a fraction", 1.5
        yield "is a text", str(value)
        yield "is a truth", True
        yield "is huge", 2**70
    else:
        yield "is a number", 5


def lies_about_an_array(array):
    yield "has another dtype", array.astype(np.float16 if array.dtype.kind == "f" else np.int32)
    yield "has an axis more", array[None]
    if array.dtype == np.uint8:
        yield "is no text", np.array([255, 254], dtype=np.uint8)
        yield "is a list", np.frombuffer(b"[1]", dtype=np.uint8)
        yield "is NaN", np.frombuffer(b"NaN", dtype=np.uint8)
        yield "is a number too large", np.frombuffer(b"1e999", dtype=np.uint8)
        yield "holds numbers", to_lines([0.5, 1.5])
        yield "names a stranger", to_lines(["stranger"])
        return
    if array.size:
        yield "is one row shorter", array[:-1]
        yield "is one row longer", np.concatenate([array, array[-1:]])
        wrong = [("NaN", np.nan), ("infinity", np.inf)] if array.dtype.kind == "f" else [("a negative", -(2**40))]
        for what, value in wrong:
            for place in (0, array.size - 1):
                changed = array.copy()
                changed.flat[place] = value
                yield f"holds {what} at {place}", changed


PARTS = [f"history.{part}." for part in ("outcomes", "drift", "choices", "choices.since", "dead_kinds")]

FREE = (
    "predictor.criterion.value",
    "predictor.total",
    "predictor.head.sharpness",
)  # one finite number is as good as another
ALSO_SAID = {"predictor.classes.values": "labels", "predictor.components": "eigenvalues"}


def lies_about_every_name(arrays, facts, parts=("",)):
    """Yield title, arrays, facts and the name that the error must tell, for each name that begins with a part's."""
    stream, has_columns = facts["stream"], arrays[f"{PREFIX}schema.columns"].size > 0
    for name in sorted(stream):
        if name.startswith(parts):
            less = {key: value for key, value in stream.items() if key != name}
            yield f"{name} is missing", arrays, facts | {"stream": less}, name
            for how, value in lies_about_a_fact(stream[name]):
                if name in FREE and how == "is a number":
                    continue
                yield f"{name} {how}", arrays, facts | {"stream": stream | {name: value}}, name
    for key in sorted(arrays):
        name = key.removeprefix(PREFIX)
        if key.startswith(PREFIX) and name.startswith(parts):
            yield f"{name} is missing", {one: arrays[one] for one in arrays if one != key}, facts, name
            for how, array in lies_about_an_array(arrays[key]):
                if how == "names a stranger" and name.startswith("options.layout") and not has_columns:
                    continue  # libsvm has no columns that these options could name
                said = f"{name}|{ALSO_SAID[name]}" if name in ALSO_SAID else name
                yield f"{name} {how}", arrays | {key: array}, facts, said
    for part in (
        "",
        "schema.",
        "counters.",
        "written.",
        "learnt.",
        "options.",
        "options.layout.",
        "place.",
        "history.",
        *PARTS,
    ):
        yield f"{part} has a fact more", arrays, facts | {"stream": stream | {f"{part}more": 1}}, "more"
        yield f"{part} has an array more", arrays | {f"{PREFIX}{part}more": np.zeros(1)}, facts, "more"


def facts_that_disagree(state):
    """Return facts of one kind of state that are each possible, but not together: title, changes, what must be said."""
    stream = state[1]["stream"]
    counters = {key: stream[f"counters.{key}"] for key in ("records", "rows", "dead", "scored", "correct")}
    more = {key: {f"counters.{key}": value + 1} for key, value in counters.items()}
    lies = [
        ("a record too many", more["records"], "records"),
        ("a row too many", more["rows"], "records"),
        ("a dead letter too many", more["dead"], "records"),
        ("a row and a record too many", more["rows"] | more["records"], "rows|records"),
        ("a prediction too many", more["scored"], "scored"),
        ("a right prediction too many", more["correct"], "correct"),
        ("more predictions than rows", {"counters.scored": counters["rows"] + 1}, "scored"),
        ("more right than predicted", {"counters.correct": counters["scored"] + 1}, "correct"),
        ("finished without a row", {"finished": True, **{f"counters.{key}": 0 for key in counters}}, ""),
        ("an older version", {"version": 1}, "version"),
        ("a later version", {"version": 99}, "version"),
        ("an unknown format", {"schema.format": "xml"}, "format"),
        ("an unknown kind of label", {"schema.label_kind": "float"}, "label_kind"),
        ("two characters between columns", {"schema.delimiter": ", "}, "delimiter"),
        ("a line end between columns", {"schema.delimiter": "\n"}, "delimiter"),
        ("a wider schema", {"schema.width": stream["schema.width"] + 1}, "width"),
        ("a schema without width", {"schema.width": 0}, "width"),
        ("a hash of nothing", {"schema.hash_width": 7, "schema.width": stream["schema.width"] + 7}, "width"),
        ("an odd capacity", {"history.capacity": 511}, "capacity"),
        ("a stride that nothing needs", {"history.stride": 2}, "stride"),
        ("a stride of three", {"history.stride": 3}, "stride"),
        ("more batches than the stride", {"history.filled": 2}, "filled"),
        ("an unknown output", {"options.out": "xml"}, "out"),
        ("another format in the options", {"options.layout.format": "arrow"}, "arrow"),
        ("records of no bytes", {"options.layout.max_record_bytes": 0}, "max_record_bytes"),
    ]
    kind = "integer" if stream["schema.label_kind"] == "string" else "string"
    return [*lies, ("labels of another kind", {"schema.label_kind": kind}, "label")]


def lies_of_points(state):
    arrays, stream = state[0], state[1]["stream"]
    yield "an output that nobody asked for", {"options.out": ""}, "written, out"
    yield "a label that is no column", {"schema.label": "x9"}, "label"
    yield "a label that is a feature", {"schema.label": "x1"}, "label"
    yield "a label that was not asked for", {"options.layout.label": "x1"}, "label"
    yield "dead letters where there are none", {"counters.dead": 0, "counters.records": stream["counters.rows"]}, "dead"
    yield "lines of no bytes", {"place.line": stream["place.offset"] + 1}, "line"
    yield "fewer lines than records", {"place.line": 3}, "place"
    yield "a head beyond the place", {"place.head_size": stream["place.offset"] + 1}, "head_size"
    yield "a head beyond what is kept", {"place.head_size": 4097}, "head_size"
    yield "nothing read of anything", {"place.offset": 0}, "offset"
    yield "more rows learnt than rows", {"learnt.rows": 10**6}, "rows"
    yield "sources that are not there", {"learnt.count": 3}, "count"
    yield "an end without a source", {"finished": True}, "finished"
    yield "a witness that is no digest", {"place.head": "x" * 32}, "head"
    yield "a witness too short", {"place.digest": "0" * 31}, "digest"
    yield "the place of a table", {"schema.format": "parquet"}, "row"
    yield "columns without names", {"schema.format": "libsvm"}, "libsvm"
    for title, name, value, said in [
        ("a column twice", "schema.columns", ["x1", "x2", "x3", "x3", "kind"], "columns"),
        ("no columns", "schema.columns", [], "columns"),
        ("a column that is not there", "schema.columns", ["x1", "x2", "x3", "kind"], "numbers"),
        ("a column that nobody reads", "schema.columns", ["x1", "x2", "x3", "x4", "x5", "kind"], "drop"),
        ("numbers in another order", "schema.numbers", ["x2", "x1", "x3", "x4"], "numbers"),
        ("a number twice", "schema.numbers", ["x1", "x1", "x3", "x4"], "order of the columns, each once"),
        ("too few numbers", "schema.numbers", ["x1", "x2", "x3"], "width"),
        ("a number that is a category", "schema.categories", ["x1"], "share"),
        ("a number that is a text", "schema.texts", ["x4"], "share"),
        ("a label that is a number", "schema.numbers", ["x1", "x2", "x3", "x4", "kind"], "label"),
        ("classes of another kind", "schema.classes", [1, 2, 3], "classes"),
        ("a class twice", "schema.classes", ["a", "b", "b"], "classes"),
        ("classes that nobody declared", "schema.classes", ["a", "b"], "classes"),
        ("classes that nobody counts", "history.outcomes.class_names", ["a", "b", "c", "d"], "class_counts"),
        ("a class counted twice", "history.outcomes.class_names", ["a", "b", "a"], "class_names"),
        ("a column that is learnt but dropped", "options.layout.drop", ["x1"], "drop"),
        ("a text that is not asked for", "options.layout.text", ["x1"], "texts"),
        ("a category that is not asked for", "options.layout.category", ["x1"], "categories"),
    ]:
        yield title, {f"{PREFIX}{name}": to_lines(value)}, said
    for title, name, place, value, said in [
        ("more right than rows in an entry", "counts", (1, 2), 10**6, "counts"),
        ("another total", "counts", (0, 0), 10**6, "rows"),
        ("another number of dead letters", "counts", (0, 4), 10**6, "dead"),
        ("a class with other rows", "outcomes.class_counts", (1, 0), 10**6, "class_counts"),
        ("a class with no right prediction", "outcomes.class_counts", (1, 2), 0, "class_counts|pairs|forgotten"),
        ("a class that was never predicted", "outcomes.class_counts", (1, 3), 0, "class_counts"),
        ("a confusion more", "outcomes.pairs", (0, 2), 10**6, "pairs"),
        ("a confusion of no class", "outcomes.pairs", (0, 1), 4, "pairs"),
        ("a recent row of no class", "outcomes.latest", (0, 0), 4, "latest"),
        ("an eigenvalue of no direction", "eigenvalues", (0, 7), 1.0, "eigenvalues"),
        ("an eigenvalue too many", "directions", (0, 0), 9, "directions"),
        ("more recent rows than rows", "recent", (0, 0), 10**6, "recent"),
        ("another end of the recent rows", "recent", (-1, 1), 0, "recent"),
        ("a bucket too many", "drift.sizes", (0,), 6, "sizes"),
        ("a bucket of rows to come", "drift.sizes", (40,), 1, "sizes"),
        ("more errors than rows", "drift.errors", (0, 0), 2, "errors"),
        ("a choice of a row to come", "choices.rows", (-1,), 10**6, "rows"),
        ("a choice of nothing", "choices.numbers", (0, 2), 5.0, "numbers"),
        ("a kind of dead letters without any", "dead_kinds.counts", (0, 0), 0, "counts"),
        ("a point of no class", "point_facts", (0, 1), 4, "point_facts"),
        ("a point predicted as no class", "point_facts", (0, 2), 4, "point_facts"),
        ("a point too wide", "point_facts", (0, 3), 9, "point_facts"),
        ("a point of a row to come", "point_facts", (-1, 0), 10**9, "point_facts"),
        ("points out of order", "point_facts", (1, 0), 1, "point_facts"),
        ("a point more than sure", "points", (0, 8), 1.5, "points"),
        ("an offset too wide", "point_facts", (0, 4), 1, "point_facts"),
        ("an offset of no direction", "offsets", (0, 7), 1.0, "offsets"),
    ]:
        array = arrays[f"{PREFIX}history.{name}"].copy()
        array[place] = value
        yield title, {f"{PREFIX}history.{name}": array}, said


def lies_of_words(state):
    yield "dense rows of hashed columns", {"schema.sparse": False}, "sparse"
    yield "no width for hashed columns", {"schema.hash_width": 0, "schema.width": 1}, "hash_width"
    yield "another width for hashed columns", {"schema.hash_width": 17, "schema.width": 18}, "hash_width"
    yield "a text that is a category", {f"{PREFIX}schema.categories": to_lines(["colour", "note"])}, "share"
    yield "a text that was not asked for", {f"{PREFIX}options.layout.text": to_lines([])}, "texts"


def lies_of_the_table(state):
    stream = state[1]["stream"]
    yield "a row more than records", {"place.row": stream["place.row"] + 1}, "place"
    yield "more rows in the file than in all", {"place.in_file": stream["place.row"] + 1}, "in_file"
    yield "a witness that is no digest", {"place.digest": ""}, "digest"
    yield "the place of lines", {"schema.format": "csv"}, "offset"


def lies_of_pairs(state):
    yield "columns with names", {"schema.format": "csv"}, "columns"
    yield "another width", {"schema.width": 7}, "width"
    yield "another width in the options", {"options.layout.max_features": 7}, "width"
    yield "columns counted from 0", {"schema.zero_based": True}, "zero_based"


def lies_of_merged(state):
    yield "no sources", {f"{PREFIX}merged": to_lines([])}, "merged"
    yield "sources that are numbers", {f"{PREFIX}merged": to_lines([1])}, "merged"
    yield "a place", {"place.row": 3}, "place.row"
    yield "a prediction too many", {"counters.scored": state[1]["stream"]["counters.rows"] + 1}, "scored"


SPECIAL = {
    "points": lies_of_points,
    "words": lies_of_words,
    "table": lies_of_the_table,
    "pairs": lies_of_pairs,
    "merged": lies_of_merged,
}


def changed(state, changes):
    """Return arrays and facts with some of them changed: what begins with the prefix is an array."""
    arrays, facts = state[0], copy.deepcopy(state[1])
    facts["stream"] |= {name: value for name, value in changes.items() if not name.startswith(PREFIX)}
    return arrays | {name: value for name, value in changes.items() if name.startswith(PREFIX)}, facts


def all_lies(kind, state):
    arrays, facts = state
    if kind != "merged":
        # What is not of the source is the same in every kind of state.
        yield from lies_about_every_name(arrays, facts, ("",) if kind == "points" else ("schema.", "place."))
        for title, changes, said in facts_that_disagree(state):
            yield title, *changed(state, changes), said
    for title, changes, said in SPECIAL[kind](state):
        yield title, *changed(state, changes), said
    yield "a state that is a list", arrays, facts | {"stream": [1]}, "the stream"
    yield "a stranger among the facts", arrays, facts | {"stranger": 1}, "stranger"
    yield "a stranger among the arrays", arrays | {"stranger": np.zeros(1)}, facts, "stranger"


@pytest.mark.parametrize("kind", SPECIAL)
def test_a_stream_state_that_lies_is_refused(states, kind):
    folder, found = states
    path, wrong, count = folder / kind, [], 0
    before = [{name: array.tobytes() for name, array in found[kind][0].items()}, copy.deepcopy(found[kind][1])]
    for title, arrays, facts, said in all_lies(kind, found[kind]):
        write(path, arrays, facts)
        doors = {"inspect": lambda: describe(str(path))}
        if kind != "merged":
            doors["learn"] = lambda: run(folder, kind)
        for door, enter in doors.items():
            message = refusal(enter)
            begins, reason = message.startswith(f"{path}: "), message.removeprefix(str(path))
            named = any(word.rsplit(".", 1)[-1] in reason for word in said.split("|"))
            if not begins or not named or "Restore" not in reason or len(reason) > 500:
                wrong.append(f"{title}, {door}: {message}")
        count += 1
    assert not wrong, "\n".join(wrong)
    assert count >= {"points": 400, "words": 100, "table": 100, "pairs": 100, "merged": 7}[kind]
    after = [{name: array.tobytes() for name, array in found[kind][0].items()}, found[kind][1]]
    assert before == after  # no lie was told about another's state


def refusal(enter):
    """Return what a CheckpointError says, or what came instead of it."""
    try:
        enter()
    except CheckpointError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "accepted"


def test_the_states_that_the_lies_are_made_of_are_accepted(states):
    folder, found = states
    for kind, state in found.items():
        write(folder / kind, *state)
        assert describe(str(folder / kind))["stream"]["counters"]["rows"] > 0
    for kind in KINDS:
        done = run(folder, kind, stop_at=10**9)
        assert (done.resumed, done.finished, done.counters.rows) == (True, True, 800)


def test_prediction_and_merging_refuse_the_same(states):
    folder, found = states
    path = folder / "points"
    write(path, *changed(found["points"], {"counters.rows": -1}))
    with pytest.raises(CheckpointError, match=r"rows is -1, expected a whole number.*Restore a copy"):
        apply(Source(str(folder / "a.csv")), str(path), "predict", out=str(folder / "p.csv"))
    with pytest.raises(CheckpointError, match="rows is -1"):
        merge_files([str(path), str(path)], str(folder / "w"))


def test_a_state_of_another_format_says_what_to_do(states, tmp_path):
    arrays, facts = copy.deepcopy(states[1]["points"])
    facts["stream"]["version"] = 1
    write(tmp_path / "model", arrays, facts)
    needed = rf"the state of the stream has format 1, and this version of kampong reads format {VERSION}\."
    with pytest.raises(CheckpointError, match=rf"{needed} Restore a copy of the file, or start again without it\.$"):
        describe(str(tmp_path / "model"))
    facts["versions"]["kampong"] = "0.0.1"
    write(tmp_path / "model", arrays, facts)
    with pytest.raises(CheckpointError, match=rf"{needed} It was written by kampong 0\.0\.1, .* or fit again\.$"):
        describe(str(tmp_path / "model"))
