"""All attackers in turn, until the time is over: `python -m fuzz 3600`; the exit code is 1 if any found something."""

import sys
import time

from fuzz import arrays, model_files, sources, sparse_rows, subjects
from fuzz.children import campaign

ROUND = 2000


def main(seconds):
    """Run rounds of tries with new seeds; print the counts of each attacker and every finding."""
    subjects.warm()
    model_files.prepare()
    sources.prepare()
    attackers = {"sparse rows": sparse_rows.attempt, "odd arrays": arrays.attempt, "model files": model_files.attempt}
    attackers |= {kind: sources.attempt_on(kind) for kind in sources.FORMATS}
    end, seed, found = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        for name, attempt in attackers.items():
            outcome = campaign(attempt, range(seed, seed + ROUND))
            print(outcome.line(name), flush=True)
            for where, text in outcome.findings.items():
                print(f"  {name}, seed {where}: {text}", flush=True)
            found += len(outcome.findings)
        seed += ROUND
    return found


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 3600.0) > 0)
