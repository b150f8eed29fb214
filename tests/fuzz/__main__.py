"""All attackers in turn, until the time is over: `python -m fuzz 3600`; the exit code is 1 if any found something.

`python -m fuzz --only "model files" --tries 20000` makes 20,000 tries with one attacker; `--first` is the first seed.
"""

import argparse
import sys
import time

from fuzz import arrays, labels, model_files, sources, sparse_rows, subjects
from fuzz.children import campaign

ROUND = 2000
ATTACKERS = {
    "sparse rows": sparse_rows.attempt,
    "odd arrays": arrays.attempt,
    "odd labels": labels.attempt,
    "model files": model_files.attempt,
    **{kind: sources.attempt_on(kind) for kind in sources.FORMATS},
}


def main(arguments):
    """Run rounds of tries with new seeds; print the counts of each attacker and every finding."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=3600.0)
    parser.add_argument("--only", choices=ATTACKERS, action="append", help="this attacker; may be repeated")
    parser.add_argument("--tries", type=int, help="this many tries of each, whatever the time")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args(arguments)
    chosen = {name: ATTACKERS[name] for name in options.only or ATTACKERS}
    if {"sparse rows", "odd arrays", "odd labels"} & set(chosen):
        subjects.warm()
    if "model files" in chosen:
        model_files.prepare()
    if set(sources.FORMATS) & set(chosen):
        sources.prepare()
    size = options.tries or ROUND
    end, seed, found = time.monotonic() + options.seconds, options.first, 0
    while True:
        for name, attempt in chosen.items():
            outcome = campaign(attempt, range(seed, seed + size))
            print(outcome.line(name), flush=True)
            for where, text in outcome.findings.items():
                print(f"  {name}, seed {where}: {text}", flush=True)
            found += len(outcome.findings)
        seed += size
        if options.tries or time.monotonic() >= end:
            return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
