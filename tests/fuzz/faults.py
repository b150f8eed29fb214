"""What happens to a run: signals, full disks, changed sources, second runs; `python -m fuzz.faults` prints the table.

Each try starts `kampong learn` in a process of its own, lets the fault happen in the middle of the run, starts the same
command again, and compares model and output with those of a run that nobody disturbed. A failure is any difference, a
lost file, an exit code that is not documented, or a traceback. Runs are forked from a process that has everything
loaded, so that a try takes what the run takes.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kampong.files import load
from stream_problems import without_clock, write_points

ROWS = 8_000
LATEST = 0.6
DOCUMENTED = {0, 2, 3, 4, 5, 6, 130, 141, 143}
LEARNT = 6
PATIENCE = 120.0


class TooLateError(Exception):
    """The run had ended before the fault came: no try."""


class Child:
    """A run of the command line in a forked process; stderr goes to a file."""

    def __init__(self, root, arguments, prepare=None):
        self.said = Path(tempfile.mkstemp(dir=tempfile.gettempdir())[1])
        self.returncode = None
        self.pid = os.fork()
        if self.pid == 0:
            self._run(root, arguments, prepare)

    def _run(self, root, arguments, prepare):
        code = 1
        try:
            os.chdir(root)
            quiet, said = os.open(os.devnull, os.O_RDWR), os.open(self.said, os.O_WRONLY)
            for descriptor, other in ((0, quiet), (1, quiet), (2, said)):
                os.dup2(other, descriptor)
            sys.argv = ["kampong", *arguments]
            if prepare is not None:
                prepare()
            from kampong.cli import main

            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            import traceback

            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(code)

    def poll(self):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self):
        """Return the exit code and what was said; a run that does not end is killed."""
        end = time.monotonic() + PATIENCE
        while self.poll() is None:
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.002)
        said = self.said.read_text(errors="replace")
        self.said.unlink()
        return self.returncode, said

    def send(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)


class Folder:
    """A folder with a source, where runs leave a model and an output."""

    def __init__(self, root):
        self.root = Path(root)

    @classmethod
    def with_source(cls, root):
        write_points(Path(root) / "a.csv", ROWS, bad=0.01)
        return cls(root)

    def start(self, *, every="0", prepare=None):
        options = ["--label", "kind", "--model", "m", "--out", "o.csv", "--checkpoint-every", every, "--quiet"]
        child = Child(self.root, ["learn", "a.csv", *options], prepare)
        child.saves = every == "0"
        return child

    def finish(self):
        """Start the run again; one that had come to its end before has nothing left to do."""
        code, said = self.start().wait()
        return 0 if code == LEARNT else code, said

    def wait_for_rows(self, child):
        """Wait until the run has learnt something and, where it saves at once, has saved it."""
        while child.poll() is None and not (self.root / "o.csv").exists():
            time.sleep(0.002)
        while child.poll() is None and child.saves and not (self.root / "m").exists():
            time.sleep(0.002)

    def left(self):
        facts, *rest = without_clock(self.root / "m")
        facts["stream"].pop("source", None)
        return facts, rest, (self.root / "o.csv").read_bytes(), (self.root / "m.dead.jsonl").read_bytes()


def disturbed(folder, rng, fault, **keywords):
    """Start a run, let the fault happen, end the run; return its exit code and what it said."""
    child = folder.start(**keywords)
    folder.wait_for_rows(child)
    time.sleep(rng.uniform(0.0, LATEST))
    if child.poll() is not None:
        raise TooLateError
    fault(folder, child)
    return child.wait()


def bad_end(code, said, allowed=DOCUMENTED):
    return f"exit {code}: {said[-200:]}" if code not in allowed or "Traceback" in said else ""


def same_after(folder, whole):
    """Start the run again, and compare what it leaves."""
    code, said = folder.finish()
    if code:
        return f"the run after it ended with {code}: {said[-200:]}"
    return "" if folder.left() == whole else "another model or output"


# Faults to the process.


def sends(*numbers):
    def fault(folder, child):
        for number in numbers:
            child.send(number)
            time.sleep(0.01)

    return fault


def second_run(folder, child):
    code, said = folder.start().wait()
    assert code in (0, 4, LEARNT), (code, said)
    assert code != 4 or f"process {child.pid}" in said, said


@contextlib.contextmanager
def held_still(child):
    child.send(signal.SIGSTOP)
    try:
        yield
    finally:
        child.send(signal.SIGCONT)


def rename_fails(folder, child):
    with held_still(child):
        (folder.root / "m").rename(folder.root / "kept")
        (folder.root / "m").mkdir()
    while child.poll() is None:
        time.sleep(0.002)
    (folder.root / "m").rmdir()
    (folder.root / "kept").rename(folder.root / "m")


def clock_goes_back():
    """Let the clock of the day lose an hour at every look."""
    now = [2e9]

    def earlier():
        now[0] -= 3600.0
        return now[0]

    time.time = earlier


def old_files(folder, child):
    """Set the times of all files back to 1970."""
    for path in folder.root.iterdir():
        with contextlib.suppress(FileNotFoundError):
            os.utime(path, (0, 0))
    child.send(signal.SIGTERM)


FAULTS = {
    "kill -9": (sends(signal.SIGKILL), {-9, 0}, {}),
    "SIGTERM": (sends(signal.SIGTERM), {143, 0}, {}),
    "SIGINT twice": (sends(signal.SIGINT, signal.SIGINT), {130, 0}, {}),
    "SIGHUP": (sends(signal.SIGHUP), {-1, 129, 0}, {}),
    "SIGPIPE": (sends(signal.SIGPIPE), {0}, {}),
    "a second run on the same model": (second_run, {0}, {}),
    "a rename that fails": (rename_fails, {0, 4, 5}, {}),
    "clock set back, file times of 1970": (old_files, {143, 0}, {"prepare": clock_goes_back}),
    "a save once an hour, then kill -9": (sends(signal.SIGKILL), {-9, 0}, {"every": "3600"}),
    "a save after every batch, undisturbed": (lambda folder, child: None, {0}, {}),
}


def process_fault(name):
    fault, codes, keywords = FAULTS[name]

    def run(whole, seed):
        with tempfile.TemporaryDirectory() as root:
            folder = Folder.with_source(root)
            code, said = disturbed(folder, random.Random(seed), fault, **keywords)
            return bad_end(code, said, codes) or same_after(folder, whole)

    return run


# Faults to the disk.


def on_a_disk(fault, before):
    """Return a fault to a file system of its own; None where nothing may be mounted."""

    def run(whole, seed):
        with tempfile.TemporaryDirectory() as root:
            small = Path(root) / "small"
            small.mkdir()
            mount = ["mount", "-t", "tmpfs", "-o", f"size={before}", "none", str(small)]
            if subprocess.run(mount, capture_output=True).returncode:
                return None
            try:
                Folder.with_source(root)
                (small / "a.csv").symlink_to(Path(root) / "a.csv")
                return fault(Folder(small), whole, seed)
            finally:
                subprocess.run(["umount", "-l", str(small)], check=False)

    return run


def remount(folder, options):
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder.root)], check=True)


def full_disk(folder, whole, seed):
    """Run where there is no room for model and output; then make room."""
    code, said = folder.start().wait()
    found = bad_end(code, said, {4, 5})
    remount(folder, "size=64m")
    return found or same_after(folder, whole)


def read_only(folder, whole, seed):
    """Let the folder become read-only in the middle of a run; a shared file system does so on an error."""

    def fault(folder, child):
        with held_still(child):
            if subprocess.run(["mount", "-o", "remount,ro", str(folder.root)], capture_output=True).returncode:
                subprocess.run(["mount", "-o", "remount,size=800k", str(folder.root)], check=True)  # a file is open

    code, said = disturbed(folder, random.Random(seed), fault)
    found = bad_end(code, said, {0, 4, 5})
    remount(folder, "rw,size=64m")
    return found or same_after(folder, whole)


# Faults to the source.


def changed(change, when):
    """Return a fault: the source changes during a run, or before it is started again.

    The run may end with the rows that it has read, or say what is wrong. It must not leave anything that cannot be
    read, and with the first source back in its place it ends as if nothing had happened, or says that it cannot.
    """

    def run(whole, seed):
        with tempfile.TemporaryDirectory() as root:
            folder = Folder.with_source(root)
            original = (folder.root / "a.csv").read_bytes()

            def fault(folder, child):
                with held_still(child):
                    change(folder.root / "a.csv")

            code, said = disturbed(folder, random.Random(seed), fault if when == "during" else sends(signal.SIGTERM))
            found = bad_end(code, said)
            if when == "between" and not found:
                change(folder.root / "a.csv")
                found = bad_end(*folder.finish())
            if found:
                return found
            load(folder.root / "m")
            replace_with(folder.root / "a.csv", original)
            code, said = folder.finish()
            if code in (3, 4) and "Traceback" not in said:
                return ""  # it says that the source is not the one that was learnt
            return bad_end(code, said, {0}) or ("" if _agrees(folder, whole) else "another model or output")

    return run


def _agrees(folder, whole):
    """Tell whether what is left is the whole run, or one that had ended with other rows and perhaps gone on."""
    found = folder.left()
    if found == whole:
        return True
    rows = [int(line.split(b",")[0]) for line in found[2].splitlines()[1:]]
    counters = {name: found[0]["stream"][f"counters.{name}"] for name in ("records", "rows", "dead")}
    other = counters["records"] != whole[0]["stream"]["counters.records"] or found[0]["stream"]["learnt.count"] > 1
    return (
        found[0]["stream"]["finished"]
        and other
        and counters["records"] == counters["rows"] + counters["dead"]
        and len(rows) == counters["rows"]
        and rows == sorted(rows)
    )


def replace_with(path, data):
    beside = path.with_name("b.csv")
    beside.write_bytes(data)
    beside.rename(path)


def truncate(path):
    os.truncate(path, path.stat().st_size // 50)


def replace(path):
    write_points(path.with_name("other.csv"), ROWS, bad=0.2, seed=1)
    path.with_name("other.csv").rename(path)


def append(path):
    data = path.read_bytes()
    with path.open("ab") as file:
        file.write(data[data.index(b"\n") + 1 :][:4000].rpartition(b"\n")[0] + b"\n")


ALL = {name: process_fault(name) for name in FAULTS}
ALL |= {
    "disk full, then room": on_a_disk(full_disk, "1200k"),
    "folder read-only or full in the middle, then not": on_a_disk(read_only, "64m"),
}
for _when in ("during", "between"):
    for _name, _change in (("truncated", truncate), ("replaced", replace), ("appended to", append)):
        ALL[f"source {_name} {'during the run' if _when == 'during' else 'between two runs'}"] = changed(_change, _when)


def undisturbed():
    """Return what a run leaves that nobody disturbs; everything is loaded and compiled afterwards."""
    with tempfile.TemporaryDirectory() as root:
        folder = Folder.with_source(root)
        import kampong
        from kampong.streaming import learn

        learn(str(folder.root / "a.csv"), kampong.FisherDiscriminant(half_life="auto"), label="kind")
        code, said = folder.finish()
        assert code == 0, said
        return folder.left()


def tried(run, whole, seed):
    """Return why a try failed, "" where it did not, None where it was none."""
    try:
        return run(whole, seed)
    except TooLateError:
        return None


def main(tries=5, first=0):
    """Print the table."""
    whole = undisturbed()
    print("| fault, in the middle of a run | tries | failures |\n|---|---|---|")
    for name, run in ALL.items():
        done = [result for seed in range(first, first + tries) if (result := tried(run, whole, seed)) is not None]
        print(f"| {name} | {len(done)} | {sum(map(bool, done))} |", flush=True)
        for result in filter(None, done):
            print(f"  {name}: {result}", file=sys.stderr)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
