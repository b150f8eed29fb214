"""What a reader must hold in mind, counted: lines by room, private reaches, tests for a class, tuned numbers, names."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from pathlib import Path

import kampong

SOURCE = Path(kampong.__file__).parent
CLIENTS = ("streaming", "adapters", "report", "cli", "merging")
"""Rooms that use models from outside."""

TABLES = ("columns", "map_blocks", "map_partitions", "to_numpy")
"""Members that tell what kind of table holds a user's rows; asking for them asks nothing of a model."""

SETTINGS = "settings"
DECLARES = ("array", "plain")
"""The functions of files/fields.py that declare what is saved, bounds included."""

LAYOUTS = {
    "adapters/engines": "LETTERS",
    "cli/__init__": "USAGE SOURCE MODEL OUTPUT LEARNT CLOSED",
    "cli/common": "FEW",
    "cli/engine": "SHOWN",
    "cli/learn": "SHOWN",
    "data/validation": "NONE",
    "estimators/notebook": "WIDTH HEIGHT ROOM NAMED",
    "estimators/rounds": "ROUNDS",
    "files/container": "FORMAT START PLAIN SIGNED",
    "files/replace": "RECORD",
    "files/saved_models": "MATRIX",
    "heads/mixture": "MEMBERS TRAINED PRIOR",
    "online/arithmetic": "SHIFT ONE_BITS FRACTION VECTORS",
    "online/classifier": "VERSION",
    "recursions/steps": "SCATTER DISTANCE PRINCIPAL",
    "report/drawing": "LONGEST",
    "report/explanations": "MOST_DIRECTIONS MOST_COLUMNS MOST_CLASSES",
    "report/maps": "INSIDE NAMED",
    "report/predictions": "WRITTEN NAMED",
    "report/snapshot": "FIRST_SPEED",
    "report/verdict": "NAMED",
    "serving/journal": "DIGEST VERSION",
    "serving/metrics": "EDGES",
    "statistics/sampling": "STEP",
    "streaming/apply_model": "LISTED",
    "streaming/formats/arrays": "READERS",
    "streaming/formats/delimited": "UNREADABLE",
    "streaming/formats/libsvm": "POWERS NO_LABEL NO_PAIR NO_INDEX TOO_LOW TOO_HIGH NOT_ASCENDING NO_VALUE",
    "streaming/history/baselines": "NOBODY",
    "streaming/history/delays": "DELAYS",
    "streaming/history/limits": "SHAPES",
    "streaming/history/outcomes": "OTHER",
    "streaming/history/rejected": "LISTED CANDIDATES COLUMNS NAMED",
    "streaming/inspection": "SHOWN",
    "streaming/model_file": "VERSION",
    "streaming/outputs/progress": "COLUMNS",
    "streaming/outputs/targets": "STDIN STDOUT",
    "streaming/run": "COORDINATES",
    "streaming/sources/objects": "UNKNOWN",
}
"""Numbers that lay out an array, a file, a page or a message, and versions of formats."""

