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
import re
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NAMES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in ("__init__", "__main__"))
NAMES.remove("measure")
WITH_SETS = ("cliffs", "contest", "defaults", "delays", "margin", "mmda", "peers", "stages", "streams", "tables")
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
        "commit": commit(),
        "took": f"{seconds:.0f} s",
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
    }
    return "".join(f"{key}: {value}\n" for key, value in lines.items())


def commit() -> str:
    """Return the commit that is checked out, and whether files differ from it; "unknown" outside a repository."""
    git = ("git", "-C", str(ROOT))
    try:
        name = subprocess.run((*git, "rev-parse", "--short", "HEAD"), capture_output=True, text=True, check=True)
        changed = subprocess.run((*git, "diff", "--quiet", "HEAD", "--", "src", "benchmarks"), check=False).returncode
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return name.stdout.strip() + (" and changes" if changed else "")


def pages(name: str) -> list[str]:
    """Return the documents that show or name a benchmark: those to read again when what it prints has changed."""
    named = re.compile(rf"(?:python -m benchmarks|^```{{benchmark}}) {name}\b", re.MULTILINE)
    documents = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    return [str(path.relative_to(ROOT)) for path in documents if named.search(path.read_text(encoding="utf-8"))]


def run_all(out: Path) -> None:
    """Run every benchmark and keep what it prints; say what failed, how long it took and which pages to read again."""
    begun, failed, changed = time.perf_counter(), [], {}
    for name in NAMES:
        file = out / f"{name}.txt"
        before = file.read_text(encoding="utf-8").partition("\n\n")[2] if file.exists() else ""
        print(f"== {name}", flush=True)
        try:
            run(name, out)
        except (Exception, SystemExit) as error:
            failed.append(f"{name}: {error}")
            continue
        if file.read_text(encoding="utf-8").partition("\n\n")[2] != before:
            changed[name] = pages(name)
    print(f"\n{len(NAMES)} benchmarks in {(time.perf_counter() - begun) / 60:.0f} minutes, {len(changed)} changed")
    for name, named in changed.items():
        print(f"  {name}: " + (", ".join(named) or "no page but docs/benchmarks/index.md"))
    if failed:
        sys.exit("failed, and the earlier files stay:\n  " + "\n  ".join(failed))


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
    parser.add_argument("--peers", action="store_true", help="with tables: only the peers whose results are not kept")
    given = parser.parse_args(words)
    if given.out is not None and not given.names:
        run_all(given.out)
        return
    chosen = given.names or NAMES
    sets = tuple(chosen[1:])
    flags = [f"--{flag}" for flag in ("patient", "peers") if getattr(given, flag)]
    if chosen[0] in (*WITH_SETS, "same_results") and (flags or (sets and not set(sets) <= set(NAMES))):
        run(chosen[0], given.out, sets=(*sets, *flags))
        return
    unknown = sorted(set(chosen) - set(NAMES))
    if unknown:
        sys.exit(f"no benchmark named {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    for name in chosen:
        run(name, given.out)


if __name__ == "__main__":
    command()
