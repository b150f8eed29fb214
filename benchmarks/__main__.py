"""Run benchmarks by name, or all: `python -m benchmarks linear`; sets of one: `python -m benchmarks defaults usps`.

`--out FOLDER` also writes what each one prints to FOLDER/NAME.txt, below lines on the run. The site shows the files
in docs/benchmarks/results as they are, so a figure there is never typed.
"""

import argparse
import contextlib
import importlib
import io
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

NAMES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in ("__init__", "__main__"))
NAMES.remove("measure")
WITH_SETS = ("cliffs", "contest", "defaults", "delays", "stages", "streams", "tables")
LIBRARIES = ("kampong", "numpy", "scipy", "scikit-learn", "numba")


class Tee(io.StringIO):
    """Text that is kept, and printed at once."""

    def write(self, text: str) -> int:
        """Print and keep."""
        sys.__stdout__.write(text)
        sys.__stdout__.flush()
        return super().write(text)


def about(command: str, seconds: float) -> str:
    """Return what a reader must know of a run: the command, its time, the versions, and the machine's size."""
    lines = {
        "command": command,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "took": f"{seconds:.0f} s",
        "cores": str(os.cpu_count()),
        "Python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
    }
    return "".join(f"{key}: {value}\n" for key, value in lines.items())


def run(name: str, out: Path | None, **options: Any) -> None:
    """Run one benchmark; a run that ends early leaves the file of an earlier one as it was."""
    main = importlib.import_module(f"benchmarks.{name}").main
    if out is None:
        main(**options)
        return
    start = time.perf_counter()
    with contextlib.redirect_stdout(Tee()) as kept:
        main(**options)
    named = " ".join([name, *options.get("sets", ())])
    out.mkdir(parents=True, exist_ok=True)
    text = (
        about(f"python -m benchmarks {named}", time.perf_counter() - start) + "\n" + kept.getvalue().strip("\n") + "\n"
    )
    (out / f"{name}.txt").write_text(text, encoding="utf-8")


def command(words: list[str] | None = None) -> None:
    """Read the command line and run what it names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=f"Benchmarks: {', '.join(NAMES)}.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks, or one and its sets; all if none")
    parser.add_argument("--out", type=Path, help="a folder for NAME.txt with what was printed")
    parser.add_argument(
        "--patient", action="store_true", help="with defaults: peers that take a quarter of an hour too"
    )
    given = parser.parse_args(words)
    chosen = given.names or NAMES
    sets = tuple(chosen[1:])
    if chosen[0] in (*WITH_SETS, "same_results") and (given.patient or (sets and not set(sets) <= set(NAMES))):
        run(chosen[0], given.out, sets=(*sets, "--patient") if given.patient else sets)
        return
    unknown = sorted(set(chosen) - set(NAMES))
    if unknown:
        sys.exit(f"no benchmark named {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    for name in chosen:
        run(name, given.out)


if __name__ == "__main__":
    command()
