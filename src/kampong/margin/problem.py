"""One problem while it is solved: its core set, the kernel block of the core set, and the inner solve."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from kampong.margin.hull import Gap, Hull
from kampong.margin.step_rules import pairwise

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Integer
    from kampong.margin.kernel_rows import KernelRows

SMALL = 2048
"""Up to this many patterns, the core set is all patterns from the start."""
CHUNK = 1000
"""Steps between two checks: for an interrupt, the step limit, and the best hyperplane so far."""
LEAST = 1024
"""A kernel block holds this many patterns at least, whatever the budget."""
UNKNOWN = Gap(math.nan, math.nan)


class Stopped(Exception):
    """Raised if a watcher asks to end a solve."""


class Watcher(Protocol):
    """Is told of every round of a solve."""

    def begin(self) -> None:
        """Note that a round begins."""

    def end(self, so_far: Callable[[], list[Any]]) -> bool:
        """Note that a round has ended, with a function that returns its result; return whether to stop."""


@dataclass(frozen=True)
class Options:
    """How to solve.

    Attributes
    ----------
    tol : float
        The relative duality gap to reach, or the ε of the ball.
    criterion : {"gap", "meb"}
        Stop at the duality gap, or when all patterns are in the ball of (1 + ε) times the radius (Tsang et al. 2006).
    selection : {"furthest", "sample"}
        Look at all patterns for violators, or at random samples of 59 for each pattern added.
    max_steps : int
        The most pairwise steps for each problem.
    block_bytes : int
        Kernel blocks of core sets are kept between rounds as far as they fit here. A core set whose block would take
        more than this is solved in parts.
    verbose : int
        Print a line a round.
    watcher : Watcher or None
        Told of every round; it may look at the solutions so far, and stop the solve.
    """

    tol: float
    criterion: str = "gap"
    selection: str = "furthest"
    max_steps: int = 1_000_000
    block_bytes: int = 2**30
    verbose: int = 0
    watcher: Watcher | None = None


def starts_whole(n: int, options: Options) -> bool:
    """Tell whether the core set is all patterns from the start."""
    return n <= SMALL and options.criterion == "gap" and options.selection == "furthest"


@dataclass(eq=False)
class Problem:
    """One problem during its solve: the core set, its weights, margins and kernel block."""

    hull: Hull
    options: Options
    status: str = ""
    steps: int = 0
    inner_tol: float = 0.0
    floor: float = 0.0
    gap: Gap = UNKNOWN
    core: Integer = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    alpha: Float = field(default_factory=lambda: np.zeros(0))
    margins: Float = field(default_factory=lambda: np.zeros(0))
    gradient: Float | None = None
    candidates: tuple[Integer, Float] | None = None
    looked_from: Float = field(default_factory=lambda: np.zeros(0))
    block: Float | None = None
    best: tuple[float, Integer, Float] | None = None
    wanted: tuple[Integer, Float] = field(default_factory=lambda: (np.zeros(0, dtype=np.int64), np.zeros(0)))
    rounds: int = 0
    keep_block: bool = True
    part: Integer | None = None
    moved: int = 0
    crowded: bool = False
    last: Integer = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def enter(self, hull: Hull, alpha: Float, rows: KernelRows, rng: np.random.RandomState) -> None:
        """Begin on a set of patterns, starting from α where it is positive."""
        n = len(hull.signs)
        self.hull, self.block, self.gradient, self.best, self.rounds = hull, None, None, None, 0
        self.margins = self.looked_from = np.zeros(0)
        self.part, self.last = None, np.zeros(0, dtype=np.int64)
        self.status = self.status if self.hopeless else ""
        self.inner_tol = 1e-3 if self.options.criterion == "meb" else 0.5 * self.options.tol
        # any ridge keeps ‖v‖² positive; without one ‖v‖² may reach zero, up to rounding
        relative = 0.0 if not hull.hard else 1e-12 if rows.dtype == np.float64 else 1e-8
        self.floor = relative and relative * float(np.abs(hull.squared_norms(rows.diagonal)).max())
        if alpha.any():
            self.core = np.flatnonzero(alpha)
        else:
            alpha = np.zeros(n)
            self.core = _first_patterns(hull, rng, 1 if self.options.criterion == "meb" else 32)
            # in proportion to the caps, so that none is exceeded
            shares = hull.caps[self.core] if np.ndim(hull.cap) else np.ones(len(self.core))
            weights = hull.group_sum * shares
            groups = hull.groups[self.core]
            for group in np.unique(groups):
                weights[groups == group] /= shares[groups == group].sum()
            alpha[self.core] = weights
        if starts_whole(n, self.options):
            self.core = np.arange(n)
        self.alpha = alpha[self.core]

    @property
    def hopeless(self) -> bool:
        """Tell whether more patterns cannot change the outcome."""
        return self.status in ("inseparable", "indefinite", "steps")

    @property
    def support(self) -> Integer:
        """Return the patterns that have weight."""
        return self.core[self.alpha > 0]

    def interrupt(self, rows: KernelRows) -> None:
        """Keep the weights, and the margins of the core set as far as they are up to date."""
        self.status, self.gradient = "interrupted", np.full(rows.n_samples, math.inf)
        if len(self.margins) == len(self.core):
            self.gradient[self.core] = self.margins
            self.gap = Gap(float(self.alpha @ self.margins), math.nan)
        else:
            self.gap = UNKNOWN

    def violators(self, gradient: Float, where: Integer, batch: int) -> Integer:
        """Return positions in `where` of patterns outside the core set that need weight, the worst first."""
        levels = np.full(2, self.gap.objective)
        if self.options.criterion == "meb":
            levels[:] = math.inf
        elif self.hull.capped or self.hull.split:
            groups = self.hull.groups[self.core]
            for group in np.unique(groups):
                levels[group] = self.margins[(groups == group) & (self.alpha > 0)].max()
        limit = levels[self.hull.groups[where]] - 0.5 * self.options.tol * self.gap.objective
        outside = np.ones(len(self.hull.signs), dtype=bool)
        outside[self.core] = False
        found = np.flatnonzero((gradient < limit) & outside[where])
        order = np.argsort(gradient[found], kind="stable")
        return found[order[:batch]]

    def batch(self) -> int:
        """Return how many patterns to add at most."""
        if self.options.criterion == "meb":
            return 1
        if self.options.selection == "sample":
            return max(1, len(self.core) // 16)
        # a subset's support vectors are a third or so of those of four times the patterns
        return max(64, len(self.core) * (2 if self.rounds == 0 else 1))

    def reached(self, gradient: Float | None, diagonal: Float) -> bool:
        """Tell whether the criterion holds at these patterns."""
        if self.options.criterion == "gap":
            return self.gap.relative <= self.options.tol
        assert gradient is not None
        objective, least = self.gap.objective, float(gradient.min())
        constant = float(self.hull.squared_norms(diagonal)[0])
        radius = (1 + self.options.tol) ** 2 * (constant - objective)
        return constant + objective - 2 * least <= radius

    def want(self, added: Integer, margins: Float) -> None:
        """Note patterns to add, and their margins."""
        self.wanted = (added, margins)
        self.rounds += 1

    def extend(self, rows: KernelRows) -> None:
        """Drop patterns that no longer matter, add those noted, and update the kernel block."""
        added, new_margins = self.wanted
        core, alpha, margins, block = self.core, self.alpha, self.margins, self.block
        kept = (alpha > 0) | (margins < self.gap.objective)
        partial = self.options.criterion == "gap" and len(kept) < rows.n_samples
        if partial and np.count_nonzero(~kept) > len(kept) // 4:
            core, alpha, margins = core[kept], alpha[kept], margins[kept]
            block = None if block is None else block[np.ix_(kept, kept)]
        old, core = len(core), np.concatenate([core, added])
        alpha, margins = np.concatenate([alpha, np.zeros(len(added))]), np.concatenate([margins, new_margins])
        part = self._choose_part(core, alpha, margins, self.block_size(rows))
        if part is not None:
            block = self._values(rows, core[part], core[part])
        elif block is None:
            block = self._values(rows, core, core)
        elif len(added):
            smaller, block = block, np.empty((len(core), len(core)), dtype=rows.dtype)
            block[:old, :old] = smaller
            block[old:] = self._values(rows, added, core)
            block[:old, old:] = block[old:, :old].T
        # together, so that an interrupt finds them of one length
        self.core, self.alpha, self.margins, self.block, self.part = core, alpha, margins, block, part

    def _values(self, rows: KernelRows, left: Integer, right: Integer) -> Float:
        """Return kernel values, without the directions that the hull leaves out."""
        return self.hull.deflate(rows.block(left, right), left, right)

    def block_size(self, rows: KernelRows) -> int:
        """Return how many patterns a kernel block may hold."""
        return max(LEAST, math.isqrt(self.options.block_bytes // rows.dtype.itemsize))

    def _choose_part(self, core: Integer, alpha: Float, margins: Float, size: int) -> Integer | None:
        """Return which patterns of a core set to solve on, or None for all.

        Half are the patterns that should gain or lose the most weight. The pair that violates most is among them, so a
        solve on the part always makes progress. The others are random.
        """
        if len(core) <= size:
            return None
        groups, order, chosen = self.hull.groups[core], np.argsort(margins, kind="stable"), []
        room = alpha < self.hull.caps[core]
        rng = np.random.RandomState(self.rounds)
        share = size // (8 if self.hull.split else 4)
        for group in np.unique(groups):
            members = order[groups[order] == group]
            low, high = members[room[members]][:share], members[alpha[members] > 0][-share:]
            # extreme patterns alone would make the solve swing for long; the random ones damp that
            others = rng.permutation(np.setdiff1d(members, np.concatenate([low, high])))
            chosen += [low, high, others[: 2 * share]]
        return np.unique(np.concatenate(chosen))

    def work(self, rows: KernelRows) -> None:
        """Extend the core set and solve on it."""
        self.extend(rows)
        self.improve(rows)
        if not self.keep_block or self.part is not None:
            self.block = None

    def improve(self, rows: KernelRows) -> None:
        """Solve on the core set, or on the part of it that is chosen, from where it stands."""
        assert self.block is not None
        part: Integer | slice = slice(None) if self.part is None else self.part
        hull = self.hull.restrict(self.core[part])
        diagonal = hull.diagonal(rows.diagonal[self.core[part]])
        alpha, margins = self.alpha[part], self.margins[part]
        rest = 0.0 if self.part is None else float(self.alpha @ self.margins - alpha @ margins)
        if self.part is not None:
            # the steps below update only the margins of the part; the next look updates all
            self.margins = np.zeros(0)
        groups, chunk, self.moved = hull.groups, 8 if hull.hard else CHUNK, 0
        while self.steps < self.options.max_steps:
            wanted = min(chunk, self.options.max_steps - self.steps)
            taken, _, objective = pairwise(
                self.block,
                diagonal,
                hull.signs,
                hull.offset,
                hull.ridges,
                groups,
                2 if hull.split else 1,
                hull.caps,
                alpha,
                margins,
                self.inner_tol,
                self.floor,
                wanted,
                rest,
            )
            self.alpha[part] = alpha
            rest = 0.0 if self.part is None else objective - float(alpha @ margins)
            self.steps, self.moved = self.steps + taken, self.moved + taken
            if objective <= self.floor:
                self.status = "inseparable" if hull.hard and objective > -self.floor else "indefinite"
                return
            if hull.hard and len(alpha) == rows.n_samples:
                self.remember(hull, self.alpha, self.margins)
            if taken < wanted:
                return
            chunk = min(2 * chunk, CHUNK)
        self.status = "steps"

    def remember(self, hull: Hull, alpha: Float, margins: Float) -> None:
        """Keep the point whose hyperplane separates most patterns, in case none separates all."""
        scores = margins - hull.balance(alpha, margins)
        quality = min(float(np.mean(scores[hull.signs == sign] > 0)) for sign in np.unique(hull.signs))
        if self.best is None or quality > self.best[0]:
            self.best = (quality, self.core.copy(), self.alpha.copy())

    def fall_back(self) -> bool:
        """Go back to the best point if the search has ended without a separating one."""
        ended = self.status in ("inseparable", "indefinite", "steps", "stalled")
        if not (ended and self.best is not None and not self.gap.relative < 1):
            return False
        _, self.core, self.alpha = self.best
        self.best, self.block = None, None
        return True


def _first_patterns(hull: Hull, rng: np.random.RandomState, few: int) -> Integer:
    """Return the patterns to start with: enough of them to be feasible under the cap."""
    if hull.capped:
        least = float(np.min(hull.cap))
        count, groups = math.ceil(hull.group_sum / least - 1e-9), hull.groups
    else:
        count, groups = few, (hull.signs > 0).astype(np.int8)
    members = [rng.permutation(np.flatnonzero(groups == group))[:count] for group in np.unique(groups)]
    return np.sort(np.concatenate(members))
