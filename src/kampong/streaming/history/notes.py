"""What a stream notes down, in bounded memory: what was chosen since which row, and why records were dead."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from kampong.criteria import CRITERIA
from kampong.files.contents import to_lines
from kampong.heads import HEADS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kampong.files import Contents
    from kampong.streaming.columns.records import Dead

CHOICES = 256
"""The latest changes of a choice that are kept."""

KINDS = 12
"""Kinds of dead letters that are counted apart; the last one holds all others."""

OTHERS = "other reasons"
LONGEST = {"kind": 120, "reason": 240, "record": 160}

# What differs from record to record: quoted values and numbers.
_OWN = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[-+]?\d[\d,.]*(?:e[-+]?\d+)?", re.IGNORECASE)


class Chosen(NamedTuple):
    """What was in use from a row on; None where the model has no such thing, an infinite half-life forgets nothing."""

    row: int
    value: float | None
    head: str
    half_life: float | None


class Choices:
    """What was chosen, and when that changed.

    Attributes
    ----------
    parameter : str
        The name of the criterion's parameter: ridge, epsilon or a; "" before anything was chosen.
    since : dict of str to int
        The row from which on the present value, head and half-life are in use.
    n_changes : int
        Changes noted, also those that are no longer kept.
    """

    def __init__(self) -> None:
        self.parameter = ""
        self.since = {"value": 0, "head": 0, "half_life": 0}
        self.n_changes = 0
        self._log: list[Chosen] = []

    def note(
        self,
        row: int,
        parameter: str,
        value: float | None,
        head: str,
        half_life: float | None = None,
        *,
        exactly: bool = True,
    ) -> None:
        """Say what is in use after this many rows; nothing is noted where that is what was in use before.

        Unless `exactly`, a value that a formula moves with every row is noted when it has moved by a tenth.
        """
        value = float(value) if value is not None and math.isfinite(value) else None
        last = self._log[-1] if self._log else None
        if not exactly and last is not None and value is not None and last.value is not None:
            value = last.value if abs(value - last.value) <= 0.1 * abs(last.value) else value
        now = Chosen(int(row), value, head, None if half_life is None else float(half_life))
        if last is not None and last[1:] == now[1:] and self.parameter == parameter:
            return
        for name in self.since:
            if last is None or getattr(last, name) != getattr(now, name) or self.parameter != parameter:
                self.since[name] = now.row
        self.parameter = parameter
        self._log = [*self._log, now][-CHOICES:]
        self.n_changes += 1

    def log(self) -> list[Chosen]:
        """Return the latest changes, the oldest first."""
        return list(self._log)

    def to_state(self) -> dict[str, Any]:
        """Return everything by name."""
        heads = sorted({one.head for one in self._log})
        numbers = np.zeros((len(self._log), 4))
        for place, one in enumerate(self._log):
            forever = one.half_life is not None and math.isinf(one.half_life)
            numbers[place] = (
                one.value is not None,
                one.value or 0.0,
                0 if one.half_life is None else 1 if forever else 2,
                0.0 if one.half_life is None or forever else one.half_life,
            )
        return {
            "parameter": self.parameter,
            "n_changes": self.n_changes,
            "since": dict(self.since),
            "rows": np.array([one.row for one in self._log], dtype=np.int64),
            "head_names": to_lines(heads),
            "heads": np.array([heads.index(one.head) for one in self._log], dtype=np.int64),
            "numbers": numbers,
        }

    @classmethod
    def from_state(cls, contents: Contents, rows: int) -> Self:
        """Return what `to_state` wrote, if it can be of this many rows."""
        choices, require = cls(), contents.require
        choices.parameter = contents.word("parameter", ("", *sorted({kind.parameter for kind in CRITERIA.values()})))
        choices.n_changes = contents.whole("n_changes", high=max(rows, 0))
        since = contents.part("since")
        choices.since = {name: since.whole(name, high=rows) for name in choices.since}
        since.finish()
        when = contents.array("rows", np.int64, (None,), low=0, high=rows)
        names = contents.words("head_names")
        heads = contents.array("heads", np.int64, (None,), low=0, high=max(len(names) - 1, 0))
        numbers = contents.array("numbers", np.float64, (None, 4))
        contents.finish()
        require(len(when) == len(heads) == len(numbers), "rows, heads and numbers differ in length")
        require(set(names) <= set(HEADS), "head_names holds no such head")
        require(len(when) == min(CHOICES, choices.n_changes), "n_changes is not how many rows there are")
        require(bool((np.diff(when) > 0).all()), "rows are not in order")
        require(set(names) == {names[code] for code in heads.tolist()} if names else not len(when), "head_names differ")
        require(list(names) == sorted(set(names)), "head_names are not in order")
        known, value, kind, half_life = numbers.T
        fits = [np.isin(known, (0, 1)).all(), np.isin(kind, (0, 1, 2)).all(), (half_life >= 0).all()]
        fits += [not value[known == 0].any(), not half_life[kind != 2].any()]
        require(all(fits), "numbers holds what cannot be chosen")
        lives = {0: None, 1: math.inf}
        choices._log = [
            Chosen(row, v if k else None, names[head], lives.get(int(forever), life))
            for row, head, (k, v, forever, life) in zip(when.tolist(), heads.tolist(), numbers.tolist(), strict=True)
        ]
        last = int(when[-1]) if len(when) else 0
        require(all(row <= last for row in choices.since.values()), "since is later than rows")
        require(not len(when) or max(choices.since.values()) == last, "since does not end with rows")
        return choices


class DeadKind(NamedTuple):
    """Dead letters of one kind: how many, and the first of them."""

    kind: str
    rows: int
    line: int
    offset: int
    reason: str
    record: str


class DeadKinds:
    """Dead letters, counted by what is wrong with them."""

    def __init__(self) -> None:
        self._kinds: dict[str, DeadKind] = {}

    def add(self, letters: Iterable[Dead]) -> None:
        """Count letters."""
        for letter in letters:
            kind = kind_of(letter.reason)
            if kind not in self._kinds and len(self._kinds) >= KINDS - 1:
                kind = OTHERS
            known = self._kinds.get(kind)
            if known is not None:
                self._kinds[kind] = known._replace(rows=known.rows + 1)
            else:
                texts = _cut(letter.reason, "reason"), _cut(letter.text, "record")
                self._kinds[kind] = DeadKind(kind, 1, int(letter.line), int(letter.offset), *texts)

    @property
    def count(self) -> int:
        """All dead letters."""
        return sum(one.rows for one in self._kinds.values())

    def kinds(self) -> list[DeadKind]:
        """Return the kinds, the most frequent first."""
        return sorted(self._kinds.values(), key=lambda one: -one.rows)

    def to_state(self) -> dict[str, Any]:
        """Return everything by name."""
        kinds = list(self._kinds.values())
        return {
            "counts": np.array([(one.rows, one.line, one.offset) for one in kinds], dtype=np.int64).reshape(-1, 3),
            **{f"{name}s": to_lines([getattr(one, name) for one in kinds]) for name in LONGEST},
        }

    @classmethod
    def from_state(cls, contents: Contents) -> Self:
        """Return what `to_state` wrote."""
        dead, require = cls(), contents.require
        counts = contents.array("counts", np.int64, (None, 3), low=0)
        texts = [contents.words(f"{name}s") for name in LONGEST]
        contents.finish()
        require(len(counts) <= KINDS and bool((counts[:, 0] > 0).all()), "counts holds too many kinds, or none of one")
        for (name, longest), words in zip(LONGEST.items(), texts, strict=True):
            require(len(words) == len(counts), f"{name}s are {len(words)}, counts {len(counts)}")
            require(all(len(word) <= longest for word in words), f"{name}s holds a text that is too long")
        require(len(set(texts[0])) == len(texts[0]), "kinds holds a kind twice")
        for (rows, line, offset), kind, reason, record in zip(counts.tolist(), *texts, strict=True):
            dead._kinds[kind] = DeadKind(kind, rows, line, offset, reason, record)
        return dead


def kind_of(reason: str) -> str:
    """Return a reason without what is the record's own."""
    return _cut(_OWN.sub("…", reason), "kind")


def _cut(text: str, what: str) -> str:
    text = text.encode("utf-8", "replace").decode()  # half a surrogate pair cannot be written
    return text if len(text) <= LONGEST[what] else text[: LONGEST[what] - 1] + "…"
