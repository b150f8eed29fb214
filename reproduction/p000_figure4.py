"""000, figure 4: ionosphere, θ = 0, "since the smallest eigenvalue of this data set is very close to zero"."""

from __future__ import annotations

from reproduction._convergence import convergence, plot
from reproduction._linear import leading, scatters
from reproduction._result import CONDITION, FAILS, HOLDS, Finding, Result, draw, picture
from reproduction._sets import whole

TITLE = "Ionosphere, θ = 0: the inner product with the batch direction"
CLAIM = "The smallest eigenvalue is very close to zero, so θ = 0 will do, and IMMC converges."


def run(quick: bool) -> Result:
    """Return the eigenvalues and the curves."""
    X, y = whole("ionosphere")
    between, within = scatters(X, y)
    values = leading(between - within)[0]
    found = convergence(X, y, theta=0.0, orders=5 if quick else 20)
    ends = {name: float(cosines[-1]) for name, (_, cosines) in found.items()}
    figure, axis = draw()
    if axis is not None:
        plot(axis, found, "ionosphere, median of random orders")
    findings = [
        Finding("largest eigenvalue", values[0], None, 0.001),
        Finding("smallest eigenvalue", values[-1], None, 0.01),
        *(Finding(f"|cos| after 351 rows, {name}", end, None, 0.04) for name, end in ends.items()),
    ]
    immc = ends["IMMC, θ = 0"]
    near_zero = values[-1] > -0.05
    verdict = HOLDS if immc > 0.95 and near_zero else CONDITION if immc > 0.95 else FAILS
    sentence = (
        f"The eigenvalues reach from {values[-1]:.2f} to {values[0]:.3f}: none is needed to be near zero but the "
        f"largest. "
        f"With θ = 0 IMMC ends at |cos| {immc:.3f} after one pass of 351 rows, with θ auto at "
        f"{ends['IMMC, θ auto']:.3f}."
    )
    return Result(verdict, sentence, findings, [] if figure is None else [("Convergence", picture(figure))])