LIMITS = {
    "_core/compute": "BLOCK_BYTES GIB",
    "adapters/dask": "PATIENCE",
    "adapters/dask_groups": "SHARED",
    "adapters/federated": "MOST_NUMBER LEAST",
    "criteria": "FADED",
    "data/labels": "SPARE_BYTES SPARE",
    "data/validation": "LONG CHUNK LARGEST LARGEST_ENTRY LEAST_MAGNITUDE LEAST_WEIGHT MOST_WEIGHT",
    "export/linear_steps": "FAR CERTAIN LOW",
    "files/container": "LARGEST_FILE LARGEST_HEADER MOST_AXES BLOCK",
    "files/contents": "LARGEST LARGEST_WIDTH",
    "files/saved_models": "MOST_NUMBERS",
    "files/signing": "SHORTEST LONGEST USUAL",
    "heads/calibration": "BLOCK MANY",
    "heads/hinge": "CERTAIN NUMBERS_BYTES STEPS",
    "kernels/city_block": "POINTS",
    "kernels/functions": "LEAST_UNIT BLOCK_ROWS TILE_BYTES",
    "kernels/landmarks": "DEPENDENT EQUAL STEPS",
    "margin/features": "EXACT_GAP",
    "margin/problem": "CHUNK LEAST",
    "margin/working_set": "SIZE",
    "online/columns": "FLAT",
    "online/contest": "ANSWERS",
    "online/members/neighbours": "BLOCK",
    "predictor": "BLOCK",
    "recursions/recursion": "SAFE LARGEST",
    "recursions/steps": "DEPENDENT LONGEST_PART",
    "report/admission": "MOST PATIENCE PAUSE REQUEST",
    "report/live": "LONGEST_WAIT SHORTEST_TOKEN SHARE",
    "report/snapshot": "MOST_PAIRS",
    "selection/evidence": "LARGEST EMPTY",
    "selection/folds": "SAME",
    "selection/known_rows": "NOTHING",
    "selection/leave_one_out": "NOTHING",
    "selection/several_labels": "FAR",
    "serving/handlers": "SMALL",
    "serving/journal": "REMEMBERED",
    "serving/learning_model": "SHARE PAUSE GROUP WAITING WAITING_BYTES FULL LONGEST_ID",
    "serving/request_rows": "SHOWN",
    "serving/server": "THREADS LOOK PATIENCE DRAINED SWITCH",
    "solvers/gram": "ZERO SPREAD",
    "solvers/resolvent": "MOST_STEPS SMALLEST BASIS_BYTES PRODUCT_BYTES FEWEST",
    "statistics/all_rows": "PIECE",
    "statistics/batch": "MOST LOST_DIGITS",
    "statistics/kernel_scatter": "VALUES_BYTES",
    "statistics/means": "FURTHEST",
    "statistics/removal": "NOTHING BELOW INDEFINITE",
    "statistics/reservoir": "BUDGET ROW_BYTES PENDING_SHARE",
    "statistics/scatter": "WIDEST ALONE ROUNDING SMALL",
    "statistics/units": "CONSTANT",
    "streaming/columns/cells": "MOST _MONTHS _CYCLES",
    "streaming/columns/column_memory": "LEAST ROOM",
    "streaming/columns/records": "LARGEST LONGEST_LABEL SHOWN CHUNK",
    "streaming/columns/schema": "WIDEST_TABLE WIDEST LONGEST_RUN DEEPEST",
    "streaming/columns/text_hashing": "LONGEST",
    "streaming/formats/arrays": "BATCH_BYTES",
    "streaming/formats/delimited": "LOOKED_AT",
    "streaming/formats/format": "FIRST",
    "streaming/formats/sandboxed_reader": "MEMORY LARGEST_BATCH LARGEST_HEADER SECONDS",
    "streaming/formats/tables": "SMALLEST LARGEST GROWTH SAMPLE",
    "streaming/history/delays": "COPIES SAVED_COPIES LONGEST ROOM",
    "streaming/history/drift": "LEVELS ALARMS",
    "streaming/history/limits": "CAPACITY PIECE DIRECTIONS POINTS BATCH_SHARE",
    "streaming/history/notes": "CHOICES KINDS LONGEST",
    "streaming/history/outcomes": "CLASSES LONGEST_NAME PAIRS RECENT",
    "streaming/history/rejected": "ENTRIES KEPT",
    "streaming/late": "LONGEST MOST",
    "streaming/opening": "LONGEST_LINE",
    "streaming/run": "MOST_CLASSES",
    "streaming/sources/blocks": "SMALLEST LARGEST GROWTH MAX_RECORD HOPELESS LARGEST_SIZE PAUSE LATE SAMPLE",
    "streaming/sources/connections": "AWAY",
    "streaming/sources/kafka_topic": "PATIENCE MOST",
    "streaming/sources/learnt": "MOST LONGEST_NAME WITNESS DIGITS CHUNK",
    "streaming/sources/nats_stream": "AT_ONCE PATIENCE FORGOTTEN",
    "streaming/sources/objects": "PATIENCE",
    "streaming/sources/positions": "SMALLEST LARGEST GROWTH MOST_BYTES",
    "streaming/sources/quoted_lines": "MOST_LINES MOST_BYTES",
    "streaming/sources/source": "AHEAD PATIENCE LONGEST_CALL",
}
"""Limits of floating-point numbers, of memory, of time, and of what a file or a stranger may ask for."""

PUBLISHED = {
    "margin/core_set": "SAMPLE",
    "streaming/history/drift": "DELTA CLOCK BUCKETS SHORTEST GRACE",
}
"""Numbers that a cited paper or its authors' program sets; with others it would be another method."""

SPEED = {
    "_core/compute": "PLAIN PARTS",
    "_core/loops": "LOADING",
    "heads/hinge": "TOGETHER HALVED",
    "margin/kernel_rows": "WIDE",
    "merging": "FAN_IN",
    "online/pooling": "TURN",
    "statistics/means": "FEW",
    "statistics/reservoir": "PENDING_BESIDE",
    "statistics/scatter": "DENSE_SHARE",
}
"""Tuned numbers that choose between two ways to one result, but for rounding: they cost time where they are wrong."""


def main(shrink: int = 1) -> None:
    """Print the counts."""
    del shrink
    trees = parsed()
    lines = Counter[str]()
    for path in trees:
        lines[path.parts[0]] += len((SOURCE / path).read_text().splitlines())
    print(f"files {len(trees)}, lines {sum(lines.values())}")
    print("lines by room: " + ", ".join(f"{room} {count}" for room, count in lines.most_common()))
    kinds = statistics_classes(trees)
    found = {
        "private reaches into another object, in rooms that use models": reaches(trees),
        "hasattr on models, in rooms that use models": asks(trees),
        "isinstance on statistics outside statistics/": tests_of_kind(trees, kinds),
        "module-level numbers outside settings.py": numbers(trees),
        "of these neither a layout nor a limit nor published": tuned(trees),
        "of these for speed alone": [one for one in tuned(trees) if one in listed(SPEED)],
        "fields of settings.py": fields(trees),
        "file names used more than once": twice(trees),
    }
    for name, places in found.items():
        print(f"{name}: {len(places)}")
    print("  " + ", ".join(f"{name} ×{count}" for name, count in found["file names used more than once"]))
    for name in ("FisherDiscriminant", "KernelFisherDiscriminant", "CoreVectorClassifier"):
        kind = getattr(kampong, name)
        members = [member for member in dir(kind) if not member.startswith("_")]
        methods = [member for member in members if callable(getattr(kind, member))]
        mine = [one for one in inspect.getmro(kind) if one.__module__.startswith("kampong.")]
        print(f"{name}: {len(inspect.getmro(kind))} classes in its hierarchy, {len(mine)} of them ours, ", end="")
        print(f"{len(members)} public members, {len(methods)} of them methods")
    print(f"public names of kampong: {len(kampong.__all__)}")


