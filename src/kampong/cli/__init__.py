"""The command `kampong`: parse, call, print. Slow imports are inside the commands, so that --help is quick."""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

from kampong.cli import apply, demo, learn, models, papers, serve, sources
from kampong.cli.common import FORMAT, app

__all__ = ["apply", "demo", "learn", "main", "models", "papers", "serve", "sources"]

USAGE, SOURCE, MODEL, OUTPUT, LEARNT, CLOSED = 2, 3, 4, 5, 6, 141


def main() -> None:
    """Run the command line; every expected error is one line on stderr and an exit code."""
    from kampong._core.extras import MissingExtraError
    from kampong.streaming import formats
    from kampong.streaming.errors import ClosedPipeError

    FORMAT.help = f"{', '.join(formats.names())}, or auto."
    sys.argv[1:] = _completed(sys.argv[1:])
    try:
        app(standalone_mode=True)
    except ClosedPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that Python does not flush to the closed pipe at exit
        raise SystemExit(CLOSED) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except (ValueError, MissingExtraError) as error:
        _fail(error)


def _completed(arguments: list[str]) -> list[str]:
    """Return the arguments with what `--probabilities` alone means."""
    found: list[str] = []
    for place, argument in enumerate(arguments):
        found.append(argument)
        if argument == "--probabilities" and arguments[place + 1 : place + 2] not in (["best"], ["all"]):
            found.append("best")
    return found


def _fail(error: Exception) -> NoReturn:
    from kampong.files import CheckpointError
    from kampong.streaming import errors

    codes: list[tuple[Any, int]] = [
        ((errors.UsageError, errors.ColumnError), USAGE),
        (errors.ResumeError, MODEL),
        (errors.OutputError, OUTPUT),
        (errors.LearntError, LEARNT),
        (CheckpointError, MODEL),
        (errors.StreamError, SOURCE),
    ]
    code = next((code for kind, code in codes if isinstance(error, kind)), USAGE)
    print(f"kampong: {error}", file=sys.stderr)
    raise SystemExit(code) from None
