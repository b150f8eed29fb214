"""Tries in child processes: a signal, a hang or a flood of memory is a finding, and the next try goes on.

Children are forked from a process that has everything loaded, compiled and fitted, so that a try costs what it does.
"""

import multiprocessing
import os
import resource
import signal
import sys
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 5.0
"""A try that computes for longer hangs."""

PATIENCE = 60.0
"""A try that waits for longer hangs, on a machine that others use too."""

MEGABYTES = 200
"""A try may raise the peak of its process by so much."""


class Finding(Exception):
    """What a try found wrong: a defect of the library."""


@dataclass
class Outcome:
    """The counts of a campaign, and its findings by the seed that repeats them."""

    counts: Counter = field(default_factory=Counter)
    findings: dict = field(default_factory=dict)
    peak: float = 0.0

    @property
    def tries(self):
        return sum(self.counts.values())

    def line(self, name):
        """Return one line of a report."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.counts.items()))
        return f"{name}: {self.tries} tries: {kinds}; peak +{self.peak:.0f} MB"


def campaign(attempt, seeds, *, megabytes=MEGABYTES):
    """Call `attempt(seed)` in children; it returns a word for what happened, or raises Finding."""
    outcome, seeds = Outcome(), list(seeds)
    while seeds:
        seeds = seeds[_one_child(attempt, seeds, megabytes, outcome) :]
    return outcome


def _one_child(attempt, seeds, megabytes, outcome):
    """Run tries in one child until it ends; return how many have been made."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_work, args=(attempt, seeds, megabytes, theirs), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads that are idle
        child.start()
    theirs.close()
    made = 0
    try:
        while made < len(seeds):
            if not ours.poll(PATIENCE):
                _note(outcome, "hang", seeds[made], f"longer than {PATIENCE} s")
                made += 1
                break
            kind, text, peak = ours.recv()
            outcome.peak = max(outcome.peak, peak)
            _note(outcome, kind, seeds[made], text)
            made += 1
            if kind == "memory":
                break
    except EOFError:
        child.join()
        code = child.exitcode or 0
        name = signal.Signals(-code).name if code < 0 else f"exit {code}"
        _note(outcome, "hang" if code == -signal.SIGPROF else "signal", seeds[made], name)
        made += 1
    finally:
        child.kill()
        child.join()
        ours.close()
    return made


def _note(outcome, kind, seed, text):
    outcome.counts[kind] += 1
    if text:
        outcome.findings[seed] = f"{kind}: {text}"


def _work(attempt, seeds, megabytes, answers):
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    before = _peak()
    for seed in seeds:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # its signal ends the process
        try:
            kind, text = attempt(seed), ""
        except Finding as error:
            kind, text = "finding", str(error)
        except BaseException as error:  # a raw error is a finding too
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno}"
            kind, text = "raw error", f"{type(error).__name__}: {error!s:.200} ({place})"
        risen = (_peak() - before) / 2**20
        if risen > megabytes and not text:
            kind, text = "memory", f"{risen:.0f} MB"
        answers.send((kind, text, risen))
        if kind == "memory":
            break
    answers.close()
    os._exit(0)


def _peak():
    """Return the peak of this process in bytes, without that of its parent."""
    if sys.platform == "linux":
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
