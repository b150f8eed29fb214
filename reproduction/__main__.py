"""Run reproductions by name, or all of them: `python -m reproduction mmda_tables --sets optdigits pendigits`."""

import argparse
import importlib
from pathlib import Path

NAMES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m reproduction", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"which to run, all by default: {', '.join(NAMES)}")
    parser.add_argument("--sets", nargs="*", help="which data sets; by default those that a script names")
    parser.add_argument("--extractors", nargs="*", help="which rows of the tables, such as KFD or 'core 3K'")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(NAMES))
    if unknown:
        parser.error(f"no reproduction named {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    chosen = {
        key: tuple(values)
        for key, values in (("sets", arguments.sets), ("extractors", arguments.extractors))
        if values is not None
    }
    for name in arguments.names or NAMES:
        importlib.import_module(f"reproduction.{name}").main(**chosen)
