"""What the tests of the stream tool share: sources to learn from, and a model file without its clock."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kampong.files import Contents, read
from kampong.streaming.history.history import History


def write_points(path, rows=1500, *, seed=0, bad=0.0, integers=False):
    """Write a CSV of three classes; return the lines that are good and those that are not."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, rows)
    X = np.round(rng.normal(size=(rows, 4)) + 2 * np.eye(3, 4)[y], 3)
    good = [",".join([*map(str, x), str(c) if integers else "abc"[c]]) for x, c in zip(X.tolist(), y, strict=True)]
    lines, spoilt = [], []
    broken = ["1,2,3", "1,x,3,4,a", "1,2,3,4,5,a", "inf,1,2,3,a", "1e101,1,2,3,b", '1,2,3,4,"a', "1,2,3,4,"]
    for line in good:
        if rng.random() < bad:
            spoilt.append(broken[len(spoilt) % len(broken)])
            lines.append(spoilt[-1])
        lines.append(line)
    path.write_text("\n".join(["x1,x2,x3,x4,kind", *lines]) + "\n")
    return good, spoilt


def points_of_many_sizes():
    """Return rows whose numbers need all their digits, and labels of which one needs quotes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4)) * 10.0 ** rng.integers(-6, 7, size=(3000, 4))
    return X, rng.choice(["a", "b c", "d,e"], size=3000)


def write_tables(folder, X, y):
    """Write rows and their labels as a Parquet file, a folder of three, and an Arrow file; return them as a table."""
    table = pa.table({**{f"x{j}": X[:, j] for j in range(X.shape[1])}, "label": y})
    pq.write_table(table, folder / "a.parquet", row_group_size=700)
    (folder / "folder").mkdir()
    for i in range(3):
        pq.write_table(table.slice(1000 * i, 1000), folder / "folder" / f"{i}.parquet")
    with pa.OSFile(str(folder / "a.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=900)
    return table


def write_csv(path, X, y, *, delimiter=",", header=True, opener=open):
    """Write rows and their labels, quoted where they need it; repr() brings every bit back."""
    names = delimiter.join([f"x{j}" for j in range(X.shape[1])] + ["label"]) + "\n"
    with opener(path, "wt") as file:
        file.write(names if header else "")
        for row, label in zip(X.tolist(), y, strict=True):
            file.write(delimiter.join([*map(repr, row), f'"{label}"' if delimiter in label else label]) + "\n")


def without_clock(path):
    """Return the facts and arrays of a model file as bytes, all but the seconds that each batch took."""
    arrays, facts = read(path)
    stream = {f"stream.{name}": value for name, value in facts["stream"].items()}
    history = History.from_state(Contents(arrays, stream, "the file").part("stream").part("history"))
    clocked = history.curves()._replace(seconds=np.zeros(0))
    kept = {name: array for name, array in arrays.items() if name != "stream.history.counts"}
    state = {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in kept.items()}
    return facts, state, [np.asarray(part).tobytes() for part in clocked]


def rows_of(source):
    """Return all rows and labels of a source that has no bad record."""
    batches = [batch for batch in source.open() if batch.rows]
    assert not any(batch.dead for batch in batches)
    return np.concatenate([batch.X for batch in batches]), np.concatenate([batch.y for batch in batches])
