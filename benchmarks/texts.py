"""Real text streams, start to end, beside scikit-learn's hashing with stochastic gradients and Vowpal Wabbit.

Each learner is a process of its own that reads the same file: accuracy before learning (rows that nothing could predict
count as wrong), rows per second of processor time with imports, peak memory. scikit-learn predicts and learns a hundred
rows at a time, because it takes most of its time per call; the others predict each row before they learn it.

arXiv: the first 100,000 titles and abstracts as bags of words, ten archives, by date. Reuters: the stories of
Reuters-21578 with one topic, by date.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from benchmarks.measure import data_folder, present

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 100_000
LEARNERS = ("kampong", "scikit-learn", "Vowpal Wabbit")

START = "import json, resource, sys\nrows = [line.split('\\t') for line in open(sys.argv[1]).read().splitlines()[1:]]\n"
END = """
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([right, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""
CODE = {
    "kampong": """
import json, resource, sys
from kampong.streaming import Layout, Source, learn
from kampong.streaming.options import estimator
run = learn(Source(sys.argv[1], Layout(label="label", text="text")), estimator(), model_file=sys.argv[1] + ".kampong")
right = run.counters.correct
""",
    "scikit-learn": START
    + """
import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier
classes, right = sorted({label for label, _ in rows}), 0
vectorizer, model = HashingVectorizer(n_features=2**18), SGDClassifier(loss="log_loss", random_state=0)
for start in range(0, len(rows), 100):
    labels, texts = zip(*rows[start : start + 100])
    X = vectorizer.transform(texts)
    right += int(np.sum(model.predict(X) == np.array(labels))) if start else 0
    model.partial_fit(X, labels, classes=classes)
""",
    "Vowpal Wabbit": START
    + """
from vowpalwabbit import Workspace
codes = {label: i + 1 for i, label in enumerate(sorted({label for label, _ in rows}))}
learner, right = Workspace(f"--oaa {len(codes)} -b 18 --quiet"), 0
for label, text in rows:
    example = learner.example(f"{codes[label]} | {text.replace(':', ' ').replace('|', ' ')}")
    right += int(learner.predict(example) == codes[label])
    learner.learn(example)
    learner.finish_example(example)
""",
}


def main(shrink: int = 1) -> None:
    """Print a line per stream and learner; `shrink` divides the rows, and a large one takes made-up texts."""
    for name, rows in _streams(shrink):
        print(f"\n{name}: {len(rows):,} texts, {len({label for label, _ in rows})} classes")
        print(f"  {'':<15}{'accuracy':>10}{'rows per CPU second':>22}{'MiB':>8}")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "texts.tsv"
            path.write_text("label\ttext\n" + "".join(f"{label}\t{text}\n" for label, text in rows), encoding="utf-8")
            for learner in LEARNERS:
                found = _run(learner, path)
                if found is None:
                    print(f"  {learner:<15}  (not installed)")
                    continue
                right, seconds, peak = found
                print(f"  {learner:<15}{right / len(rows):>10.4f}{len(rows) / seconds:>22,.0f}{peak:>8.0f}", flush=True)


def _run(learner: str, path: Path) -> tuple[int, float, float] | None:
    """Return how many rows a learner had right, its seconds of processor time and its peak; None if it is missing."""
    done = subprocess.run(
        [sys.executable, "-c", CODE[learner] + END, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "ModuleNotFoundError" in done.stderr:
        return None
    if done.returncode:
        raise RuntimeError(f"{learner}: {done.stderr[-500:]}")
    right, seconds, peak = json.loads(done.stdout.splitlines()[-1])
    return right, seconds, peak


def _streams(shrink: int) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    if not present("arxiv_bow.npz", "arxiv_labels.npz", "arxiv_vocab.txt.gz", "reuters21578.tsv.gz", small=shrink > 1):
        rng = np.random.default_rng(0)
        labels = rng.integers(0, 3, max(20_000 // shrink, 200))
        words = np.where(rng.random((len(labels), 12)) < 0.3, 100 * labels[:, None], 0)
        words += rng.integers(0, 100, words.shape)
        yield "made up", [(f"c{y}", " ".join(f"w{j}" for j in row)) for y, row in zip(labels, words, strict=True)]
        return
    yield "arXiv", _arxiv()
    yield "Reuters", _reuters()


def _arxiv() -> list[tuple[str, str]]:
    folder = data_folder()
    counts = sparse.load_npz(folder / "arxiv_bow.npz").tocsr()[:ROWS]
    with np.load(folder / "arxiv_labels.npz", allow_pickle=False) as known:
        labels = known["groups"][known["y_group"][:ROWS]]
    words = gzip.decompress((folder / "arxiv_vocab.txt.gz").read_bytes()).decode().split("\n")
    terms = np.array(words[: counts.shape[1]], dtype=object)
    bags = [np.repeat(terms[row.indices], row.data.astype(np.int64)) for row in (counts[[i]] for i in range(ROWS))]
    return [(str(label), " ".join(bag)) for label, bag in zip(labels, bags, strict=True)]


def _reuters() -> list[tuple[str, str]]:
    with gzip.open(data_folder() / "reuters21578.tsv.gz", "rt", encoding="utf-8") as file:
        stories = [line.split("\t") for line in file.read().splitlines()[1:]]
    stories.sort(key=lambda story: story[1])
    return [(story[4], story[5]) for story in stories if story[4] and "," not in story[4]]


if __name__ == "__main__":
    main()
