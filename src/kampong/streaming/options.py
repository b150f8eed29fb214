"""The options of the command line as an estimator and a layout; values that are not valid are refused."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

from kampong.streaming.errors import UsageError

if TYPE_CHECKING:
    from kampong.streaming.schema import Layout

METHODS = ("fisher", "margin", "interclass", "kampong")


def estimator(method: str, components: str, epsilon: str, ridge: str, half_life: str, seed: int) -> Any:
    """Return the estimator that the options describe."""
    import kampong

    method = method or ("margin" if epsilon else "fisher")
    if method not in METHODS:
        raise UsageError(f"--method {method!r} is unknown. Use fisher, margin, interclass or kampong.")
    if epsilon and method in ("fisher", "interclass"):
        raise UsageError(f"--epsilon belongs to --method margin or kampong; --method is {method}.")
    if ridge != "auto" and method != "fisher":
        raise UsageError(f"--ridge belongs to --method fisher; --method is {method}.")
    common: dict[str, Any] = {"half_life": _half_life(half_life, method), "random_state": seed}
    wanted = _number("--components", components, whole=True)
    if method == "fisher":
        wanted = None if wanted == "auto" else wanted
        return kampong.FisherDiscriminant(wanted, ridge=_number("--ridge", ridge), **common)
    if method == "interclass":
        return kampong.InterClassScatter(wanted, **common)
    value = _number("--epsilon", epsilon or "1")
    if method == "margin":
        return kampong.MarginSubspace(wanted, epsilon=value, **common)
    return kampong.SupervisedKampongMeasure(wanted, a="auto" if value == "auto" else 2.0 * value + 1.0, **common)


def _half_life(value: str, method: str) -> float | str | None:
    """Return the half-life that an option says: by default "auto" where the method can choose it, else none."""
    if value in ("", "auto"):
        if value and method != "fisher":
            raise UsageError(
                f"--half-life auto belongs to --method fisher; --method is {method}. Give a number of rows."
            )
        return "auto" if method == "fisher" else None
    if value in ("none", "never"):
        return None
    try:
        rows = float(value)
        if 0 < rows < float("inf"):
            return rows
    except ValueError:
        pass
    raise UsageError(f"--half-life must be a number of rows > 0, auto or none; got {value!r}.")


def _number(option: str, value: str, *, whole: bool = False) -> Any:
    if value == "auto":
        return "auto"
    try:
        number = int(value) if whole else float(value)
        if number >= whole and number != float("inf"):
            return number
    except ValueError:
        pass
    kind = "a whole number ≥ 1" if whole else "a number ≥ 0"
    raise UsageError(f"{option} must be {kind}, or auto; got {value!r}.")


def listed(values: list[str] | None) -> list[str]:
    """Return the parts of values such as a,b,c."""
    return [part.strip() for value in values or () for part in value.split(",") if part.strip()]


def names(values: list[str] | None) -> tuple[str, ...]:
    """Return the columns that options such as a,b name; quotes keep a comma in a name."""
    rows = csv.reader(values or (), skipinitialspace=True)
    return tuple(dict.fromkeys(part.strip() for row in rows for part in row if part.strip()))


def delimiter(value: str) -> str:
    """Return the character that separates columns; "" stands for the default of the format."""
    value = {"\\t": "\t", "tab": "\t", "comma": ","}.get(value, value)
    if len(value) > 1:
        raise UsageError(f"--delimiter must be one character, got {value!r}.")
    return value


def checked(layout: Layout) -> Layout:
    """Return the layout, after its values are checked."""
    from kampong.streaming.schema import LONGEST_RUN, POLICIES

    for option, value, low in (
        ("--hash-width", layout.hash_width, 0),
        ("--ngrams", layout.ngrams, 1),
        ("--max-features", layout.max_features, 0),
        ("--max-record-bytes", layout.max_record_bytes, 1),
    ):
        if value < low:
            raise UsageError(f"{option} must be at least {low}, got {value}.")
    if layout.ngrams > LONGEST_RUN:
        raise UsageError(f"--ngrams must be at most {LONGEST_RUN}, got {layout.ngrams}.")
    if layout.missing not in POLICIES:
        raise UsageError(f"--missing {layout.missing!r} is unknown. Use {', '.join(POLICIES)}.")
    return layout
