"""The contest: every member predicts each row, all learn it, and the last rows say how much each one counts."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from kampong._core.compute import blocks, floats
from kampong.data.validation import LARGEST_ENTRY, check_finite, raise_not_finite
from kampong.online.columns import cap_large_entries, standardise
from kampong.online.members import MEMBERS, Frequencies, Member, Rows
from kampong.online.pooling import Pool, log_chances

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong._core.compute import Float, Integer
    from kampong.contract import Pauses
    from kampong.files.contents import Contents
    from kampong.online.settings import Settings


class Contest:
    """All that predicts a stream, and how much each of them counts.

    Classes are numbered in the order in which they first came. Rows are taken one after another, so the answers do not
    depend on how the rows are cut into batches.

    Parameters
    ----------
    settings : Settings
        The numbers of the contest.
    effort : float
        Nominal microseconds per row, more where rows are long: members run while their costs fit, the cheapest first.
    seed : int
        For members that draw something.
    labels_in_order : bool
        Whether there is a member that uses the label of the row before. Two pools are kept then: one with it, for rows
        that are predicted and learnt in turns, and one without it, for any other rows.
    given : bool
        Whether there is a member that says what `learn` and `predict` are given.
    widest : int
        How many columns there may come to be: this decides whether rows are wide.
    """

    def __init__(
        self,
        settings: Settings,
        effort: float,
        seed: int,
        labels_in_order: bool,
        *,
        given: bool = False,
        widest: int = 0,
    ) -> None:
        self.settings, self.effort, self.seed, self.labels_in_order = settings, effort, seed, labels_in_order
        self.given, self.widest = given, widest
        self.columns = self.classes = 0
        self.members: list[Member] = []
        self.pools = [Pool(settings, []) for _ in ((True, False) if labels_in_order else (False,))]
        self._places: list[Integer] = []
        self._mean, self._squares, self._weight = np.zeros(0), np.zeros(0), np.zeros(1)

    def selection(self, columns: int, classes: int) -> list[type[Member]]:
        """Return the members that run at a width and a number of classes: the cheapest that fit the effort together.

        Softmax regression always runs, so that columns count. No member remembers more than `most_numbers`.
        To weigh an answer costs the same for all members.
        """
        left, chosen = 1000.0 * self.effort, set()
        if not self._wide(columns):
            left *= max(columns / self.settings.columns, 1.0)
        able = [kind for kind in MEMBERS if kind.wide in (self._wide(columns), None) and self._admits(kind)]
        made = [kind(self.settings, self.seed) for kind in able]
        costs = {one: one.cost(columns, classes) + one.answers * (60.0 + 20.0 * classes) for one in made}
        for member in sorted(made, key=lambda one: (not one.always, costs[one])):
            left -= costs[member]
            few = member.numbers(columns, classes) <= self.settings.most_numbers
            if isinstance(member, Frequencies) or (few and (member.always or left >= 0.0)):
                chosen.add(type(member))
        return [kind for kind in MEMBERS if kind in chosen]

    def _admits(self, kind: type[Member]) -> bool:
        """Tell whether a member can be told what it uses."""
        return (self.labels_in_order or not kind.uses_last_label) and (self.given or not kind.uses_given)

    def _wide(self, columns: int) -> bool:
        """Tell whether members read the entries of rows, rather than standardised columns."""
        return max(columns, self.widest) > self.settings.narrow

    def resize(self, columns: int, classes: int) -> None:
        """Make room for columns and classes; members that have become too expensive leave."""
        if self.members and (columns, classes) == (self.columns, self.classes):
            return
        kinds, known = self.selection(columns, classes), {type(member): member for member in self.members}
        if kinds != list(known):
            self.members = [known.get(kind) or kind(self.settings, self.seed) for kind in kinds]
            self._see()
        for member in self.members:
            member.resize(columns, classes)
        more = np.zeros(columns - self.columns)
        self._mean, self._squares = np.append(self._mean, more), np.append(self._squares, more)
        self.columns, self.classes = columns, classes

    def _see(self) -> None:
        """Give every pool the answers that it sees; the last pool sees none that uses the last label."""
        answers = [(member, place) for member in self.members for place in range(member.answers)]
        self._places = []
        for number, old in enumerate(self.pools):
            last = number == len(self.pools) - 1
            seen = [i for i, (member, _) in enumerate(answers) if not (last and member.uses_last_label)]
            self.pools[number] = old.with_names([f"{answers[i][0].name} {answers[i][1]}" for i in seen])
            self._places.append(np.array(seen, dtype=np.int64))

    def learn(
        self,
        X: Any,
        codes: Integer,
        weights: Float,
        given: Float | None = None,
        losses: Float | None = None,
        pauses: Pauses | None = None,
    ) -> Float:
        """Predict and then learn row after row.

        Parameters
        ----------
        X : array or CSR array of shape (rows, columns)
            The rows, finite.
        codes : array of int of shape (rows,)
            Their classes, numbered in the order in which they first came; any number where the weight is 0.
        weights : array of shape (rows,)
            Their weights; a row of weight 0 is predicted and not learnt.
        given : array of shape (rows, classes), optional
            What somebody else says of the rows: log-probabilities, for all classes that will have come.
        losses : array of shape (rows,), optional
            Where −log p of the class of each row is written, as `predict` would have said it before the row was learnt.
        pauses : Pauses, optional
            Where to pause, so that somebody may call `predict` or take a copy.

        Returns
        -------
        array of shape (rows, classes)
            Log-probabilities before each row was learnt; −∞ for a class that had not come.
        """
        taught = weights > 0
        codes = np.where(taught, codes, 0)
        after = np.maximum.accumulate(np.append(self.classes, np.where(taught, codes + 1, 0)))
        known, after = after[:-1], after[1:]
        answers, entries = np.full((len(codes), int(after[-1])), -np.inf), self._entries(X)
        places = () if pauses is None else pauses.places
        for part in self._parts(X.shape[1], known, after, places):
            self.resize(X.shape[1], int(after[part][-1]))
            rows = self._rows(X, entries, part, codes, known, weights, taught, given)
            found = self._step(self.pools, rows)
            answers[part, : self.classes] = found[0]
            if losses is not None:
                losses[part] = np.maximum(-found[-1][np.arange(len(found[-1])), codes[part]], 0.0)
            if pauses is not None and part.stop in pauses.places:
                pauses.at(part.stop)
        return answers

    def predict(self, X: Any, given: Float | None = None) -> Float:
        """Return log-probabilities of rows, (rows, classes), without the last label; nothing is learnt."""
        n = X.shape[0]
        answers, codes, known = np.empty((n, self.classes)), np.zeros(n, dtype=np.int64), np.full(n, self.classes)
        weights, taught, entries = np.ones(n), np.zeros(n, dtype=bool), self._entries(X)
        for part in self._parts(self.columns, known, known):
            rows = self._rows(X, entries, part, codes, known, weights, taught, given)
            answers[part] = self._step(self.pools[-1:], rows)[0]
        return answers

    def _told(self, given: Float | None, part: slice) -> Float:
        """Return what is given for some rows, at least the logarithm of the least chance; no row where nothing is."""
        if given is None or not self.given:
            return np.zeros((0, self.classes))
        told = np.maximum(given[part, : self.classes], np.log(self.settings.least_chance))
        return np.ascontiguousarray(told)  # of one form, so that loops are compiled once

    def _parts(self, columns: int, known: Integer, after: Integer, pauses: Sequence[int] = ()) -> list[slice]:
        """Cut rows at pauses, where a new class changes the members, and into blocks of some megabytes."""
        cuts, kinds = [0, *pauses], [type(member) for member in self.members]
        for place in np.flatnonzero(after > known):
            before, kinds = kinds, self.selection(columns, int(after[place]))
            if before and kinds != before:
                cuts.append(int(place))
        parts, dense = [], 0 if self._wide(columns) else columns
        cuts = sorted({*cuts, len(known)} - {0})
        for start, stop in zip([0, *cuts[:-1]], cuts, strict=True):
            width = 8 * (int(after[stop - 1]) * ANSWERS + dense)
            parts += [slice(start + part.start, start + part.stop) for part in blocks(stop - start, width)]
        return parts

    def _step(self, pools: list[Pool], rows: Rows) -> list[Float]:
        """Return the answer of each of the pools, which are all or the last ones."""
        codes, known, learn = rows.codes, rows.known, rows.learn
        size, first = sum(member.answers for member in self.members), 0
        scores = np.zeros((size, len(codes), self.classes))
        for member in self.members:
            member.step(rows, scores[first : first + member.answers])
            first += member.answers
        logs, chances = (np.empty((len(codes), self.classes, size)) for _ in range(2))
        floor = self.settings.least_chance
        log_chances(scores, known, floor, float(np.log(floor)), logs, chances)
        seen = zip(pools, self._places[-len(pools) :], strict=True)
        return [one.step(logs, chances, places, codes, known, learn) for one, places in seen]

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Copy all arrays of a pickle, which may be memory that cannot be written."""
        self.__dict__.update(state)
        self._own()

    def __deepcopy__(self, memo: dict[int, Any]) -> Contest:
        """Return a contest with arrays of its own; it shares the settings and what says which answers a pool sees."""
        result = self._sharing()
        result._own()
        return result

    def _sharing(self) -> Contest:
        """Return a contest with members and pools of its own, which share their arrays with those of this one."""
        result = type(self).__new__(type(self))
        result.__dict__.update(self.__dict__)
        result.members, result.pools = [copy.copy(one) for one in self.members], [copy.copy(one) for one in self.pools]
        for member in result.members:
            member.arrays = dict(member.arrays)
        return result

    @property
    def nbytes(self) -> int:
        """The bytes of all that is remembered."""
        kept: list[np.ndarray] = [self._mean, self._squares, self._weight]
        kept += [array for member in self.members for array in member.arrays.values()]
        kept += [array for one in self.pools for array in one.state]
        return sum(array.nbytes for array in kept)

    def _own(self) -> None:
        """Copy all arrays, so that they can be written, and so that loops meet one form of them."""
        for member in self.members:
            member.arrays = {name: array.copy() for name, array in member.arrays.items()}
        self._own_sums()

    def _own_sums(self) -> None:
        """Copy all arrays but those of members."""
        self._places = [places.copy() for places in self._places]
        self._mean, self._squares, self._weight = self._mean.copy(), self._squares.copy(), self._weight.copy()
        for one in self.pools:
            one.own()

    def widened(self, columns: int) -> Contest:
        """Return a contest with more columns and arrays of its own; rows so far had 0 there."""
        result = self._sharing()
        result.resize(columns, self.classes)
        theirs = {id(array) for member in self.members for array in member.arrays.values()}
        for member in result.members:
            member.arrays = {name: a.copy() if id(a) in theirs else a for name, a in member.arrays.items()}
        result._own_sums()
        return result

    def _entries(self, X: Any) -> tuple[Integer, Integer, Float] | None:
        """Return the entries of wide rows as the parts of a CSR matrix, None for narrow rows."""
        if not self._wide(X.shape[1]):
            return None
        entries = sparse.csr_array(floats(X), copy=True)
        entries.eliminate_zeros()
        data = entries.data.astype(np.float64)
        indptr, indices = entries.indptr.astype(np.int64), entries.indices.astype(np.int64)
        cap_large_entries(indptr, data)
        return indptr, indices, data

    def _rows(
        self,
        X: Any,
        entries: tuple[Integer, Integer, Float] | None,
        part: slice,
        codes: Integer,
        known: Integer,
        weights: Float,
        learn: np.ndarray,
        given: Float | None,
    ) -> Rows:
        """Return some of the rows as the members read them."""
        nothing, told = np.zeros(1, dtype=np.int64), self._told(given, part)
        codes, known, weights, learn = codes[part], known[part], weights[part], learn[part]
        if entries is not None:
            indptr, indices, data = entries
            indptr = indptr[part.start : part.stop + 1]
            return Rows(np.zeros((len(codes), 0)), nothing, indptr, indices, data, codes, known, weights, learn, told)
        X = floats(X[part])
        dense = np.array(X if isinstance(X, np.ndarray) else X.toarray(), dtype=np.float64, order="C")
        points, active = np.empty(dense.shape), np.empty(len(codes), dtype=np.int64)
        keep = 2.0 ** (-1.0 / self.settings.half_life)
        standardise(self._mean, self._squares, self._weight, dense, weights, learn, keep, points, active)
        return Rows(points, active, nothing, nothing, np.zeros(0), codes, known, weights, learn, told)

    def _take_members(self, contents: Contents) -> None:
        """Go on with the members of a file: it may have been written when fewer of them fitted the effort."""
        held = [member for member in self.members if member.always or member.name in contents]
        if len(held) < len(self.members):
            self.members = held
            self._see()

    def to_state(self) -> dict[str, Any]:
        """Return everything as named arrays."""
        return {
            "mean": self._mean.copy(),
            "squares": self._squares.copy(),
            "weight": self._weight.copy(),
            **{f"pool{number}": one.to_state() for number, one in enumerate(self.pools)},
            **{member.name: member.to_state() for member in self.members},
        }

    def from_state(self, contents: Contents, columns: int, classes: int) -> None:
        """Take back what `to_state` wrote, each value checked.

        Parameters
        ----------
        contents : Contents
            The state, which is used up.
        columns : int
            The width of the rows.
        classes : int
            How many classes have come.
        """
        self.resize(columns, classes)
        self._take_members(contents)
        for name, low in (("mean", None), ("squares", 0.0), ("weight", 0.0)):
            mine = getattr(self, f"_{name}")
            setattr(self, f"_{name}", contents.array(name, np.float64, mine.shape, low=low).copy())
        for number, one in enumerate(self.pools):
            one.from_state(contents.part(f"pool{number}"))
        for member in self.members:
            member.from_state(contents.part(member.name), columns, classes)
        contents.finish()


ANSWERS = 32
"""About how many answers there are; it only says how many rows are taken together."""


def check_entries(X: Any, name: str) -> None:
    """Refuse NaN, infinity, and entries whose squares overflow; `name` is that of the estimator."""
    values: Any = X if isinstance(X, np.ndarray) else X.data
    if values.size and not max(-float(values.min()), float(values.max())) <= LARGEST_ENTRY:
        check_finite(X, name)
        raise_not_finite(X, name, np.ones(1))


def numbered(slots: Integer, codes: Integer, labels: int) -> Integer:
    """Return the number of each label in the order of their first rows, −1 for one that has not come."""
    if labels == len(slots) and (slots[codes] >= 0).all():
        return slots
    result = np.concatenate([slots, np.full(labels - len(slots), -1, dtype=np.int64)])
    unique, first = np.unique(codes, return_index=True)
    new = unique[result[unique] < 0]
    order = np.argsort(first[result[unique] < 0], kind="stable")
    result[new[order]] = int(result.max(initial=-1)) + 1 + np.arange(len(new))
    return result
