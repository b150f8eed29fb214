"""What a fit passes through: files, functions, calls from one file to another, and how deep they nest."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import kampong

SOURCE = str(Path(kampong.__file__).parent)


class Trace:
    """Calls of the library's functions during some work on this thread.

    Attributes
    ----------
    files : dict of str to int
        Calls into each file, in the order of the first one.
    functions : set of tuple
        The functions that were called, as file and line.
    hops : int
        Calls of a function from another file of the library.
    depth : int
        How many functions of the library were at most waiting for each other.
    """

    def __init__(self) -> None:
        self.files: dict[str, int] = {}
        self.functions: set[tuple[str, int]] = set()
        self.hops = self.depth = 0
        self._open: list[str] = []

    def __call__(self, frame, event, _):
        """Note one event of the interpreter."""
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(SOURCE) or code.co_name == "<module>":
            return
        if event == "return":
            if self._open:
                self._open.pop()
            return
        name = str(Path(code.co_filename).relative_to(SOURCE))
        self.files[name] = self.files.get(name, 0) + 1
        self.functions.add((name, code.co_firstlineno))
        self.hops += bool(self._open) and self._open[-1] != name
        self._open.append(name)
        self.depth = max(self.depth, len(self._open))


def traced(work) -> Trace:
    """Return what some work calls."""
    trace = Trace()
    sys.setprofile(trace)
    try:
        work()
    finally:
        sys.setprofile(None)
    return trace


def _learn(folder: Path, number: int) -> None:
    """Run `kampong learn` in this process."""
    from kampong.cli import app

    words = ["learn", str(folder / "rows.csv"), "--label", "label", "-m", str(folder / f"{number}.kampong"), "--quiet"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        app(words, standalone_mode=False)


def main(shrink: int = 1) -> None:
    """Print a line for each kind of work, and the files that it crosses."""
    X, y = load_digits(return_X_y=True)
    n = max(200, len(X) // shrink)
    X, y = X[:n], y[:n]
    half = n // 2

    def stream() -> None:
        model = kampong.FisherDiscriminant().partial_fit(X[:half], y[:half]).partial_fit(X[half:], y[half:])
        model.predict(X)

    work = {
        "FisherDiscriminant().fit": lambda: kampong.FisherDiscriminant().fit(X, y),
        "FisherDiscriminant(ridge=0.1).fit": lambda: kampong.FisherDiscriminant(ridge=0.1).fit(X, y),
        "partial_fit twice, predict": stream,
        "KernelFisherDiscriminant().fit": lambda: kampong.KernelFisherDiscriminant().fit(X[:400], y[:400]),
        "CoreVectorClassifier().fit": lambda: kampong.CoreVectorClassifier().fit(X[:400], y[:400]),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = np.column_stack([X[:300], y[:300]])
        header = ",".join([*(f"c{i}" for i in range(X.shape[1])), "label"])
        np.savetxt(folder / "rows.csv", rows, fmt="%g", delimiter=",", header=header, comments="")
        calls = iter(range(10))
        work["kampong learn, 300 rows"] = lambda: _learn(folder, next(calls))
        print(f"{'':36} {'files':>6} {'functions':>10} {'hops':>7} {'depth':>6}")
        for name, call in work.items():
            call()  # imports and compilation
            trace = traced(call)
            print(f"{name:36} {len(trace.files):6} {len(trace.functions):10} {trace.hops:7} {trace.depth:6}")
            print("    " + ", ".join(trace.files))


if __name__ == "__main__":
    main()
