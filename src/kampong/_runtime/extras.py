"""Optional packages: what is not installed is named together with the extra that brings it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        raise ModuleNotFoundError(
            f'{who} needs {missing}, which is not installed. Install the {name} extra: pip install "kampong[{name}]"',
            name=missing,
        ) from None
