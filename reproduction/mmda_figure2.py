"""Figure 2 of Tsang, Kocsor and Kwok 2006: seconds and accuracy of a network against the number of features.

The paper prints curves only, so that there is no figure to divide by; its text says that the time grows with the
number of features, that core sets are often much faster than the others, and that 3K to 5K features are best.
"""

from __future__ import annotations

from reproduction._extractors import compile_first, extract, nearest_mean, neighbour, network
from reproduction._sets import load

SETS = ("optdigits", "satimage", "pendigits")
EXTRACTORS = ("KPCA", "KFD", "core K", "core 2K", "core 3K", "core 4K", "core 5K")


def main(sets: tuple[str, ...] = SETS, extractors: tuple[str, ...] = EXTRACTORS, shrink: int = 1) -> None:
    """Print a line a number of features."""
    compile_first()
    for name in sets:
        data = load(name, shrink)
        if data is None:
            continue
        print(f"\n{name}: seconds and accuracy of a network, 1-NN and the nearest mean against the number of features")
        print(f"  {'':<9} {'features':>8} {'seconds':>8} {'net %':>7} {'1-NN %':>7} {'mean %':>7}")
        for extractor in extractors:
            found = extract(extractor, data)
            if found is None:
                continue
            accuracies = f"{network(found, data):7.2f} {neighbour(found, data):7.2f} {nearest_mean(found, data):7.2f}"
            print(f"  {extractor:<9} {found.train.shape[1]:8d} {found.seconds:8.2f} {accuracies}", flush=True)


if __name__ == "__main__":
    main()
