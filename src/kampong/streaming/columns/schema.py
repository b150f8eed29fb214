"""What the columns of a stream are: numbers, categories, text, the label; decided once, kept with the model."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kampong.files.contents import to_lines
from kampong.streaming import formats
from kampong.streaming.columns import cells
from kampong.streaming.columns.cells import FirstCells
from kampong.streaming.errors import ColumnError, SourceError, unknown_column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kampong.files import Contents

WIDEST_TABLE, WIDEST = 65_536, 2**31 - 1
TEXT_WIDTH, CATEGORY_WIDTH = 2**18, 2**10
ENOUGH = 0.5
FREQUENT = 0.05
"""The share of the first records that must miss a number for it to have a column that says so."""

KINDS = ("text", "category", "number", "date", "drop")
"""What a user may say that a column is."""

POLICIES = ("auto", "mean", "dead")
LONGEST_RUN, DEEPEST = 5, 16

WHOLE = re.compile(r"[+-]?\d{1,15}(\.0*)?")


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
    number : tuple of str
        Columns to read as numbers, although their first cells, or what they count, speak against it.
    date : tuple of str
        Columns to read as dates; columns of dates are found automatically.
    drop : tuple of str
        Columns to leave out.
    decimal : str
        What comes before the digits of a fraction in text: "." or ","; "" finds it in the first records.
    date_order : str
        "dmy" or "mdy" for dates such as 03/04/2026; "" finds it in the first records.
    flatten : int
        How many objects deep the values of JSON lines are columns, named as place.city; 0 for flat records alone.
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
    number: tuple[str, ...] = ()
    date: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    decimal: str = ""
    date_order: str = ""
    flatten: int = 3
    hash_width: int = 0
    ngrams: int = 1
    tfidf: bool = False
    missing: str = "auto"
    max_features: int = 0
    zero_based: bool = False
    max_record_bytes: int = 8 * 2**20

    def __post_init__(self) -> None:
        for name in KINDS:  # a list or a single name is accepted too
            value: Any = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))

    @property
    def named(self) -> set[str | None]:
        """The columns of which something is said."""
        return {self.label, *(name for kind in KINDS for name in getattr(self, kind))}

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
            number=contents.words("number"),
            date=contents.words("date"),
            drop=contents.words("drop"),
            decimal=contents.word("decimal", ("", ".", ",")),
            date_order=contents.word("date_order", ("", "dmy", "mdy")),
            flatten=contents.whole("flatten", high=DEEPEST),
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
    styled : tuple of str
        The numbers that are read as text: people have typed them, such as $1,226.10, or words stand among them.
    worded : tuple of str
        Those of them whose words are values too, hashed as those of a category: 1, 2, 3, "5 or more".
    dates, date_orders, date_parts : tuple of str
        The numbers that are dates, how each is written, and the parts of it that are features.
    decimal : str
        What comes before the digits of a fraction in text.
    flatten : int
        How deep objects of JSON lines are flattened.
    indicated : tuple of str
        The numbers that have a further column, which is 1 where the number is missing.
    label : str or None
        The column of the class.
    label_kind : str
        "integer" or "string".
    fills : bool
        Whether a number that is missing becomes the mean of its column; otherwise the record is dead.
    left_out : tuple of str
        The columns that name the rows, which are no features unless the user says so.
    hints : tuple of str
        What a user should know of columns that look like no feature, from the first records; not kept with the model.
    """

    format: str
    columns: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    styled: tuple[str, ...] = ()
    worded: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    date_orders: tuple[str, ...] = ()
    date_parts: tuple[str, ...] = ()
    decimal: str = "."
    flatten: int = 0
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
    left_out: tuple[str, ...] = ()
    hints: tuple[str, ...] = field(default=(), compare=False)

    def to_state(self) -> dict[str, Any]:
        """Return the schema as named values for a model file; without words among numbers it is as in older files."""
        state = _state_of(self)
        return state if self.worded else {name: value for name, value in state.items() if name != "worded"}

    @classmethod
    def from_state(cls, contents: Contents) -> Schema:
        """Return the schema that `to_state` wrote, after a check that its parts fit each other."""
        schema = cls(
            format=contents.word("format", formats.names()),
            columns=contents.words("columns"),
            numbers=contents.words("numbers"),
            categories=contents.words("categories"),
            texts=contents.words("texts"),
            styled=contents.words("styled"),
            worded=contents.words("worded") if "worded" in contents else (),
            dates=contents.words("dates"),
            date_orders=contents.words("date_orders"),
            date_parts=contents.words("date_parts"),
            decimal=contents.word("decimal", (".", ",")),
            flatten=contents.whole("flatten", high=DEEPEST),
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
            left_out=contents.words("left_out"),
        )
        contents.finish()
        schema._check(contents)
        return schema

    def _check(self, contents: Contents) -> None:
        """Refuse a schema that no source can have given."""
        places = {name: place for place, name in enumerate(self.columns)}
        contents.require(len(places) == len(self.columns) <= WIDEST_TABLE, "columns are too many, or share a name")
        for kind in ("numbers", "categories", "texts", "styled", "worded", "dates", "indicated", "left_out"):
            found = [places.get(name, -1) for name in getattr(self, kind)]
            contents.require(-1 not in found, f"{kind} holds a column that is not among the columns")
            contents.require(found == sorted(set(found)), f"{kind} are not in the order of the columns, each once")
        used, hashed = (*self.features, self.label, *self.left_out), bool(self.categories or self.texts or self.worded)
        contents.require(len(set(used)) == len(used), "numbers, categories, texts, label and left_out share a column")
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
        read = {*self.styled, *self.dates}
        apart = read <= set(self.numbers) and len(read) == len(self.styled) + len(self.dates)
        contents.require(apart, "styled and dates hold a column that is not a number, or one twice")
        valued = set(self.worded) <= set(self.styled) and (self.fills or not self.worded)
        contents.require(valued, "worded holds a column that is not read as text, or no number is filled in")
        contents.require(
            len(self.dates) == len(self.date_orders) == len(self.date_parts)
            and set(self.date_orders) <= set(cells.ORDERS)
            and all(parts and set(parts.split()) <= set(cells.PARTS) for parts in self.date_parts),
            "date_orders and date_parts do not say how the dates are written, and what they become",
        )
        width = len(self.number_features) + len(self.indicated) + self.hash_width if named else self.width
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
        """The columns that a format reads as numbers; what people have typed is read as text."""
        whole = (self.label,) if self.label is not None and self.label_kind == "integer" else ()
        return frozenset((*self.numbers, *whole)) - {*self.styled, *self.dates}

    @cached_property
    def date_of(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """How each date is written, and the parts of it that are features."""
        found = zip(self.dates, self.date_orders, self.date_parts, strict=True)
        return {name: (order, tuple(parts.split())) for name, order, parts in found}

    @cached_property
    def number_features(self) -> tuple[str, ...]:
        """The names of the features that the numbers become: one, or several for a date."""
        names: list[str] = []
        for name in self.numbers:
            names += cells.date_names(name, self.date_of[name][1]) if name in self.date_of else [name]
        return tuple(names)

    def summary(self) -> str:
        """Return what the columns are, for people."""
        if not self.columns:
            return f"columns: {self.width:,} numbered ones; label {self.label} ({self.label_kind})"
        dropped = [name for name in self.columns if name not in self.used]
        plain = [name for name in self.numbers if name not in self.date_of]
        dates = [f"{name}: {self.date_of[name][0]}" for name in self.dates]
        kinds = {"number": plain, "date": dates, "category": self.categories, "text": self.texts, "dropped": dropped}
        said = [f"{len(names):,} {kind} ({_some(names)})" for kind, names in kinds.items() if names]
        said += [f"with words as values: {_some(self.worded)}"] if self.worded else []
        said += [f"with a column where missing: {_some(self.indicated)}"] if self.indicated else []
        said += ["decimal comma"] if self.decimal == "," else []
        return f"columns: {', '.join(said)}; label {self.label} ({self.label_kind})"

    def of_columns(self, columns: Sequence[str], source: str) -> Schema:
        """Return the same schema for a source whose columns come in another order, or without the label."""
        for name in self.features:
            if name not in columns:
                raise unknown_column(name, columns, f"{source}: the model needs", taken=self.features)
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
    for kind in KINDS:
        for column in getattr(layout, kind):
            if column not in columns:
                option = f"--{kind}" if kind in ("text", "category", "drop") else f"--as {kind}"
                raise unknown_column(column, columns, f"{source}: {option}")
    if layout.label is not None and layout.label not in columns:
        raise unknown_column(layout.label, columns, f"{source}: --label")
    read = {name: FirstCells(values[name]) for name in columns if name not in layout.drop or name == layout.label}
    found = _sorted(layout, read, typed)
    if found.counters and not (found.numbers or found.categories or found.texts):  # there is nothing better
        found = _sorted(dataclasses.replace(layout, number=(*layout.number, *found.counters)), read, typed)
    numbers, categories, texts = found.numbers, found.categories, found.texts
    if not (numbers or categories or texts):
        raise ColumnError(
            f"{source}: no column is left for features beside the label {layout.label!r}."
            + "".join(f" {hint}" for hint in found.hints)
        )
    indicated = tuple(name for name in numbers if layout.missing == "auto" and _often_missing(read[name]))
    words = texts or categories or found.worded
    hashed = (layout.hash_width or (TEXT_WIDTH if texts else CATEGORY_WIDTH)) if words else 0
    kind = _label_kind(read[layout.label] if layout.label else FirstCells(()), classes, typed)
    if layout.label is not None and not classes:
        _refuse_continuous(layout.label, read[layout.label], source, typed)
    schema = Schema(
        format=name,
        columns=tuple(columns),
        numbers=tuple(numbers),
        categories=tuple(categories),
        texts=tuple(texts),
        styled=tuple(found.styled),
        worded=tuple(found.worded),
        dates=tuple(found.dates),
        date_orders=tuple(order for order, _ in found.dates.values()),
        date_parts=tuple(" ".join(parts) for _, parts in found.dates.values()),
        decimal=found.decimal,
        indicated=indicated,
        label=layout.label,
        label_kind=kind,
        fills=layout.missing != "dead",
        hash_width=hashed,
        ngrams=layout.ngrams if texts else 1,
        tfidf=layout.tfidf and bool(texts),
        sparse=bool(hashed) or _mostly_zero(numbers, values),
        classes=as_labels(classes, kind),
        left_out=tuple(found.left_out),
        hints=(*found.hints, *_alike(layout.label, values)),
    )
    return dataclasses.replace(schema, width=len(schema.number_features) + len(indicated) + hashed)


class _Columns:
    """What the columns of a table are, as far as its first records tell."""

    def __init__(self, decimal: str) -> None:
        self.decimal = decimal
        self.numbers: list[str] = []
        self.categories: list[str] = []
        self.texts: list[str] = []
        self.styled: list[str] = []
        self.worded: list[str] = []
        self.dates: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.counters: list[str] = []
        self.left_out: list[str] = []
        self.hints: list[str] = []


def _sorted(layout: Layout, read: Mapping[str, FirstCells], typed: bool) -> _Columns:
    """Return what each column is: what the user says, else what half of its first values are."""
    rest = {name: column for name, column in read.items() if name != layout.label and name not in layout.drop}
    asked = {*layout.text, *layout.category, *layout.number, *layout.date}
    decimal = layout.decimal or (
        "." if typed else cells.decimal_mark(column for name, column in rest.items() if name not in asked)
    )
    found = _Columns(decimal)
    for name, column in rest.items():
        if name in layout.text:
            found.texts.append(name)
        elif name in layout.category:
            found.categories.append(name)
        elif name in layout.date or (name not in layout.number and column.numbers(typed) < ENOUGH * len(column.there)):
            _take_words(found, layout, name, column, typed)
        elif name not in layout.number and _counts(column.there):
            found.counters.append(name)
            found.left_out.append(name)
            found.hints.append(
                f"{name}: its numbers name the rows ({column.there[0]}, {column.there[1]}, …), so it is left out. "
                f"Keep it with --as number:{name}."
            )
        else:
            found.numbers.append(name)
            words = column.words(decimal)
            typed_by_hand = len(words) < len(column.others)
            if (typed_by_hand or decimal == ",") and not typed and _share(column, words) >= ENOUGH:
                found.styled.append(name)
            if name not in layout.number and layout.missing != "dead":
                _take_values(found, name, words, len(column.there))
    return found


def _take_values(found: _Columns, name: str, words: Mapping[str, int], total: int) -> None:
    """Note the words among the numbers of a column: those that come back often are values, others are mistakes."""
    counts = _repeated(words)
    if not _often(sum(counts.values()), total):
        return
    shown = list(counts)
    if name not in found.styled:
        found.styled.append(name)
    found.worded.append(name)
    found.hints.append(
        f"{name}: the words among its numbers are values too ({', '.join(map(repr, shown[:3]))}"
        f"{', …' if len(shown) > 3 else ''}). With --as number:{name}, their records are dead letters."
    )


def _take_words(found: _Columns, layout: Layout, name: str, column: FirstCells, typed: bool) -> None:
    """Sort a column in which most values are no plain numbers: dates, typed numbers, a category, or names of rows."""
    asked, there = name in layout.date, column.there
    order = cells.date_order(there, 0.0 if asked else ENOUGH, layout.date_order)
    if asked and not order:
        raise ColumnError(
            f"--as date:{name}: no value of the column {name!r} is a date ({', '.join(map(str, there[:3]))}, …)."
        )
    if order:
        parts = cells.date_parts(there, order, all_of_them=asked)
        if parts:
            found.numbers.append(name)
            found.dates[name] = order, parts
        else:
            found.left_out.append(name)
            found.hints.append(
                f"{name}: its dates go forward with the rows ({there[0]}, …), so it is left out. "
                f"Keep it with --as date:{name}."
            )
    elif not typed and _share(column, column.words(found.decimal)) >= ENOUGH:
        found.numbers.append(name)
        found.styled.append(name)
    elif cells.more_than([str(value) for value in there], layout.hash_width or CATEGORY_WIDTH):
        found.left_out.append(name)
        found.hints.append(
            f"{name}: nearly every record has a value of its own ({there[0]}, {there[1]}, …), so it is left out. "
            f"--as text:{name} learns from its words, --as category:{name} from its values."
        )
    else:
        found.categories.append(name)


def _repeated(words: Mapping[str, int]) -> dict[str, int]:
    """Return how often words occur that occur more than once."""
    counts = Counter[str]()
    for word, times in words.items():
        counts[word.strip()] += times
    return {word: times for word, times in counts.items() if times > 1}


def _share(column: FirstCells, words: Mapping[str, int]) -> float:
    """Return the share of the values of a column that are numbers as people type them, all but these words."""
    return (len(column.there) - sum(words.values())) / max(len(column.there), 1)


def _counts(values: Sequence[Any]) -> bool:
    """Tell whether the values of a column are whole numbers that name the rows."""
    differ = len(set(values)) == len(values)
    return differ and all(map(is_whole, values)) and cells.numbers_the_rows([float(value) for value in values])


def _alike(label: str | None, values: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return hints where labels differ only in their case, or in spaces."""
    labels: dict[str, set[str]] = {}
    written: dict[str, set[str]] = {}
    for value in values[label] if label is not None else ():
        if isinstance(value, str) and value.strip():
            labels.setdefault(" ".join(value.split()).casefold(), set()).add(value.strip())
            written.setdefault(value.strip(), set()).add(value)
    hints = []
    if spaced := _several(written):
        hints.append(f"{label}: spaces around labels are cut off, so each of these is one class: {spaced}.")
    if differ := _several(labels):
        hints.append(
            f"{label}: labels that differ only in case or in spaces inside them are different classes ({differ}). "
            "Write them the same way if they are one."
        )
    return hints


def _several(found: Mapping[str, set[str]]) -> str:
    """Return the words that belong together, for a message; "" where each is alone."""
    several = [sorted(words) for words in found.values() if len(words) > 1]
    return "; ".join(", ".join(map(repr, words)) for words in several[:3])


def _often_missing(column: FirstCells) -> bool:
    return _often(len(column.values) - len(column.there), len(column.values))


def _often(times: int, total: int) -> bool:
    """Tell whether something that occurs so often among values is no accident."""
    return times >= 2 and times >= FREQUENT * total


def _label_kind(labels: FirstCells, classes: Sequence[Any], typed: bool) -> str:
    """Return "integer" where at least half of the labels, and all declared classes, are whole numbers.

    A word that occurs twice is a class, as 10+ after 8 and 9, and then all labels are words.
    """
    there = [value for value in labels.values if value is not None and value != ""]
    whole = sum(is_whole(value) and not (typed and isinstance(value, str)) for value in there)
    agree = whole >= ENOUGH * len(there) and (there or classes) and not _repeated(labels.words("."))
    return "integer" if agree and all(is_whole(label) for label in classes) else "string"


def _refuse_continuous(label: str, labels: FirstCells, source: str, typed: bool) -> None:
    """Refuse a label that is a measurement: nearly all are numbers, and a tenth or more of them have fractions."""
    there = labels.there
    numbers = [value for value in there if not isinstance(value, str) or (not typed and value in labels.plain)]
    broken = [value for value in numbers if not is_whole(value)]
    if len(numbers) >= 0.9 * len(there) and len(broken) >= max(1, 0.1 * len(there)):
        shown = ", ".join(str(value) for value in broken[:3])
        raise ColumnError(
            f"{source}: the label {label!r} holds numbers with fractions ({shown}, …), which is a continuous target. "
            "kampong learns classes: cut the target into classes first, name another --label, or declare the classes "
            "with --classes."
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
    total = sum(len(values[name]) for name in numbers)
    zero = sum(values[name].count(zero) for name in numbers for zero in (0, "0", "0.0"))
    return zero > 0.95 * total
