"""Predictions and dead letters as messages of a broker, one per record, with a key that is the same in a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kampong.streaming import sources
from kampong.streaming.errors import ResumeError
from kampong.streaming.outputs.appended import Written
from kampong.streaming.sources.learnt import digest

if TYPE_CHECKING:
    from collections.abc import Sequence


class Messages:
    """A stream of a broker that a run writes to.

    Parameters
    ----------
    path : str
        Its address.
    committed : Written or None
        How far it had come at the last checkpoint, and a digest of its address; None to write after what is there.
    """

    def __init__(self, path: str, committed: Written | None = None) -> None:
        self._witness = digest(path.encode())
        committed = None if committed == Written() else committed
        if committed is not None and committed.digest != self._witness:
            raise ResumeError(
                f"{path}: the run saved in the model file writes elsewhere. Give the address that it began with, or "
                "start a new model with another --model."
            )
        self._sink = sources.kind_of(path).sink(path)
        try:
            self._sink.begin(None if committed is None else committed.length)
        except BaseException:
            self.close()
            raise

    def send(self, keys: Sequence[str], lines: Sequence[bytes]) -> None:
        """Send messages."""
        self._sink.send(list(zip(keys, lines, strict=True)))

    def commit(self) -> Written:
        """Wait until the server has everything; return how far the stream has come."""
        return Written(self._sink.flush(), self._witness)

    def close(self) -> None:
        """Close the connection."""
        self._sink.close()
