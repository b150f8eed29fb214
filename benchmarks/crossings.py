"""Which files a fit passes through, in the order it enters them, and how often it comes back to one."""

from __future__ import annotations

import sys
from pathlib import Path

from sklearn.datasets import load_digits

import kampong

SOURCE = str(Path(kampong.__file__).parent)


def crossed(work):
    """Return the files of the library in which a function was called during some work, in order of the first call."""
    files = {}

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE) and frame.f_code.co_name != "<module>":
            name = str(Path(frame.f_code.co_filename).relative_to(SOURCE))
            files[name] = files.get(name, 0) + 1

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return files


def main(shrink: int = 1) -> None:
    """Print the files that two fits cross."""
    X, y = load_digits(return_X_y=True)
    n = max(200, len(X) // shrink)
    kernel = kampong.KernelFisherDiscriminant(landmarks=50).partial_fit(X[:n], y[:n])
    work = {
        "FisherDiscriminant(ridge=0.1).fit": lambda: kampong.FisherDiscriminant(ridge=0.1).fit(X[:n], y[:n]),
        "FisherDiscriminant().fit": lambda: kampong.FisherDiscriminant().fit(X[:n], y[:n]),
        "KernelFisherDiscriminant.partial_fit": lambda: kernel.partial_fit(X[:n], y[:n]),
    }
    for name, call in work.items():
        call()  # imports and compilation
        files = crossed(call)
        print(f"{name}: {len(files)} files")
        print("  " + ", ".join(files))


if __name__ == "__main__":
    main()
