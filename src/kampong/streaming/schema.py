"""What the columns of a stream are: numbers, categories, text, the label; decided once, kept with the model."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kampong.streaming.errors import ColumnError, SourceError, unknown_column

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FORMATS = ("csv", "tsv", "jsonl", "libsvm", "parquet", "arrow")
WIDEST_TABLE = 65_536
TEXT_WIDTH, CATEGORY_WIDTH = 2**18, 2**10
ENOUGH = 0.5

NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*|\s*[+-]?(nan|inf|infinity)\s*", re.IGNORECASE)
WHOLE = re.compile(r"[+-]?\d{1,15}(\.0*)?")
MISSING = frozenset(("", "NA", "N/A", "#N/A", "NaN", "nan", "-nan", "-NaN", "NULL", "null", "n/a", "<NA>"))


@dataclass(frozen=True)
class Layout:
    """What a user says of a source; what is not said is found in its first block.

    Parameters
    ----------
    label : str or None
        The column that holds the class. Without a header, columns are named "1", "2" and so on.
    format : str
        "csv", "tsv", "jsonl", "libsvm", "parquet" or "arrow"; "auto" looks at the name and the first bytes.
    header : bool
        Whether the first line of CSV or TSV names the columns.
    delimiter : str
        What separates the columns of CSV; "" is a comma, or a tab for TSV.
    text : tuple of str
        Columns whose words are hashed.
    category : tuple of str
        Columns to hash as categories; columns that hold no numbers are found by themselves.
    drop : tuple of str
        Columns to leave out.
    hash_width : int
        Columns for hashed words and categories; 0 for 2**18 with text and 2**10 without.
    max_features : int
        The largest index of libsvm.
    zero_based : bool
        Whether libsvm counts columns from 0.
    max_record_bytes : int
        A longer line is a dead letter.

    Examples
    --------
    >>> Layout(label="species").format
    'auto'
    """

    label: str | None = None
    format: str = "auto"
    header: bool = True
    delimiter: str = ""
    text: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    hash_width: int = 0
    max_features: int = 0
    zero_based: bool = False
    max_record_bytes: int = 8 * 2**20

    def to_json(self) -> dict[str, Any]:
        """Return the options as plain values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}


@dataclass(frozen=True)
class Schema:
    """What every record must look like, and where each column goes.

    Attributes
    ----------
    format : str
        One of `FORMATS`.
    columns : tuple of str
        The columns in the order of the source.
    numbers, categories, texts : tuple of str
        The columns that are features; numbers come first, hashed ones share `hash_width` columns after them.
    label : str or None
        The column of the class.
    label_kind : str
        "integer" or "string".
    """

    format: str
    columns: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    label: str | None = None
    label_kind: str = "string"
    delimiter: str = ","
    hash_width: int = 0
    width: int = 0
    sparse: bool = False
    zero_based: bool = False
    classes: tuple[Any, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Return the schema as plain values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Schema:
        """Return the schema that `to_json` wrote."""
        names = {one.name for one in dataclasses.fields(cls)}
        if set(facts) != names:
            raise ColumnError("The model file does not describe its columns completely. Learn the model again.")
        values: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()}
        return cls(**values)

    def of_columns(self, columns: Sequence[str], source: str) -> Schema:
        """Return the same schema for a source whose columns come in another order, or without the label."""
        for name in (*self.numbers, *self.categories, *self.texts):
            if name not in columns:
                raise unknown_column(name, columns, f"{source}: the model needs")
        check_columns(columns, source)
        label = self.label if self.label in columns else None
        return dataclasses.replace(self, columns=tuple(columns), label=label)


def check_columns(columns: Sequence[str], source: str) -> None:
    """Refuse column names that do not tell columns apart, and more columns than a table should have."""
    if len(columns) > WIDEST_TABLE:
        raise SourceError(
            f"{source}: {len(columns):,} columns; a table may have {WIDEST_TABLE:,}. Use libsvm for wider rows, or "
            "check the delimiter."
        )
    if len(set(columns)) < len(columns):
        twice = next(name for i, name in enumerate(columns) if name in columns[:i])
        raise ColumnError(f"{source}: two columns are named {twice!r}. Give each its own name, or use --no-header.")


