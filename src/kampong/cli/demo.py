"""`kampong demo`: digits as a stream, beside two peers; killed and continued; one digit unlearnt; a report."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from kampong.cli.common import Quiet, app, say

FORGOTTEN = "7"


@app.command(epilog="Examples:\n\n  kampong demo\n\n  kampong demo --folder /tmp/demo --serve")
def demo(
    folder: Annotated[str, typer.Option(help="Where to put data, model and report.")] = "kampong-demo",
    serve: Annotated[bool, typer.Option("--serve", help="Show a live page of the stream.")] = False,
    quiet: Quiet = False,
) -> None:
    """Learn 1,797 handwritten digits as a stream, kill it and go on, compare it, unlearn a digit, write a report."""
    from kampong.streaming.inspection import write_digits

    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    digits, model, out, report = (home / f for f in ("digits.csv", "digits.kampong", "predictions.csv", "report.html"))
    write_digits(digits)
    command = ["learn", str(digits), "--label", "digit", "--model", str(model), "--out", str(out)]

    say(quiet, "A stream of 1,797 handwritten digits; each is predicted before it is learnt.")
    _remove(model, out)
    options = ["--report", str(report), *(["--serve"] if serve else [])]
    say(quiet, f"$ kampong {' '.join([*command, *options])}")
    app([*command, *options, *(["--quiet"] if quiet else [])], standalone_mode=False)
    found = _outcome(model, out)

    peers = {"kampong": found[2], **_peers(digits)}
    said = ", ".join(f"{name} {accuracy:.1%}" for name, accuracy in peers.items())
    say(quiet, f"\nThe same stream, a row at a time, nothing tuned: {said}.")

    _remove(model, out)
    rows = _killed(command, out, len(digits.read_text().splitlines()) // 2)
    say(quiet, f"\nThe same command, ended by kill -9 after {rows:,} rows; and again, to its end:")
    app([*command, "--quiet"], standalone_mode=False)
    same = _outcome(model, out)[:2] == found[:2]
    say(
        quiet, "Model and predictions are identical, bit for bit." if same else "Model or predictions differ: a defect."
    )

    sevens, receipt = home / "sevens.csv", home / "sevens.receipt.json"
    header, *lines = digits.read_text().splitlines()
    sevens.write_text("\n".join([header, *(line for line in lines if line.endswith(f",{FORGOTTEN}"))]) + "\n")
    receipt.unlink(missing_ok=True)
    taken = ["unlearn", str(sevens), "--model", str(model), "--receipt", str(receipt)]
    say(quiet, f"\nEvery {FORGOTTEN} is unlearnt:\n$ kampong {' '.join(taken)}")
    app([*taken, *(["--quiet"] if quiet else [])], standalone_mode=False)
    say(quiet, f"\nOpen {report.resolve().as_uri()} in a browser.")


def _remove(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _outcome(model: Path, out: Path) -> tuple[str, bytes, float]:
    """Return the digest of a model, the predictions of its stream, and their accuracy."""
    from kampong.streaming.model_file import read_model

    learnt, state, _ = read_model(str(model))
    assert state is not None
    return learnt.state_digest(), out.read_bytes(), state.counters.accuracy


def _killed(command: list[str], out: Path, stop_at: int) -> int:
    """Run a command in a process of its own, kill it after some rows, and return how many it had predicted."""
    rows = 0
    process = subprocess.Popen([sys.executable, "-m", "kampong", *command, "--quiet", "--checkpoint-every", "0"])
    while process.poll() is None and rows < stop_at:
        time.sleep(0.005)
        with suppress(OSError):
            rows = max(out.read_bytes().count(b"\n") - 1, 0)
    process.kill()
    process.wait()
    return rows


def _peers(digits: Path) -> dict[str, float]:
    """Return the accuracies of two learners of scikit-learn on the same stream, each row first predicted."""
    import numpy as np
    from sklearn.linear_model import SGDClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import StandardScaler

    table = np.loadtxt(digits, delimiter=",", skiprows=1)
    X, y = table[:, :-1], table[:, -1].astype(int)
    found: dict[str, float] = {}
    learners: tuple[Any, ...] = SGDClassifier(random_state=0), MLPClassifier(random_state=0)
    for model in learners:
        scaler: Any = StandardScaler()
        right = 0
        for i in range(len(X)):
            row, label = X[i : i + 1], y[i : i + 1]
            if i:
                right += int(model.predict(scaler.transform(row))[0] == label[0])
            model.partial_fit(scaler.partial_fit(row).transform(row), label, classes=np.arange(10))
        found[type(model).__name__] = right / (len(X) - 1)
    return found
