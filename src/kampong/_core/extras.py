"""Optional packages: the error for a missing one names the extra that installs it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class MissingExtraError(ModuleNotFoundError):
    """A package is not installed; the message names the extra that brings it."""


def how_to_install(name: str) -> str:
    """Return the command that installs an extra; kampong is installed from its source folder, or from a wheel."""
    return f'pip install ".[{name}]" in the source folder of kampong, or pip install "WHEEL[{name}]" with its wheel'


@contextmanager
def extra(name: str, who: str) -> Iterator[None]:
    """Say which extra to install where an import inside this block finds no package; the outermost block speaks.

    Parameters
    ----------
    name : str
        The extra.
    who : str
        Who needs it.

    Yields
    ------
    None
        Nothing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing == "kampong":
            raise
        raise MissingExtraError(
            f"{who} needs {missing}, which is not installed. Install the {name} extra: {how_to_install(name)}.",
            name=missing,
        ) from None
