"""Files that once broke something, kept small: model files with a right digest, and sources. Tests read them all.

`python -m fuzz.corpus model 15291` adds the model file of a seed of `fuzz.model_files`, `python -m fuzz.corpus arrow 7`
the source of a seed of `fuzz.sources`. A file says by its name what it is: `model-MarginRecursion-dense-15291`.
"""

import sys
import tempfile
import warnings
from pathlib import Path

from fuzz import model_files, sources
from kampong.files import CheckpointError, load

FOLDER = Path(__file__).parent / "kept"
MOST = 64 * 2**10
"""The most bytes of one file: the corpus stays small."""


def files():
    """Return all files of the corpus, by name."""
    return sorted(path for path in FOLDER.iterdir() if path.name != "README.md")


def replay(path):
    """Read one file, and use what it holds as the attacker did; return a word for what happened, or raise Finding."""
    kind, *rest = path.name.split("-")
    if kind != "model":
        return sources.read(path.read_bytes(), kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = load(path)
        except CheckpointError:
            return "refused"
    with tempfile.TemporaryDirectory() as folder:
        return model_files.use(model, (rest[0], rest[1]), Path(folder) / "model")


def add(kind, seed):
    """Write the file that a seed makes to the corpus; return its path."""
    FOLDER.mkdir(exist_ok=True)
    if kind == "model":
        model_files.CASES[:] = model_files.CASES or model_files.cases()
        case, _, content = model_files.made(seed)
        path = FOLDER / "-".join(["model", *case, str(seed)])
        path.write_bytes(content)
    else:
        path = FOLDER / f"{kind}-{seed}"
        path.write_bytes(sources.made(kind, seed))
    if path.stat().st_size > MOST:
        path.unlink()
        raise SystemExit(f"{path.name}: larger than {MOST} bytes. Make a smaller file that breaks the same.")
    return path


if __name__ == "__main__":
    for given in sys.argv[2:]:
        print(add(sys.argv[1], int(given)))
