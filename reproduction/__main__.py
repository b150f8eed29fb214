"""Run experiments of the papers: `python -m reproduction 001 --figure 4`, or tables of MMDA: `… mmda_tables`."""

import argparse
import importlib
import sys
from pathlib import Path

from reproduction._run import PAPERS, run

TABLES = sorted(path.stem for path in Path(__file__).parent.glob("mmda_*.py"))

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m reproduction", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"{', '.join(PAPERS)}, all, or {', '.join(TABLES)}")
    parser.add_argument("--figure", type=int, help="one figure of a paper")
    parser.add_argument("--table", type=int, help="one table of a paper")
    parser.add_argument("--out", type=Path, help="a folder for the page and its Markdown twin")
    parser.add_argument("--quick", action="store_true", help="fewer rows and repeats")
    parser.add_argument("--write-expected", action="store_true", help="accept the figures of this run")
    parser.add_argument("--sets", nargs="*", help="for mmda_*: which data sets; by default those that a script names")
    parser.add_argument(
        "--extractors", nargs="*", help="for mmda_*: which rows of the tables, such as KFD or 'core 3K'"
    )
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - {*TABLES, *PAPERS, "all"})
    if unknown:
        parser.error(f"no reproduction named {', '.join(unknown)}; there are: {', '.join((*PAPERS, 'all', *TABLES))}")
    values = {"sets": arguments.sets, "extractors": arguments.extractors}
    chosen = {key: tuple(value) for key, value in values.items() if value is not None}
    code = 0
    for name in arguments.names or ["all"]:
        if name in TABLES:
            importlib.import_module(f"reproduction.{name}").main(**chosen)
            continue
        options = {key: getattr(arguments, key) for key in ("figure", "table", "out", "quick", "write_expected")}
        code = max(code, run(name, **options))
    sys.exit(code)
