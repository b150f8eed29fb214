"""Run benchmarks by name, or all of them: `python -m benchmarks linear`."""

import importlib
import sys
from pathlib import Path

NAMES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in ("__init__", "__main__"))
NAMES.remove("measure")

if __name__ == "__main__":
    chosen = sys.argv[1:] or NAMES
    unknown = sorted(set(chosen) - set(NAMES))
    if unknown:
        sys.exit(f"no benchmark named {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    for name in chosen:
        importlib.import_module(f"benchmarks.{name}").main()
