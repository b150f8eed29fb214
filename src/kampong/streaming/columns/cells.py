"""Cells as people type them: money, percents, thousands, decimal commas and dates, read as numbers."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kampong._core.compute import Float

PLAIN = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*|\s*[+-]?(nan|inf|infinity)\s*", re.IGNORECASE)
MISSING = frozenset(
    (
        "",
        "NA",
        "N/A",
        "#N/A",
        "NaN",
        "nan",
        "-nan",
        "-NaN",
        "NULL",
        "null",
        "n/a",
        "<NA>",
        "None",
        "none",
        "?",
        "-",
        "--",
    )
)
MOST = 40
"""Characters of the longest cell that is read as money or as a date."""

_SPACES = "'\u2019 \u00a0\u2009\u202f"
_GROUPS = {".": f",{_SPACES}", ",": f".{_SPACES}"}
"""What may stand between groups of three digits."""

_STYLES = {
    mark: re.compile(rf"(\d{{1,3}}(?:[{groups}]\d{{3}})+|\d+)([{mark}]\d*)?|[{mark}]\d+")
    for mark, groups in _GROUPS.items()
}
_CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|SGD|AUD|CAD"
_CODE = re.compile(rf"(?:{_CODES})\s*(?=[\d.,(])|(?<=[\d.,)])\s*(?:{_CODES})$")

_NAMES = "janfebmaraprmayjunjulaugsepoctnovdec"
_MONTHS = {_NAMES[3 * place : 3 * place + 3]: place + 1 for place in range(12)}
_TIME = (
    r"(?:(?:T|,?\s+)(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d+)?)?"
    r"\s*(?P<half>[aApP]\.?[mM]\.?)?\s*(?:Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?)?\s*"
)
_LETTERS = r"(?P<name>[A-Za-z]{3})[a-z]*\.?"
_YEAR = r"(?P<year>\d{4}|\d{2})"
_ORDERS = {
    "ymd": r"\s*(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})",
    "dmy": rf"\s*(?P<day>\d{{1,2}})(?P<mark>[-/.])(?P<month>\d{{1,2}})(?P=mark){_YEAR}",
    "mdy": rf"\s*(?P<month>\d{{1,2}})(?P<mark>[-/.])(?P<day>\d{{1,2}})(?P=mark){_YEAR}",
    "named": rf"\s*(?:(?P<day>\d{{1,2}})[-\s]{_LETTERS}[-\s,]\s*|{_LETTERS.replace('name', 'first')}\s+"
    rf"(?P<later>\d{{1,2}}),?\s+){_YEAR}",
}
_DATES = {order: re.compile(pattern + _TIME) for order, pattern in _ORDERS.items()}
ORDERS = tuple(_DATES)
"""How dates are written: 2026-11-18, 18.11.2026, 11/18/2026, 18 Nov 2026."""

_CYCLES: dict[str, tuple[float, Callable[[Float], Float]]] = {
    "hour": (24.0, lambda days: days % 1.0 * 24.0),
    "weekday": (7.0, lambda days: np.floor(days + 3.0) % 7.0),
    "month": (12.0, lambda days: _months(days)),
}
PARTS = ("days", *_CYCLES)
"""What a date becomes: days since 1970, and the place in a day, a week and a year, as a sine and a cosine."""


def is_missing(value: Any) -> bool:
    """Tell whether a value stands for nothing."""
    if isinstance(value, str):
        return value.strip() in MISSING
    return value is None or value != value  # NaN is not itself


def is_plain(value: Any) -> bool:
    """Tell whether a value is a number, or text that is one as computers write it."""
    return not isinstance(value, str) or PLAIN.fullmatch(value) is not None


def number(text: str, decimal: str = ".") -> float | None:
    """Return the number that a cell holds: 1,226.10, 9.6%, $4, (12), 4 EUR; None where it holds none.

    Parameters
    ----------
    text : str
        The cell.
    decimal : {".", ","}
        What comes before the digits of a fraction.

    Returns
    -------
    float or None
        The number; a percentage is a share, so that 50% is 0.5, and parentheses are a minus.

    Examples
    --------
    >>> number("$1,226.10"), number("(12)"), number("1.226,10", ","), number("Tuesday")
    (1226.1, -12.0, 1226.1, None)
    """
    cell = text.strip()
    if len(cell) > MOST:
        return None
    if decimal == "." and PLAIN.fullmatch(cell):
        return float(cell)
    sign = 1.0
    if cell.startswith("(") and cell.endswith(")"):
        sign, cell = -1.0, cell[1:-1].strip()
    sign, cell = _unsigned(sign, cell)
    cell = _without_currency(cell)
    sign, cell = _unsigned(sign, cell)
    share = cell.endswith("%")
    cell = _without_currency(cell[:-1].rstrip() if share else cell)
    if not _STYLES[decimal].fullmatch(cell):
        return float(text) if PLAIN.fullmatch(text) else None
    digits = cell.translate(dict.fromkeys(map(ord, _GROUPS[decimal]))).replace(decimal, ".")
    return sign * float(digits) / (100.0 if share else 1.0)


def _unsigned(sign: float, cell: str) -> tuple[float, str]:
    """Return the sign and the cell without it; a minus may be the character that word processors put in."""
    if cell[:1] in ("-", "−", "+"):
        return (sign if cell[0] == "+" else -sign), cell[1:].lstrip()
    return sign, cell


def is_word(value: Any, decimal: str = ".") -> bool:
    """Tell whether a value is text that is neither missing nor a number."""
    return isinstance(value, str) and not is_missing(value) and number(value, decimal) is None


def _without_currency(cell: str) -> str:
    """Return a cell without the currency at one of its ends."""
    if cell and unicodedata.category(cell[0]) == "Sc":
        return cell[1:].lstrip()
    if cell and unicodedata.category(cell[-1]) == "Sc":
        return cell[:-1].rstrip()
    return _CODE.sub("", cell, count=1).strip()


class FirstCells:
    """The first cells of a column; a text that many of them hold is read once.

    Parameters
    ----------
    values : sequence
        What the first records hold; None where a record has nothing.

    Attributes
    ----------
    values : sequence
        The values.
    there : list
        Those that are not missing, in their order.
    texts : dict of str to int
        The different texts among the values that are not missing, and how often each occurs.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values
        counts = Counter([value for value in values if isinstance(value, str)])
        self.texts = {text: times for text, times in counts.items() if text.strip() not in MISSING}
        self.there = [
            value for value in values if (value in self.texts if isinstance(value, str) else not is_missing(value))
        ]

    @cached_property
    def plain(self) -> frozenset[str]:
        """The texts that are numbers as computers write them."""
        return frozenset(filter(PLAIN.fullmatch, self.texts))

    def numbers(self, typed: bool) -> int:
        """Return how many values are numbers as computers write them; a text is none where values have types."""
        good = 0 if typed else sum(self.texts[text] for text in self.plain)
        return len(self.there) - sum(self.texts.values()) + good

    @cached_property
    def others(self) -> list[str]:
        """The texts that are no plain number of an ordinary length: what people type, and words."""
        return [text for text in self.texts if text not in self.plain or len(text.strip()) > MOST]

    def words(self, decimal: str) -> dict[str, int]:
        """Return the texts that are no numbers, and how often each occurs."""
        return {text: self.texts[text] for text in self.others if number(text, decimal) is None}


