"""What the tests of the command line share: `kampong` as a process of its own, and in this process."""

import os
import signal
import subprocess
import sys
from unittest import mock

import pytest


def command(*arguments, cwd=None, expect=0, **more):
    """Run `kampong` as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "kampong", *map(str, arguments)],
        capture_output=True,
        text=more.pop("text", True),
        cwd=cwd,
        timeout=120,
        check=False,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "120", "TERM": "dumb"},
        **more,
    )
    assert done.returncode == expect, done.stderr
    return done


def call(capfd, *arguments, expect=0):
    """Run `kampong` in this process; return what it printed."""
    from kampong.cli import main

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with mock.patch.object(sys, "argv", ["kampong", *map(str, arguments)]), pytest.raises(SystemExit) as ended:
            main()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    printed = capfd.readouterr()
    assert (ended.value.code or 0) == expect, printed.err
    return printed
