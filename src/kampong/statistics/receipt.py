"""Receipt: what was taken out of a model, with digests of its state before and after."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Self

from kampong._core.version import __version__

HEX = set("0123456789abcdef")


@dataclass(frozen=True)
class Receipt:
    """What `unlearn` took out of a model.

    A digest is the SHA-256 of all that the model remembers of its rows (`model.state_digest()`). A model that was saved
    and loaded has the same digest, so a receipt can be compared with a file at any later time.

    Attributes
    ----------
    model : str
        The class of the model.
    rows : int
        How many rows of positive weight were taken out.
    weight : float
        Their weight.
    classes_gone : tuple of label
        The classes of which nothing is left.
    before : str
        The digest of the state before.
    after : str
        The digest of the state after.
    exact : bool
        Whether the statistics are those of a model that never saw the rows, to rounding.
    remarks : tuple of str
        What stays of the rows, or cannot be undone; empty where nothing does.
    version : str
        The version of kampong that took them out.
    """

    model: str
    rows: int
    weight: float
    classes_gone: tuple[Any, ...]
    before: str
    after: str
    exact: bool
    remarks: tuple[str, ...] = ()
    version: str = __version__

    def to_json(self) -> str:
        """Return the receipt as JSON, one fact a line."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the receipt that `to_json` wrote."""
        try:
            values = json.loads(text)
            receipt = cls(
                **{**values, "classes_gone": tuple(values["classes_gone"]), "remarks": tuple(values["remarks"])}
            )
            whole = [type(receipt.rows) is int, type(receipt.exact) is bool, isinstance(receipt.model, str)]
            digests = (receipt.before, receipt.after)
            good = all(whole) and all(len(digest) == 64 and set(digest) <= HEX for digest in digests)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ValueError(
                f"this is not a receipt of kampong ({str(error)[:100]}). Give the file that unlearn wrote."
            ) from None
        if not good:
            raise ValueError(
                "this is not a receipt of kampong: a value is of the wrong kind. Give the file that unlearn wrote."
            )
        return receipt