def decimal_mark(columns: Iterable[FirstCells]) -> str:
    """Return what most cells that can be read in one way only have before a fraction: a point, or a comma."""
    votes = sum(sum(column.words(".").values()) - sum(column.words(",").values()) for column in columns)
    return "," if votes > 0 else "."


def read_numbers(column: Any, name: str, decimal: str, wrong: dict[int, str]) -> Float:
    """Return a column of text as numbers, NaN for what is missing; a cell that is no number is noted as wrong."""
    values = np.full(len(column), np.nan)
    for i, cell in enumerate(column.to_pylist()):
        if is_missing(cell):
            continue
        found = number(cell, decimal)
        if found is None:
            wrong.setdefault(i, f"column {name!r} holds {cell[:60]!r}, which is not a number")
        else:
            values[i] = found
    return values


# Dates.


def day_of(text: str, order: str) -> float | None:
    """Return the days from 1970 to a date and its time, as clocks showed it; None where a cell holds none.

    Parameters
    ----------
    text : str
        The cell.
    order : str
        One of `ORDERS`.

    Returns
    -------
    float or None
        Days with fractions; an offset from UTC is left aside, so that hours are those that people lived by.

    Examples
    --------
    >>> day_of("2026-11-18 12:00", "ymd"), day_of("18 Nov 2026", "named"), day_of("red", "dmy")
    (20775.5, 20775.0, None)
    """
    found = _DATES[order].fullmatch(text) if len(text) <= MOST else None
    if found is None:
        return None
    parts = found.groupdict()
    named = parts.get("name") or parts.get("first")
    year, day = int(parts["year"]), int(parts["day"] or parts["later"])
    year += 0 if len(parts["year"]) == 4 else 2000 if year < 69 else 1900
    month = _MONTHS.get(named.lower(), 0) if named else int(parts["month"])
    hour, half = int(parts["hour"] or 0), (parts["half"] or "").lower()[:1]
    hour = hour % 12 + (12 if half == "p" else 0) if half else hour
    try:
        moment = datetime(year, month, day, hour, int(parts["minute"] or 0), int(parts["second"] or 0))
    except ValueError:
        return None
    return (moment - datetime(1970, 1, 1)).total_seconds() / 86_400.0


