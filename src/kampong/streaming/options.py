"""The options of the command line as an estimator and a layout; values that are not valid are refused."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

from kampong.streaming.errors import UsageError

if TYPE_CHECKING:
    from kampong.streaming.columns.schema import Layout

METHODS = ("fisher", "margin", "mmc", "skm", "interclass", "recursion")
KERNELS = ("rbf", "laplacian", "linear", "polynomial", "sigmoid")
OWNERS = {
    "ridge": ("fisher",),
    "head": ("fisher", "margin", "mmc", "skm", "interclass"),
    "epsilon": ("margin", "skm", "recursion"),
    "a": ("skm",),
    "kernel": ("fisher",),
    "effort": ("fisher",),
}
"""The methods that an option belongs to."""


def estimator(
    method: str = "",
    components: str = "auto",
    epsilon: str = "",
    ridge: str = "auto",
    half_life: str = "",
    seed: int = 0,
    *,
    head: str = "auto",
    kernel: str = "",
    a: str = "",
    effort: float | None = None,
) -> Any:
    """Return the estimator that the options describe.

    Parameters
    ----------
    method : str
        One of `METHODS`, or "kampong" for "skm"; "" follows from the other options.
    components, epsilon, ridge, half_life : str
        The options of the same names, as they are typed; "" or "auto" where they are left out.
    seed : int
        The seed of samples and landmarks.
    head, kernel, a : str
        Further options, as they are typed.
    effort : float, optional
        Nominal microseconds per row for what follows drift.

    Returns
    -------
    estimator
        It has learnt nothing yet.
    """
    import kampong

    method = {"": "skm" if a else "margin" if epsilon else "fisher", "kampong": "skm"}.get(method, method)
    given = {"ridge": ridge != "auto", "head": head != "auto", "epsilon": bool(epsilon), "a": bool(a)}
    _check_method(method, {**given, "kernel": bool(kernel), "effort": effort is not None})
    wanted = _number("--components", components, whole=True)
    if effort is not None and (kernel or half_life not in ("", "auto")):
        raise UsageError("--effort belongs to --half-life auto, which follows drift. Leave one of them out.")
    if effort is not None and not 0 <= effort < 1e9:
        raise UsageError(f"--effort must be a number of microseconds ≥ 0; got {effort:g}.")
    if kernel:
        return _kernel(kernel, wanted, ridge, head, half_life, seed)
    if method == "recursion":
        if half_life not in ("", "none", "never"):
            raise UsageError(
                "--half-life does not belong to --method recursion, which follows the newest rows by itself."
            )
        return kampong.MarginRecursion(2 if wanted == "auto" else wanted, epsilon=_number("--epsilon", epsilon or "1"))
    common: dict[str, Any] = {"half_life": _half_life(half_life, method), "random_state": seed, "head": _head(head)}
    if method == "fisher":
        wanted = None if wanted == "auto" else wanted
        value = "rule" if ridge == "rule" else _number("--ridge", ridge, words="auto or rule")
        if effort is not None:
            common["effort"] = effort
        return kampong.FisherDiscriminant(wanted, ridge=value, **common)
    if method == "interclass":
        return kampong.InterClassScatter(wanted, **common)
    if method == "mmc":
        return kampong.MaximumMarginCriterion(wanted, **common)
    value = _number("--epsilon", epsilon or "1")
    if method == "margin":
        return kampong.MarginSubspace(wanted, epsilon=value, **common)
    return kampong.SupervisedKampongMeasure(wanted, a=_a(a) if a else _twice(value), **common)


def _check_method(method: str, given: dict[str, bool]) -> None:
    """Refuse an unknown method, and options that belong to others."""
    if method not in METHODS:
        raise UsageError(f"--method {method!r} is unknown. Use {', '.join(METHODS[:-1])} or {METHODS[-1]}.")
    for option, there in given.items():
        if there and method not in OWNERS[option]:
            raise UsageError(f"--{option} belongs to --method {' or '.join(OWNERS[option])}; --method is {method}.")
    if given["a"] and given["epsilon"]:
        raise UsageError("--a and --epsilon say the same thing in two ways: ε = (a − 1)/2. Give one of them.")


def _a(text: str) -> Any:
    value = _number("--a", text)
    if value != "auto" and value < 1:
        raise UsageError(f"--a must be a number ≥ 1, or auto; got {text!r}.")
    return value


def _twice(epsilon: Any) -> Any:
    """Return the a of an ε."""
    return "auto" if epsilon == "auto" else 2.0 * epsilon + 1.0


def _kernel(kernel: str, wanted: Any, ridge: str, head: str, half_life: str, seed: int) -> Any:
    """Return the estimator for curved classes; its landmarks are the rows that come first."""
    import kampong

    if kernel not in KERNELS:
        raise UsageError(f"--kernel {kernel!r} is unknown. Use {', '.join(KERNELS[:-1])} or {KERNELS[-1]}.")
    if half_life not in ("", "none", "never"):
        raise UsageError("--half-life does not go with --kernel, which forgets nothing. Leave one of them out.")
    wanted = None if wanted == "auto" else wanted
    value = _number("--ridge", ridge)
    return kampong.KernelFisherDiscriminant(wanted, kernel=kernel, ridge=value, head=_head(head), random_state=seed)


def _head(name: str) -> str:
    """Return the name of a head that is known."""
    from kampong.heads import HEADS

    if name not in ("auto", "best") and name not in HEADS:
        raise UsageError(f"--head {name!r} is unknown. Use auto, best, {', '.join(sorted(HEADS))}.")
    return name


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


def _number(option: str, value: str, *, whole: bool = False, words: str = "auto") -> Any:
    if value == "auto":
        return "auto"
    try:
        number = int(value) if whole else float(value)
        if number >= whole and number != float("inf"):
            return number
    except ValueError:
        pass
    kind = "a whole number ≥ 1" if whole else "a number ≥ 0"
    raise UsageError(f"{option} must be {kind}, or {words}; got {value!r}.")


def listed(values: list[str] | None) -> list[str]:
    """Return the parts of values such as a,b,c."""
    return [part.strip() for value in values or () for part in value.split(",") if part.strip()]


def names(values: list[str] | None) -> tuple[str, ...]:
    """Return the columns that options such as a,b name; quotes keep a comma in a name."""
    rows = csv.reader(values or (), skipinitialspace=True)
    return tuple(dict.fromkeys(part.strip() for row in rows for part in row if part.strip()))


def kinds(values: list[str] | None) -> dict[str, tuple[str, ...]]:
    """Return the columns that options such as date:when,drop:id name, by what they are."""
    from kampong.streaming.columns.schema import KINDS

    found: dict[str, tuple[str, ...]] = {}
    for part in names(values):
        kind, colon, column = part.partition(":")
        if kind not in KINDS or not colon or not column.strip():
            raise UsageError(
                f"--as {part!r} must be a kind, a colon and a column, such as date:when. "
                f"Kinds are {', '.join(KINDS[:-1])} and {KINDS[-1]}."
            )
        found[kind] = (*found.get(kind, ()), column.strip())
    return found


def delimiter(value: str) -> str:
    """Return the character that separates columns; "" stands for the default of the format."""
    value = {"\\t": "\t", "tab": "\t", "comma": ","}.get(value, value)
    if len(value) > 1:
        raise UsageError(f"--delimiter must be one character, got {value!r}.")
    return value


def checked(layout: Layout) -> Layout:
    """Return the layout, after its values are checked."""
    from kampong.streaming.columns.schema import DEEPEST, KINDS, LONGEST_RUN, POLICIES

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
    if not 0 <= layout.flatten <= DEEPEST:
        raise UsageError(f"--flatten must be from 0 to {DEEPEST}, got {layout.flatten}.")
    if layout.decimal not in ("", ".", ","):
        raise UsageError(f"--decimal must be . or a comma; got {layout.decimal!r}.")
    if layout.date_order not in ("", "dmy", "mdy"):
        raise UsageError(f"--date-order must be dmy or mdy; got {layout.date_order!r}.")
    several = [name for name in layout.named if sum(name in getattr(layout, kind) for kind in KINDS) > 1]
    if several:
        raise UsageError(f"The column {several[0]!r} is said to be two things. Say one of {', '.join(KINDS)}.")
    if layout.missing not in POLICIES:
        raise UsageError(f"--missing {layout.missing!r} is unknown. Use {', '.join(POLICIES)}.")
    return layout
