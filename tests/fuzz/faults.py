"""What happens to a run: signals, full disks, changed sources, second runs; `python -m fuzz.faults` prints the table.

Each try starts `kampong learn` in a process of its own, lets the fault happen in the middle of the run, starts the same
command again, and compares model and output with those of a run that nobody disturbed. A failure is any difference, a
lost file, an exit code that is not documented, or a traceback.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stream_problems import without_clock, write_points

ROWS = 20_000
DOCUMENTED = {0, 2, 3, 4, 5, 130, 141, 143}


class Folder:
    """A folder with a source, where runs leave a model and an output."""

    def __init__(self, root, rows=ROWS):
        self.root = Path(root)
        write_points(self.root / "a.csv", rows, bad=0.01)

    def command(self, *more, out="o.csv"):
        options = ["--label", "kind", "--model", "m", "--out", out, "--checkpoint-every", "0", "--quiet"]
        return [sys.executable, "-m", "kampong", "learn", "a.csv", *options, *more]

    def start(self, *more, **keywords):
        return subprocess.Popen(
            self.command(*more), cwd=self.root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **keywords
        )

    def finish(self):
        done = subprocess.run(self.command(), cwd=self.root, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    def wait_for_model(self, child):
        while child.poll() is None and not (self.root / "m").exists():
            time.sleep(0.005)

    def left(self):
        facts, *rest = without_clock(self.root / "m")
        facts["stream"].pop("source", None)
        return facts, rest, (self.root / "o.csv").read_bytes(), (self.root / "m.dead.jsonl").read_bytes()


def disturbed(folder, rng, fault):
    """Start a run, let the fault happen, end the run; return its exit code and what it said."""
    child = folder.start()
    folder.wait_for_model(child)
    time.sleep(rng.uniform(0.0, 0.3))
    fault(folder, child)
    said = child.communicate(timeout=120)[1]
    return child.returncode, said


def sends(*numbers):
    def fault(folder, child):
        for number in numbers:
            child.send_signal(number)
            time.sleep(0.01)

    return fault


def second_run(folder, child):
    again = folder.start()
    said = again.communicate(timeout=120)[1]
    assert again.returncode in (0, 4), again.returncode
    assert again.returncode == 0 or f"process {child.pid}" in said, said


def rename_fails(folder, child):
    child.send_signal(signal.SIGSTOP)
    blocked = folder.root / "kept"
    (folder.root / "m").rename(blocked)
    (folder.root / "m").mkdir()
    child.send_signal(signal.SIGCONT)
    child.wait(timeout=120)
    (folder.root / "m").rmdir()
    blocked.rename(folder.root / "m")


FAULTS = {
    "kill -9": (sends(signal.SIGKILL), {-9, 0}),
    "SIGTERM": (sends(signal.SIGTERM), {143, 0}),
    "SIGINT twice": (sends(signal.SIGINT, signal.SIGINT), {130, 0}),
    "SIGHUP": (sends(signal.SIGHUP), {-1, 129, 0}),
    "SIGPIPE": (sends(signal.SIGPIPE), {0}),
    "a second run on the same model": (second_run, {0}),
    "a rename that fails": (rename_fails, {0, 4, 5}),
}


def attempt(fault, codes, whole, seed):
    """Return why a try failed, "" where it did not."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as root:
        folder = Folder(root)
        code, said = disturbed(folder, rng, fault)
        if code not in codes or "Traceback" in said:
            return f"exit {code}: {said[-200:]}"
        code, said = folder.finish()
        if code:
            return f"the run after it ended with {code}: {said[-200:]}"
        return "" if folder.left() == whole else "another model or output"


def full_disk(whole, seed):
    """Run on a disk that is too small for the output; then on one that is not."""
    with tempfile.TemporaryDirectory() as root:
        small = Path(root) / "small"
        small.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1200k", "none", str(small)], capture_output=True)
        if mounted.returncode:
            return None
        try:
            write_points(Path(root) / "a.csv", ROWS, bad=0.01)
            (small / "a.csv").symlink_to(Path(root) / "a.csv")
            folder = Folder.__new__(Folder)
            folder.root = small
            child = folder.start()
            said = child.communicate(timeout=120)[1]
            if child.returncode not in (4, 5) or "Traceback" in said:
                return f"exit {child.returncode}: {said[-200:]}"
            subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
            code, said = folder.finish()
            if code:
                return f"the run after it ended with {code}: {said[-200:]}"
            return "" if folder.left() == whole else "another model or output"
        finally:
            subprocess.run(["umount", "-l", str(small)], check=False)


def changed_source(change):
    """Return a fault: the source changes between two runs; the second must say so, or go on where nothing changed."""

    def run(whole, seed):
        with tempfile.TemporaryDirectory() as root:
            folder = Folder(root)
            disturbed(folder, random.Random(seed), sends(signal.SIGTERM))
            before = (folder.root / "m").read_bytes()
            change(folder.root / "a.csv")
            code, said = folder.finish()
            if code not in DOCUMENTED or "Traceback" in said:
                return f"exit {code}: {said[-200:]}"
            return "" if code in (3, 4) or (folder.root / "m").read_bytes() != before or not code else f"exit {code}"

    return run


def truncate(path):
    os.truncate(path, path.stat().st_size // 50)


def replace(path):
    write_points(path, ROWS, bad=0.2)


def append(path):
    data = path.read_bytes()
    with path.open("ab") as file:
        file.write(data[data.index(b"\n") + 1 :][:4000].rpartition(b"\n")[0] + b"\n")


def main(tries=5):
    """Print the table."""
    with tempfile.TemporaryDirectory() as root:
        folder = Folder(root)
        code, said = folder.finish()
        assert code == 0, said
        whole = folder.left()
    print("| fault, in the middle of a run | tries | failures |\n|---|---|---|")
    others = {"disk full, then room": full_disk}
    others |= {
        f"source {change.__name__}d" if change is not append else "source appended": changed_source(change)
        for change in (truncate, replace, append)
    }
    for name, (fault, codes) in FAULTS.items():
        _line(name, [attempt(fault, codes, whole, seed) for seed in range(tries)])
    for name, run in others.items():
        _line(name, [run(whole, seed) for seed in range(tries)])


def _line(name, results):
    done = [result for result in results if result is not None]
    print(f"| {name} | {len(done)} | {sum(map(bool, done))} |", flush=True)
    for result in done:
        if result:
            print(f"  {name}: {result}", file=sys.stderr)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
