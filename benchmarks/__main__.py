"""Run benchmarks by name, or all: `python -m benchmarks linear`; sets of one: `python -m benchmarks defaults usps`."""

import importlib
import sys
from pathlib import Path

NAMES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in ("__init__", "__main__"))
NAMES.remove("measure")

if __name__ == "__main__":
    chosen = sys.argv[1:] or NAMES
    if chosen[0] == "defaults" and len(chosen) > 1 and not set(chosen[1:]) <= set(NAMES):
        importlib.import_module("benchmarks.defaults").main(sets=tuple(chosen[1:]))
        sys.exit()
    unknown = sorted(set(chosen) - set(NAMES))
    if unknown:
        sys.exit(f"no benchmark named {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    for name in chosen:
        importlib.import_module(f"benchmarks.{name}").main()