def date_order(values: Sequence[Any], share: float, wanted: str = "") -> str:
    """Return how the dates of a column are written, "" where fewer than a share of its values are dates.

    Where every date can be read with the day or the month first, a month comes before a stroke and a day otherwise.
    """
    texts = Counter([value for value in values if isinstance(value, str)])
    counts = {order: sum(times for text, times in texts.items() if day_of(text, order) is not None) for order in ORDERS}
    first = wanted or ("mdy" if any("/" in text for text in texts) else "dmy")
    best = max(ORDERS, key=lambda order: (counts[order], order == first))
    return best if counts[best] and counts[best] >= share * len(values) else ""


def date_parts(values: Sequence[Any], order: str, *, all_of_them: bool = False) -> tuple[str, ...]:
    """Return the parts of the dates of a column that can say something of the next rows.

    Cycles must differ from row to row. Days that never go back count the rows of a stream, and the next row has a day
    that no row had before: they are left out, unless all parts are wanted.
    """
    texts = [value for value in values if isinstance(value, str)]
    found = {text: day_of(text, order) for text in dict.fromkeys(texts)}
    days = np.array([found[text] for text in texts if found[text] is not None])
    cycles = tuple(part for part, (_, place) in _CYCLES.items() if len(np.unique(np.floor(place(days)))) > 1)
    forward = len(days) > 1 and bool((np.diff(days) >= 0).all()) and days[0] < days[-1]
    return cycles if forward and not all_of_them else ("days", *cycles)


def date_names(name: str, parts: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the columns that the parts of a date become."""
    names: list[str] = []
    for part in parts:
        names += [name] if part == "days" else [f"{name}: {part} (sine)", f"{name}: {part} (cosine)"]
    return tuple(names)


def read_dates(column: Any, name: str, order: str, parts: Sequence[str], wrong: dict[int, str]) -> list[Float]:
    """Return the parts of the dates of a column, NaN for what is missing; a cell that is no date is noted as wrong."""
    coded = column.dictionary_encode()
    words = coded.dictionary.to_pylist()
    found = [None if is_missing(word) else day_of(word, order) for word in words]
    codes = np.asarray(coded.indices.fill_null(len(words)))
    days = np.array([*(math.nan if day is None else day for day in found), math.nan])[codes]
    bad = {code for code, word in enumerate(words) if found[code] is None and not is_missing(word)}
    for i in np.flatnonzero(np.isin(codes, list(bad))).tolist() if bad else ():
        wrong.setdefault(i, f"column {name!r} holds {words[codes[i]][:60]!r}, which is not a date ({order})")
    result: list[Float] = []
    for part in parts:
        if part == "days":
            result.append(days)
            continue
        period, place = _CYCLES[part]
        turn = np.where(np.isnan(days), np.nan, place(np.nan_to_num(days))) * (2.0 * np.pi / period)
        result += [np.sin(turn), np.cos(turn)]
    return result


def _months(days: Float) -> Float:
    """Return the months of days since 1970, January as 0."""
    months: Float = (np.floor(days).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12).astype(
        np.float64
    )
    return months


# Columns that are no feature.


def numbers_the_rows(values: Sequence[float]) -> bool:
    """Tell whether whole numbers are the names of the rows: all differ, where as many chosen by chance would not.

    Of n numbers out of a range R, drawn by chance, n(n − 1)/2R pairs are equal on average. Where more than seven are to
    be expected and there is none, it is not chance (one in a thousand).
    """
    count = len(values)
    if len(set(values)) < count or count < 2:
        return False
    extent = max(values) - min(values) + 1.0
    return count * (count - 1) / (2.0 * extent) > 7.0


def more_than(values: Sequence[str], most: int) -> bool:
    """Tell whether a column seems to have more different words than this many, from how few of its cells are equal.

    Of n words out of m equally frequent ones, n(n − 1)/2m pairs are equal on average: m is estimated from the pairs
    that are, with one more pair, so that few words never count as many.
    """
    counts = np.unique(np.asarray(values, dtype=np.str_), return_counts=True)[1].astype(np.float64)
    equal = float((counts * (counts - 1) / 2).sum())
    return len(values) * (len(values) - 1) / 2 > most * (equal + 1.0)
