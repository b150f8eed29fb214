"""Requests that are refused: an error with the status of the answer and what the client should know."""

from __future__ import annotations

from typing import Any


class RefusedError(ValueError):
    """A request that changes nothing; the message says what was received and what is needed.

    Parameters
    ----------
    status : int
        The HTTP status, from 400 on.
    message : str
        What is wrong, and what to do.
    **more : object
        Further facts of the answer, such as the rows that are bad.
    """

    def __init__(self, status: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status, self.more = status, more