def parsed() -> dict[Path, ast.Module]:
    """Return the syntax tree of every file."""
    return {path.relative_to(SOURCE): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def statistics_classes(trees) -> set[str]:
    """Return the names of the classes of statistics."""
    return {
        node.name
        for path, tree in trees.items()
        if path.parts[0] == "statistics"
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


def reaches(trees) -> list[tuple[Path, int]]:
    """Return the places that read a private member of something other than self, also by its name as text."""
    found = []
    for path, tree in trees.items():
        if path.parts[0].removesuffix(".py") not in CLIENTS:
            continue
        own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        own |= {target.attr for node in ast.walk(tree) for target in assigned(node)}
        for node in ast.walk(tree):
            owner, name = read_of(node)
            private = name.startswith("_") and not name.startswith("__")
            if private and owner not in ("self", "cls", "os") and name not in (*own, "_asdict", "_replace", "_fields"):
                found.append((path, node.lineno))
    return found


def read_of(node) -> tuple[str, str]:
    """Return the object and the name of a member that an expression reads, empty where it reads none."""
    if isinstance(node, ast.Attribute):
        return (node.value.id if isinstance(node.value, ast.Name) else ""), node.attr
    asks = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr")
    if asks and isinstance(node.args[1], ast.Constant):
        return ast.unparse(node.args[0]), str(node.args[1].value)
    return "", ""


def assigned(node):
    """Return the members of self that a statement sets."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    flat = [one for target in targets for one in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [
        one
        for one in flat
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id == "self"
    ]


def asks(trees) -> list[tuple[Path, int]]:
    """Return the places that ask a model, or anything but a table of rows, whether it has a member."""
    return [
        (path, node.lineno)
        for path, tree in trees.items()
        if path.parts[0].removesuffix(".py") in CLIENTS
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "hasattr"
        and read_of(node)[0] != "self"
        and read_of(node)[1] not in TABLES
    ]


def tests_of_kind(trees, kinds: set[str]) -> list[tuple[Path, int]]:
    """Return the places outside statistics/ that test for a class of statistics."""
    return [
        (path, node.lineno)
        for path, tree in trees.items()
        if path.parts[0] != "statistics"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("isinstance", "issubclass")
        and any(isinstance(name, ast.Name) and name.id in kinds for name in ast.walk(node.args[1]))
    ]


def numbers(trees) -> list[tuple[Path, str]]:
    """Return the names in capitals that are set to numbers at the level of a module."""
    found = []
    for path, tree in trees.items():
        if path.stem == SETTINGS:
            continue
        for node in tree.body:
            if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None or declares(node.value):
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
            value = any(
                isinstance(one, ast.Constant) and isinstance(one.value, int | float) and not isinstance(one.value, bool)
                for one in ast.walk(node.value)
            )
            if value:
                found += [(path, name) for name in names if name.isupper()]
    return found


def declares(value) -> bool:
    """Tell whether a value is a list of fields that are saved."""
    return isinstance(value, ast.Tuple) and all(
        isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id in DECLARES for one in value.elts
    )


def tuned(trees) -> list[tuple[Path, str]]:
    """Return the numbers that are neither a layout nor a limit: those that want a rule, or a place in settings.py."""
    exempt = listed(LAYOUTS, LIMITS, PUBLISHED)
    return [one for one in numbers(trees) if one not in exempt]


def listed(*groups: dict[str, str]) -> set[tuple[Path, str]]:
    """Return the numbers that some of the groups above name."""
    return {(Path(f"{file}.py"), name) for group in groups for file, names in group.items() for name in names.split()}


def fields(trees) -> list[tuple[Path, int]]:
    """Return the fields of the classes in settings.py."""
    return [
        (path, node.lineno)
        for path, tree in trees.items()
        if path.stem == SETTINGS
        for kind in tree.body
        if isinstance(kind, ast.ClassDef)
        for node in kind.body
        if isinstance(node, ast.AnnAssign)
    ]


def twice(trees) -> list[tuple[str, int]]:
    """Return the names of files that stand in several rooms."""
    stems = Counter(path.stem for path in trees if path.stem != "__init__")
    return [(name, count) for name, count in stems.most_common() if count > 1]


if __name__ == "__main__":
    main()
