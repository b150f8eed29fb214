"""What goes wrong with files and models."""

from __future__ import annotations


class CheckpointError(ValueError):
    """A file or model cannot be saved or loaded; the message names it and says what to do.

    Examples
    --------
    >>> import tempfile
    >>> from kampong import CheckpointError, load
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     try:
    ...         load(file.name)
    ...     except CheckpointError as error:
    ...         "this is not a checkpoint of kampong" in str(error)
    True
    """