def infer(
    layout: Layout,
    name: str,
    columns: Sequence[str],
    values: Mapping[str, Sequence[Any]],
    source: str,
    classes: Sequence[Any] = (),
    *,
    typed: bool = False,
) -> Schema:
    """Return the schema of a table from its first records.

    Parameters
    ----------
    layout : Layout
        What the user says.
    name : str
        The format of the source.
    columns : sequence of str
        All columns.
    values : mapping of str to sequence
        What the first records hold in each column; None where a record has nothing.
    source : str
        The name of the source, for messages.
    classes : sequence
        The only labels allowed, where they are known.
    typed : bool
        Whether a text is never a number: in every format but CSV.

    Returns
    -------
    Schema
        What every record must look like.
    """
    check_columns(columns, source)
    for option, names in (("--text", layout.text), ("--category", layout.category), ("--drop", layout.drop)):
        for name in names:
            if name not in columns:
                raise unknown_column(name, columns, f"{source}: {option}")
    if layout.label is not None and layout.label not in columns:
        raise unknown_column(layout.label, columns, f"{source}: --label")
    rest = [name for name in columns if name != layout.label and name not in layout.drop]
    texts = tuple(name for name in rest if name in layout.text)
    found = {name for name in rest if name not in texts and not mostly_numbers(values[name], typed)}
    categories = tuple(name for name in rest if name not in texts and (name in layout.category or name in found))
    numbers = tuple(name for name in rest if name not in texts and name not in categories)
    if not rest:
        raise ColumnError(f"{source}: no column is left for features beside the label {layout.label!r}.")
    hashed = (layout.hash_width or (TEXT_WIDTH if texts else CATEGORY_WIDTH)) if texts or categories else 0
    kind = label_kind(values[layout.label] if layout.label else (), classes, typed)
    return Schema(
        format=name,
        columns=tuple(columns),
        numbers=numbers,
        categories=categories,
        texts=texts,
        label=layout.label,
        label_kind=kind,
        delimiter=layout.delimiter or ("\t" if name == "tsv" else ","),
        hash_width=hashed,
        width=len(numbers) + hashed,
        sparse=bool(hashed) or _mostly_zero(numbers, values),
        classes=as_labels(classes, kind),
    )


def mostly_numbers(values: Iterable[Any], typed: bool = False) -> bool:
    """Tell whether at least half of the values that are there read as numbers; a column of nothing counts too."""
    there = [
        value for value in values if value is not None and not (isinstance(value, str) and value.strip() in MISSING)
    ]
    good = sum(not isinstance(value, str) or (not typed and NUMBER.fullmatch(value) is not None) for value in there)
    return good >= ENOUGH * len(there)


def label_kind(values: Iterable[Any], classes: Sequence[Any] = (), typed: bool = False) -> str:
    """Return "integer" where at least half of the labels, and all declared classes, are whole numbers."""
    there = [value for value in values if value is not None and value != ""]
    whole = sum(is_whole(value) and not (typed and isinstance(value, str)) for value in there)
    agree = whole >= ENOUGH * len(there) and (there or classes)
    return "integer" if agree and all(is_whole(label) for label in classes) else "string"


def is_whole(value: Any) -> bool:
    """Tell whether a value is a whole number, or the text of one."""
    if isinstance(value, str):
        return WHOLE.fullmatch(value.strip()) is not None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < 2**53 and float(value).is_integer()


def as_labels(classes: Sequence[Any], kind: str) -> tuple[Any, ...]:
    """Return declared classes in the kind of the labels."""
    return tuple(int(float(label)) for label in classes) if kind == "integer" else tuple(str(one) for one in classes)


def _mostly_zero(numbers: Sequence[str], values: Mapping[str, Sequence[Any]]) -> bool:
    """Tell whether a wide table holds hardly anything but zeros, so that sparse rows are smaller and faster."""
    if len(numbers) < 512:
        return False
    zero = total = 0
    for name in numbers:
        total += len(values[name])
        zero += sum(value in (0, "0", "0.0") for value in values[name])
    return zero > 0.95 * total
