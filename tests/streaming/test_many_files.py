"""Several files as one source: a folder, a list, NumPy arrays; stopped and resumed across their borders."""

import gzip
import threading

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")
pytest.importorskip("typer", reason="the stream tool needs the `stream` extra")

import kampong
from command import call
from kampong.streaming import Layout, Source, learn
from kampong.streaming.errors import ResumeError, SourceError
from kampong.streaming.sources import blocks
from stream_problems import rows_of, without_clock, write_points


def split_points(folder, rows=900, parts=3, *, compress=False):
    """Write points as one file and as parts in a folder, each with its header; return the lines."""
    good, _ = write_points(folder / "all.csv", rows)
    header, *lines = (folder / "all.csv").read_text().splitlines()
    (folder / "parts").mkdir()
    size = -(-len(lines) // parts)
    for i in range(parts):
        text = "\n".join([header, *lines[i * size : (i + 1) * size]]) + "\n"
        name = folder / "parts" / f"part{i}.csv"
        if compress and i == 1:
            with gzip.open(f"{name}.gz", "wt") as file:
                file.write(text)
        else:
            name.write_text(text)
    (folder / "parts" / "_notes.csv").write_text("left out\n")
    return good


@pytest.mark.parametrize("compress", [False, True])
def test_a_folder_and_a_list_of_files_are_read_in_order(tmp_path, compress):
    split_points(tmp_path, compress=compress)
    X, y = rows_of(Source(str(tmp_path / "all.csv"), Layout(label="kind")))
    files = sorted(str(path) for path in (tmp_path / "parts").iterdir() if path.name.startswith("part"))
    assert len(files) == 3
    for source in (
        Source(str(tmp_path / "parts"), Layout(label="kind")),
        Source(files[0], Layout(label="kind"), more=tuple(files[1:])),
    ):
        again, labels = rows_of(source)
        np.testing.assert_array_equal(again, X)
        np.testing.assert_array_equal(labels, y)


def test_a_run_stopped_in_any_file_ends_with_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "LARGEST", 4096)
    split_points(tmp_path)
    source = Source(str(tmp_path / "parts"), Layout(label="kind"))
    places = []
    for name, stops in (("whole", []), ("parts1", [1, 2, 2, 1])):
        for size in [*stops, 10**9]:
            stop, seen = threading.Event(), []

            def watch(run, stop=stop, seen=seen, size=size):
                seen.append(run.place["file"])
                if len(seen) == size:
                    stop.set()

            files = {"model_file": str(tmp_path / name), "out": str(tmp_path / f"{name}.csv")}
            run = learn(source, kampong.FisherDiscriminant(ridge=0.1), watch=watch, stop=stop, **files)
            places.append(run.place["file"])
    assert set(places[1:]) == {0, 1, 2}
    assert run.counters.rows == 900
    assert without_clock(tmp_path / "parts1") == without_clock(tmp_path / "whole")
    assert (tmp_path / "parts1.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    stream = source.open()
    place = [batch.place for batch in stream][-1]
    with (tmp_path / "parts" / "part0.csv").open("a") as file:
        file.write("1,2,3,4,a\n")
    with pytest.raises(ResumeError, match="the files are not those this model was learnt from"):
        source.open(schema=stream.schema, place=place)


def test_files_that_do_not_belong_together_are_refused(tmp_path, capfd):
    split_points(tmp_path)
    (tmp_path / "other.csv").write_text("x1,x2,y3,x4,kind\n1,2,3,4,a\n")
    command = ("learn", tmp_path / "all.csv", tmp_path / "other.csv", "--label", "kind", "-m", tmp_path / "m")
    said = call(capfd, *command, expect=3).err
    expected = (
        f"{tmp_path / 'other.csv'}: its columns are not those of {tmp_path / 'all.csv'}: missing: 'x3'; new: 'y3'"
    )
    assert expected in said
    assert (
        "stdin cannot be read together with files"
        in call(capfd, "learn", tmp_path / "all.csv", "-", "--label", "kind", "-m", tmp_path / "n", expect=3).err
    )
    (tmp_path / "parts" / "x.jsonl").write_text('{"x": 1}\n')
    with pytest.raises(SourceError, match=r"holds files of jsonl and csv\. State which with --format"):
        Source(str(tmp_path / "parts"), Layout(label="kind")).open()
    with pytest.raises(SourceError, match="--follow needs one file that grows; there are 3"):
        Source(str(tmp_path / "parts"), Layout(label="kind", format="csv"), follow=True).open()
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=r"the folder holds no csv file \(\*.csv\)"):
        Source(str(tmp_path / "empty"), Layout(label="kind", format="csv")).open()


def test_several_files_are_learnt_and_predicted_from_the_command_line(tmp_path, capfd):
    split_points(tmp_path)
    parts = [tmp_path / "parts" / f"part{i}.csv" for i in range(3)]
    said = call(capfd, "learn", *parts, "--label", "kind", "-m", tmp_path / "m").err
    assert "900 rows" in said
    call(capfd, "predict", *parts, "-m", tmp_path / "m", "-o", tmp_path / "o.csv")
    assert len((tmp_path / "o.csv").read_text().splitlines()) == 901
    target = call(capfd, "learn", *parts, "--label", "kind", "-m", tmp_path / "x", "-o", parts[2], expect=2).err
    assert "this is the source" in target


def test_arrays_of_numpy_are_rows(tmp_path, capfd):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 500)
    X = (rng.normal(size=(500, 4)) + 3 * np.eye(3, 4)[y]).astype(np.float32)
    np.save(tmp_path / "a.npy", np.column_stack([X, y]))
    np.savez(tmp_path / "a.npz", X=X, y=np.array(["u", "v", "w"])[y], classes=np.array(["u", "v", "w"]))
    first, labels = rows_of(Source(str(tmp_path / "a.npy"), Layout(label="5")))
    np.testing.assert_array_equal(first, X)
    np.testing.assert_array_equal(labels, y)
    second, names = rows_of(Source(str(tmp_path / "a.npz"), Layout(label="y")))
    np.testing.assert_array_equal(second, X)
    np.testing.assert_array_equal(names, np.array(["u", "v", "w"])[y])
    said = call(capfd, "learn", tmp_path / "a.npz", "--label", "y", "-m", tmp_path / "m").err
    assert "columns: 4 number (1, 2, 3, 4); label y (string)" in said
    call(capfd, "predict", tmp_path / "a.npz", "-m", tmp_path / "m", "-o", tmp_path / "o.csv")
    found = [line.split(",")[1].strip('"') for line in (tmp_path / "o.csv").read_text().splitlines()[1:]]
    assert np.mean(np.array(found) == names) > 0.9


def test_arrays_that_are_no_rows_say_what_is_wanted(tmp_path):
    from scipy import sparse

    sparse.save_npz(tmp_path / "sparse.npz", sparse.csr_array(np.eye(3)))
    np.save(tmp_path / "line.npy", np.arange(5.0))
    np.savez(tmp_path / "two.npz", a=np.eye(3), b=np.eye(3))
    np.save(tmp_path / "complex.npy", np.eye(3) * 1j)
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY nonsense")
    expected = {
        "sparse.npz": "this is a sparse matrix of SciPy. Write it as libsvm",
        "line.npy": "it holds 0 matrices, where one of rows and columns is needed",
        "two.npz": "it holds 2 matrices",
        "complex.npy": "something other than numbers, truths and texts",
        "broken.npy": "it cannot be read as a NumPy file",
    }
    for name, message in expected.items():
        with pytest.raises(SourceError, match=message):
            Source(str(tmp_path / name), Layout(label="y")).open()
