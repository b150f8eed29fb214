"""What the columns of a stream are: numbers, categories, text, the label; decided once, kept with the model."""

from __future__ import annotations

import dataclasses
import itertools
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kampong.files.contents import to_lines
from kampong.streaming import formats
from kampong.streaming.errors import ColumnError, SourceError, unknown_column

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kampong.files import Contents

WIDEST_TABLE, WIDEST = 65_536, 2**31 - 1
TEXT_WIDTH, CATEGORY_WIDTH = 2**18, 2**10
ENOUGH = 0.5
FREQUENT = 0.05
"""The share of the first records that must miss a number for it to have a column that says so."""

FEWEST, UNIQUE = 20, 0.9
"""Records that must hold a value before a column can look like no feature, and the share of them that differ."""

POLICIES = ("auto", "mean", "dead")
LONGEST_RUN = 5

NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*|\s*[+-]?(nan|inf|infinity)\s*", re.IGNORECASE)
WHOLE = re.compile(r"[+-]?\d{1,15}(\.0*)?")
DATE = re.compile(r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([T ]|\s*$)")
COMMA = re.compile(r"[+-]?\d+(\.\d{3})*,\d+")
MISSING = frozenset(("", "NA", "N/A", "#N/A", "NaN", "nan", "-nan", "-NaN", "NULL", "null", "n/a", "<NA>"))


@dataclass(frozen=True)
class Layout:
    """What a user says about a source; the rest is found in its first block.

    Parameters
    ----------
    label : str or None
        The column that holds the class. Without a header, columns are named "1", "2" and so on.
    format : str
        The name of a format, such as "csv"; "auto" looks at the name and the first bytes of the source.
    header : bool
        Whether the first line of CSV or TSV names the columns.
    delimiter : str
        What separates the columns of CSV or TSV; "" stands for the default of the format.
    text : tuple of str
        Columns whose words are hashed.
    category : tuple of str
        Columns to hash as categories; columns without numbers are found automatically.
    drop : tuple of str
        Columns to leave out.
    hash_width : int
        Columns for hashed words and categories; 0 for 2**18 with text and 2**10 without.
    ngrams : int
        The longest run of words that is hashed, 1 for single words.
    tfidf : bool
        Whether words that many rows have count less.
    missing : str
        What becomes of a number that is missing: "auto" takes the mean of its column so far, and adds a column that
        says where it is missing if that is frequent; "mean" adds no such column; "dead" makes the record a dead letter.
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
    ngrams: int = 1
    tfidf: bool = False
    missing: str = "auto"
    max_features: int = 0
    zero_based: bool = False
    max_record_bytes: int = 8 * 2**20

    def __post_init__(self) -> None:
        for name in ("text", "category", "drop"):  # a list or a single name is accepted too
            value: Any = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))

    def to_state(self) -> dict[str, Any]:
        """Return the layout as named values for a model file."""
        return _state_of(self)

    @classmethod
    def from_state(cls, contents: Contents) -> Layout:
        """Return the layout that `to_state` wrote."""
        layout = cls(
            label=contents.text("label") if "label" in contents else None,
            format=contents.word("format", ("auto", *formats.names())),
            header=contents.flag("header"),
            delimiter=contents.text("delimiter"),
            text=contents.words("text"),
            category=contents.words("category"),
            drop=contents.words("drop"),
            hash_width=contents.whole("hash_width"),
            ngrams=contents.whole("ngrams", low=1, high=LONGEST_RUN),
            tfidf=contents.flag("tfidf"),
            missing=contents.word("missing", POLICIES),
            max_features=contents.whole("max_features"),
            zero_based=contents.flag("zero_based"),
            max_record_bytes=contents.whole("max_record_bytes", low=1),
        )
        contents.finish()
        return layout


@dataclass(frozen=True)
class Schema:
    """What every record must look like, and where each column goes.

    Attributes
    ----------
    format : str
        The name of the format of the source.
    columns : tuple of str
        The columns in the order of the source.
    numbers, categories, texts : tuple of str
        The columns that are features; numbers come first, hashed ones share `hash_width` columns after them.
    indicated : tuple of str
        The numbers that have a further column, which is 1 where the number is missing.
    label : str or None
        The column of the class.
    label_kind : str
        "integer" or "string".
    fills : bool
        Whether a number that is missing becomes the mean of its column; otherwise the record is dead.
    hints : tuple of str
        What a user should know of columns that look like no feature, from the first records; not kept with the model.
    """

    format: str
    columns: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    indicated: tuple[str, ...] = ()
    label: str | None = None
    label_kind: str = "string"
    delimiter: str = ","
    fills: bool = False
    hash_width: int = 0
    ngrams: int = 1
    tfidf: bool = False
    width: int = 0
    sparse: bool = False
    zero_based: bool = False
    classes: tuple[Any, ...] = field(default=())
    hints: tuple[str, ...] = field(default=(), compare=False)

    def to_state(self) -> dict[str, Any]:
        """Return the schema as named values for a model file."""
        return _state_of(self)

    @classmethod
    def from_state(cls, contents: Contents) -> Schema:
        """Return the schema that `to_state` wrote, after a check that its parts fit each other."""
        schema = cls(
            format=contents.word("format", formats.names()),
            columns=contents.words("columns"),
            numbers=contents.words("numbers"),
            categories=contents.words("categories"),
            texts=contents.words("texts"),
            indicated=contents.words("indicated"),
            label=contents.text("label"),
            label_kind=contents.word("label_kind", ("integer", "string")),
            delimiter=contents.text("delimiter"),
            fills=contents.flag("fills"),
            hash_width=contents.whole("hash_width", high=WIDEST),
            ngrams=contents.whole("ngrams", low=1, high=LONGEST_RUN),
            tfidf=contents.flag("tfidf"),
            width=contents.whole("width", low=1, high=WIDEST),
            sparse=contents.flag("sparse"),
            zero_based=contents.flag("zero_based"),
            classes=tuple(contents.lines("classes")),
        )
        contents.finish()
        schema._check(contents)
        return schema

    def _check(self, contents: Contents) -> None:
        """Refuse a schema that no source can have given."""
        places = {name: place for place, name in enumerate(self.columns)}
        contents.require(len(places) == len(self.columns) <= WIDEST_TABLE, "columns are too many, or share a name")
        for kind in ("numbers", "categories", "texts", "indicated"):
            found = [places.get(name, -1) for name in getattr(self, kind)]
            contents.require(-1 not in found, f"{kind} holds a column that is not among the columns")
            contents.require(found == sorted(found), f"{kind} are not in the order of the columns")
        used, hashed = (*self.features, self.label), bool(self.categories or self.texts)
        contents.require(len(set(used)) == len(used), "numbers, categories, texts and label share a column")
        named = formats.get(self.format).named_columns
        contents.require(
            bool(self.columns) == named, f"columns are {len(self.columns)}, which {self.format} cannot have"
        )
        contents.require(not named or self.label in places, f"label is {self.label!r:.100}, which is not a column")
        contents.require(bool(self.hash_width) == hashed, f"hash_width is {self.hash_width}, hashed columns or not")
        filled = set(self.indicated) <= set(self.numbers) and (self.fills or not self.indicated)
        contents.require(filled, "indicated holds a column that is not a number, or no number is filled in")
        contents.require(named or not self.fills, f"fills is true, and {self.format} has no columns to fill in")
        contents.require(bool(self.texts) or (self.ngrams == 1 and not self.tfidf), "ngrams and tfidf need texts")
        width = len(self.numbers) + len(self.indicated) + self.hash_width if named else self.width
        contents.require(self.width == width, f"width is {self.width}, and the columns make {width}")
        contents.require(self.sparse or not hashed, "sparse is false, and hashed columns are sparse")
        is_separator = len(self.delimiter) == 1 and self.delimiter not in '"\r\n\0'
        contents.require(is_separator, f"delimiter is {self.delimiter!r:.100}, expected one character")
        label_type: type = int if self.label_kind == "integer" else str
        good = all(type(label) is label_type for label in self.classes) and len(set(self.classes)) == len(self.classes)
        contents.require(good, f"classes holds labels that are not of label_kind {self.label_kind}, or one twice")

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that are features."""
        return (*self.numbers, *self.categories, *self.texts)

    @property
    def used(self) -> tuple[str, ...]:
        """The columns to read: the features, and the label where there is one."""
        return self.features if self.label is None else (*self.features, self.label)

    @cached_property
    def numeric(self) -> frozenset[str]:
        """The columns to read as numbers."""
        whole = (self.label,) if self.label is not None and self.label_kind == "integer" else ()
        return frozenset((*self.numbers, *whole))

    def summary(self) -> str:
        """Return what the columns are, for people."""
        if not self.columns:
            return f"columns: {self.width:,} numbered ones; label {self.label} ({self.label_kind})"
        dropped = [name for name in self.columns if name not in self.used]
        kinds = {"number": self.numbers, "category": self.categories, "text": self.texts, "dropped": dropped}
        said = [f"{len(names):,} {kind} ({_some(names)})" for kind, names in kinds.items() if names]
        said += [f"with a column where missing: {_some(self.indicated)}"] if self.indicated else []
        return f"columns: {', '.join(said)}; label {self.label} ({self.label_kind})"

    def of_columns(self, columns: Sequence[str], source: str) -> Schema:
        """Return the same schema for a source whose columns come in another order, or without the label."""
        for name in self.features:
            if name not in columns:
                raise unknown_column(name, columns, f"{source}: the model needs")
        check_columns(columns, source)
        label = self.label if self.label in columns else None
        return dataclasses.replace(self, columns=tuple(columns), label=label)


def _state_of(record: Layout | Schema) -> dict[str, Any]:
    """Return the fields of a record by name: tuples as lines, and nothing where a label is not known."""
    values = {one.name: getattr(record, one.name) for one in dataclasses.fields(record) if one.compare}
    plain = {name: to_lines(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return {name: value for name, value in plain.items() if value is not None}


def _some(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def check_columns(columns: Sequence[str], source: str) -> None:
    """Refuse columns that share a name, and more columns than a table should have."""
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
        Whether a text is never read as a number. This is so in every format except CSV.

    Returns
    -------
    Schema
        What every record must look like.
    """
    check_columns(columns, source)
    for option, names in (("--text", layout.text), ("--category", layout.category), ("--drop", layout.drop)):
        for column in names:
            if column not in columns:
                raise unknown_column(column, columns, f"{source}: {option}")
    if layout.label is not None and layout.label not in columns:
        raise unknown_column(layout.label, columns, f"{source}: --label")
    rest = [name for name in columns if name != layout.label and name not in layout.drop]
    texts = tuple(name for name in rest if name in layout.text)
    found = {name for name in rest if name not in texts and not mostly_numbers(values[name], typed)}
    for column in rest:
        if column in found and column not in layout.category:
            _refuse_decimal_commas(column, values[column], source)
    categories = tuple(name for name in rest if name not in texts and (name in layout.category or name in found))
    numbers = tuple(name for name in rest if name not in texts and name not in categories)
    if not rest:
        raise ColumnError(f"{source}: no column is left for features beside the label {layout.label!r}.")
    indicated = tuple(name for name in numbers if layout.missing == "auto" and _often_missing(values[name]))
    hashed = (layout.hash_width or (TEXT_WIDTH if texts else CATEGORY_WIDTH)) if texts or categories else 0
    kind = label_kind(values[layout.label] if layout.label else (), classes, typed)
    if layout.label is not None and not classes:
        _refuse_continuous(layout.label, values[layout.label], source, typed)
    return Schema(
        format=name,
        columns=tuple(columns),
        numbers=numbers,
        categories=categories,
        texts=texts,
        indicated=indicated,
        label=layout.label,
        label_kind=kind,
        fills=layout.missing != "dead",
        hash_width=hashed,
        ngrams=layout.ngrams if texts else 1,
        tfidf=layout.tfidf and bool(texts),
        width=len(numbers) + len(indicated) + hashed,
        sparse=bool(hashed) or _mostly_zero(numbers, values),
        classes=as_labels(classes, kind),
        hints=tuple(
            f"{column}: {what}. Leave it out with --drop {column}"
            + ("." if column in numbers else f", or say --category {column} if it is one.")
            for column in rest
            if column not in texts and column not in layout.category
            for what in [_no_feature(values[column], column in numbers)]
            if what
        ),
    )


def _no_feature(values: Sequence[Any], numbers: bool) -> str:
    """Return why a column looks like no feature, "" where it does not: dates, names of rows, numbers of rows."""
    there = [value for value in values if not is_missing(value)]
    if len(there) < FEWEST:
        return ""
    if numbers:
        whole = [int(float(value)) for value in there if is_whole(value)]
        counts = len(whole) == len(there) and all(b - a == 1 for a, b in itertools.pairwise(whole))
        return (
            f"its numbers count the rows ({there[0]}, {there[1]}, …), which tells the order of the rows"
            if counts
            else ""
        )
    first = there[0]
    dates = sum(not isinstance(value, str) or DATE.match(value) is not None for value in there)
    if dates >= ENOUGH * len(there):
        return f"it holds dates ({first}, …), and each of them is hashed as a word of its own"
    if len(set(map(str, there))) >= UNIQUE * len(there):
        return f"nearly every record has a value of its own ({first}, {there[1]}, …), from which nothing can be learnt"
    return ""


def is_missing(value: Any) -> bool:
    """Tell whether a value stands for nothing."""
    if isinstance(value, str):
        return value.strip() in MISSING
    return value is None or value != value  # NaN is not itself


def _often_missing(values: Sequence[Any]) -> bool:
    gone = sum(is_missing(value) for value in values)
    return gone >= 2 and gone >= FREQUENT * len(values)


def mostly_numbers(values: Iterable[Any], typed: bool = False) -> bool:
    """Tell whether at least half of the values that are present are numbers; true also for an empty column."""
    there = [value for value in values if not is_missing(value)]
    good = sum(not isinstance(value, str) or (not typed and NUMBER.fullmatch(value) is not None) for value in there)
    return good >= ENOUGH * len(there)


def label_kind(values: Iterable[Any], classes: Sequence[Any] = (), typed: bool = False) -> str:
    """Return "integer" where at least half of the labels, and all declared classes, are whole numbers."""
    there = [value for value in values if value is not None and value != ""]
    whole = sum(is_whole(value) and not (typed and isinstance(value, str)) for value in there)
    agree = whole >= ENOUGH * len(there) and (there or classes)
    return "integer" if agree and all(is_whole(label) for label in classes) else "string"


def _refuse_continuous(label: str, values: Iterable[Any], source: str, typed: bool) -> None:
    """Refuse a label that is a measurement: nearly all are numbers, and a tenth or more of them have fractions."""
    there = [value for value in values if not is_missing(value)]
    numbers = [value for value in there if mostly_numbers([value], typed)]
    broken = [value for value in numbers if not is_whole(value)]
    if len(numbers) >= 0.9 * len(there) and len(broken) >= max(1, 0.1 * len(there)):
        shown = ", ".join(str(value) for value in broken[:3])
        raise ColumnError(
            f"{source}: the label {label!r} holds numbers with fractions ({shown}, …), which is a continuous target. "
            "kampong learns classes: cut the target into classes first, name another --label, or declare the classes "
            "with --classes."
        )


def _refuse_decimal_commas(column: str, values: Iterable[Any], source: str) -> None:
    """Refuse a column of numbers such as 2,5: as categories they would say nothing, and nobody would notice."""
    there = [value for value in values if not is_missing(value)]
    commas = [value for value in there if isinstance(value, str) and COMMA.fullmatch(value.strip())]
    if len(set(commas)) > 1 and len(commas) >= ENOUGH * len(there):
        raise ColumnError(
            f"{source}: the column {column!r} holds numbers with a comma ({'; '.join(commas[:3])}; …), and kampong "
            f"reads a decimal point. Write 2.5 for 2,5, or leave the column out with --drop {column}; "
            f"--category {column} takes each of its values for a word."
        )


def is_whole(value: Any) -> bool:
    """Tell whether a value is a whole number, or the text of one."""
    if isinstance(value, str):
        return WHOLE.fullmatch(value.strip()) is not None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < 2**53 and float(value).is_integer()


def as_labels(classes: Sequence[Any], kind: str) -> tuple[Any, ...]:
    """Return declared classes, converted to the kind of the labels, each once."""
    labels: list[Any] = [int(float(label)) if kind == "integer" else str(label) for label in classes]
    return tuple(dict.fromkeys(labels))


def _mostly_zero(numbers: Sequence[str], values: Mapping[str, Sequence[Any]]) -> bool:
    """Tell whether a wide table holds hardly anything but zeros, so that sparse rows are smaller and faster."""
    if len(numbers) < 512:
        return False
    zero = total = 0
    for name in numbers:
        total += len(values[name])
        zero += sum(value in (0, "0", "0.0") for value in values[name])
    return zero > 0.95 * total
