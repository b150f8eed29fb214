"""The command `kampong`, also as `python -m kampong`: without the `stream` extra it says what to install."""

from __future__ import annotations

import atexit
import gc

from kampong._core.extras import how_to_install
from kampong._core.lazy import load_when_used

PARTS = ("typer", "rich", "pyarrow", "msgspec", "tornado")


UNUSED = ("scipy.stats", "scipy.special", "pandas", "numpy.f2py", "asyncio")
"""What SciPy and scikit-learn import, which takes longer than to learn a short stream."""

NARWHALS = ("narwhals", "narwhals.stable", "narwhals.stable.v2")
"""What scikit-learn asks whether rows are a table; a package stands before its parts."""


def main() -> None:
    """Run the command line, if its parts are installed."""
    # More than a quarter of a short command was the search for garbage among libraries just loaded, and at the end.
    gc.set_threshold(50_000, 20, 20)
    atexit.register(gc.freeze)
    load_when_used(*UNUSED, *NARWHALS)
    try:
        from kampong.cli import main as run

        run()
    except ModuleNotFoundError as error:
        if str(error.name).split(".")[0] not in PARTS:
            raise
        raise SystemExit(
            f"kampong: the command needs {error.name}, which is not installed. Install the stream extra: "
            f"{how_to_install('stream')}."
        ) from None


if __name__ == "__main__":
    main()
