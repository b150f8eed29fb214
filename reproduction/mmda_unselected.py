"""The same extractors and classifiers on sets that the paper does not have, chosen before their test part was seen."""

from __future__ import annotations

from reproduction._extractors import compile_first, extract, neighbour, network, tree
from reproduction._sets import load

SETS = ("isolet", "covertype")
EXTRACTORS = ("none", "KPCA", "KFD", "exact K", "core K", "core 3K")


def main(sets: tuple[str, ...] = SETS, extractors: tuple[str, ...] = EXTRACTORS, shrink: int = 1) -> None:
    """Print one table a set."""
    print("\nsets that were not selected by their results: C = 1, kernel width by the mean squared distance")
    compile_first()
    for name in sets:
        data = load(name, shrink)
        if data is None:
            continue
        print(f"\n{name}: {len(data.X)} rows to train, {len(data.X_test)} to test, ", end="")
        print(f"{data.X.shape[1]} columns, {data.n_classes} classes")
        columns = ("features", "seconds", "values", "tree", "tree %", "1-NN %", "net %")
        print(f"  {'':<9}" + "".join(f" {column:>8}" for column in columns))
        for extractor in extractors:
            found = extract(extractor, data)
            if found is None:
                continue
            size, accuracy = tree(found, data)
            values = "" if found.values is None else f"{found.values:.0f}"
            print(
                f"  {extractor:<9} {found.train.shape[1]:8d} {found.seconds:8.2f} {values:>8} {size:8d} "
                f"{accuracy:8.2f} {neighbour(found, data):8.2f} {network(found, data):8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
