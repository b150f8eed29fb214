"""`kampong demo`: digits as a stream; killed and continued; compared with two peers; one digit unlearnt; a report."""

from __future__ import annotations

import json
import os
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
    browser: Annotated[
        bool | None,
        typer.Option("--open/--no-open", help="Open the report in a browser.", show_default="if there is a display"),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Learn 1,797 handwritten digits as a stream, kill it and go on, compare it, unlearn a digit, write a report."""
    from kampong.streaming.inspection import write_digits

    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    digits, model, out, report = (home / f for f in ("digits.csv", "digits.kampong", "predictions.csv", "report.html"))
    write_digits(digits)
    command = ["learn", str(digits), "--label", "digit", "--model", str(model), "--out", str(out)]
    with _peers(digits) as others:  # they take as long as everything else, so they run at the same time
        try:
            say(quiet, "1. Learn a stream of 1,797 handwritten digits. Each is predicted before it is learnt.\n")
            _remove(model, out)
            options = ["--report", str(report), *(["--serve"] if serve else [])]
            say(quiet, f"$ kampong {' '.join([*command, *options])}")
            app([*command, *options, *(["--quiet"] if quiet else [])], standalone_mode=False)
            found = _outcome(model, out)
            _draw_digits(model, digits, report)

            _remove(model, out)
            say(quiet, "\n2. Learn it again, end it by kill -9 half-way, and start the same command once more.\n")
            rows = _killed(command, out, len(digits.read_text().splitlines()) // 2)
            app([*command, "--quiet"], standalone_mode=False)
            same = _outcome(model, out)[:2] == found[:2]
            said = "identical, bit for bit" if same else "NOT the same: a defect, please report it"
            say(quiet, f"   Killed after {rows:,} rows. Model and predictions are {said}.")

            say(quiet, "\n3. Compare: the same stream for two learners of scikit-learn, all at their defaults.\n")
            accuracies = {"kampong": found[2], **json.loads(others.communicate()[0])}
        finally:
            others.kill()
    for name, accuracy in sorted(accuracies.items(), key=lambda one: -one[1]):
        say(
            quiet, f"   {name:<14}{accuracy:6.1%} correct  {'█' * round(200 * (1 - accuracy))} {1 - accuracy:.1%} wrong"
        )

    sevens, receipt = home / "sevens.csv", home / "sevens.receipt.json"
    header, *lines = digits.read_text().splitlines()
    sevens.write_text("\n".join([header, *(line for line in lines if line.endswith(f",{FORGOTTEN}"))]) + "\n")
    receipt.unlink(missing_ok=True)
    taken = ["unlearn", str(sevens), "--model", str(model), "--receipt", str(receipt)]
    say(quiet, f"\n4. Unlearn every {FORGOTTEN}, as if it had never come.\n\n$ kampong {' '.join(taken)}")
    app([*taken, *(["--quiet"] if quiet else [])], standalone_mode=False)
    states = json.loads(receipt.read_text())
    say(quiet, f"   State before {states['before'][:16]}…, after {states['after'][:16]}…")

    address = report.resolve().as_uri()
    say(quiet, f"\n5. The report, with a map on which each digit is drawn where the model puts it:\n   {address}")
    if browser if browser is not None else sys.stderr.isatty() and _display():
        import webbrowser

        webbrowser.open(address)


def _display() -> bool:
    """Tell whether there is a screen that a browser can open on."""
    on_screen = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return on_screen and not os.environ.get("SSH_CONNECTION")


def _remove(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _outcome(model: Path, out: Path) -> tuple[str, bytes, float]:
    """Return the digest of a model, the predictions of its stream, and their accuracy."""
    from kampong.streaming.model_file import read_model

    learnt, state, _ = read_model(str(model))
    assert state is not None
    return learnt.state_digest(), out.read_bytes(), state.counters.accuracy


def _draw_digits(model: Path, digits: Path, report: Path) -> None:
    """Write the report of a model again, with the digits at the points of its map."""
    import numpy as np

    from kampong.report.page import write_report
    from kampong.streaming.model_file import read_model

    learnt, state, _ = read_model(str(model))
    assert state is not None
    assert state.course is not None
    pictures = np.loadtxt(digits, delimiter=",", skiprows=1)[:, :-1].reshape(-1, 8, 8) / 16.0
    where: dict[str, Any] = {"source": digits, "model file": model, "state": "finished"}
    more: dict[str, Any] = {"predictor": state.course.predictor, "memory": state.memory, "pictures": pictures}
    write_report(report, learnt, state.course.history, title="Handwritten digits", provenance=where, **more)


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


def _peers(digits: Path) -> subprocess.Popen[bytes]:
    """Begin to let the peers learn the stream, in a process of their own."""
    command = f"from kampong.cli.demo import peers; peers({str(digits)!r})"
    return subprocess.Popen([sys.executable, "-c", command], stdout=subprocess.PIPE)


def peers(digits: str) -> None:
    """Print the accuracies of two learners of scikit-learn as JSON; each row is first predicted and then learnt.

    Their columns are scaled by the mean and variance of the rows so far.

    Parameters
    ----------
    digits : str
        The CSV file of the stream, whose last column is the label.
    """
    import numpy as np
    from sklearn.linear_model import SGDClassifier
    from sklearn.neural_network import MLPClassifier

    table = np.loadtxt(digits, delimiter=",", skiprows=1)
    X, y = table[:, :-1], table[:, -1].astype(int)
    n = np.arange(1, len(X) + 1)[:, None]
    mean = np.cumsum(X, axis=0) / n
    variance = np.cumsum(X**2, axis=0) / n - mean**2  # whole numbers up to 16: nothing is lost
    scale = np.where(variance > 1e-12, np.sqrt(np.maximum(variance, 0.0)), 1.0)
    accuracies = {}
    for learner in (SGDClassifier, MLPClassifier):
        model = learner(random_state=0).partial_fit((X[:1] - mean[:1]) / scale[:1], y[:1], classes=np.arange(10))
        right = 0
        for i in range(1, len(X)):
            known, now = ((X[i : i + 1] - mean[j]) / scale[j] for j in (i - 1, i))
            right += int(model.predict(known)[0] == y[i])
            model.partial_fit(now, y[i : i + 1])
        accuracies[learner.__name__] = right / (len(X) - 1)
    print(json.dumps(accuracies))
