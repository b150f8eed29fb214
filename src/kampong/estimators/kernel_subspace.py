"""What the kernel estimators share: place landmarks with the first rows, then learn as the linear estimators do."""

from __future__ import annotations

import copy
import numbers
import warnings
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_is_fitted

from kampong._core.callbacks import FitWatcher
from kampong._core.compute import block_rows, float_type
from kampong._core.locks import one_at_a_time
from kampong.build import BEST, TRAINED, TRIED, WEIGHED, Recipe, RowsInMemory, make_predictor
from kampong.criteria import FisherCriterion, landmark_ridge
from kampong.data.labels import LabelIndex, check_labels, is_indicator
from kampong.data.validation import (
    admit,
    check_choice,
    check_finite,
    check_number,
    check_seed,
    check_switches,
    check_weights,
)
from kampong.estimators.parameters import check_priors, check_scale, scale_reason
from kampong.estimators.subspace import DiscriminantSubspace
from kampong.estimators.unlearning import LANDMARKS
from kampong.heads import HEADS
from kampong.kernels.fourier import FourierBasis
from kampong.kernels.functions import Kernel, columns_of, make_kernel
from kampong.kernels.landmarks import (
    LandmarkBasis,
    bytes_needed,
    content_numbers,
    draw_rows,
    most_landmarks,
    move_to_centres,
)
from kampong.predictor import Predictor
from kampong.selection.choose import Choice
from kampong.selection.kernel_width import FACTORS, KEPT, choose_kernel
from kampong.solvers import classes_seen
from kampong.statistics.kernel_scatter import VALUES_BYTES, KernelScatter
from kampong.statistics.means import ClassMeans
from kampong.statistics.reservoir import BUDGET, ROW_BYTES, ClassReservoir
from kampong.statistics.sampling import row_keys
from kampong.statistics.scatter import ClassScatter

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Integer, Rows
    from kampong.files import Contents
    from kampong.heads import Inside
    from kampong.selection.evidence import Evidence
    from kampong.statistics.kernel_scatter import Basis

MOST_BY_DEFAULT = 2000
"""The most landmarks of "auto": with more, the n·m² of the scatter takes most of the time."""

SCOUTS, MOST_SCOUTS = 4, 500
"""A first model on a quarter of the landmarks, and no more than this, finds the rows that are hard to tell apart."""

EASY_SHARE = 0.3
"""The smallest chance of a row to become a landmark, in units of the mean chance."""


@dataclass(frozen=True)
class KernelPredictor(Predictor):
    """A predictor whose directions lie in the span of landmarks: it uses the kernel values of rows.

    Attributes
    ----------
    coefficients : array of shape (p, m)
        The directions as combinations of landmarks.
    basis : LandmarkBasis or FourierBasis
        The landmarks.
    """

    coefficients: Float
    basis: LandmarkBasis | FourierBasis

    @classmethod
    def around(cls, predictor: Predictor, basis: LandmarkBasis | FourierBasis) -> Self:
        """Return a predictor in the basis of the landmarks as one that takes rows."""
        values = {field.name: getattr(predictor, field.name) for field in fields(predictor)}
        return cls(**values, coefficients=basis.coefficients(predictor.components), basis=basis)

    def embed(self, X: Rows) -> Rows:
        """Return rows in the orthonormal basis of the landmarks."""
        return self.basis.embed(X)

    def points(self, X: Rows) -> Float:
        """Return the coordinates of rows, in their dtype."""
        columns = np.ascontiguousarray(self.coefficients.T)
        values = self.basis.scores(X, columns)
        values -= self.mean @ self.components.T
        return values.astype(float_type(X), copy=False)

    def steps(self, sparse: bool | None = None) -> list[tuple[str, Any]]:
        """Return scikit-learn's steps from rows to the coordinates that the head looks at; see `kernels.plain`."""
        from kampong.export.linear_steps import kernel_steps

        return kernel_steps(self.basis, self.coefficients, self.mean @ self.components.T, sparse)

    @classmethod
    def from_state_on(cls, contents: Contents, basis: LandmarkBasis | FourierBasis) -> Self:
        """Return the predictor that `to_state` wrote, for the given landmarks."""
        return cls.around(Predictor.from_state(contents, basis.rank), basis)


class KernelSubspace(DiscriminantSubspace):
    """Base of the kernel estimators: place landmarks with the first rows, then learn as the linear estimators do."""

    kernel: Any
    gamma: Any
    degree: Any
    coef0: Any
    landmarks: Any
    placement: Any
    memory_bytes: Any
    warm_start: Any
    scale: Any
    verbose: Any
    _space = "directions of the landmarks' span"
    _memory_advice = "Raise the limit (ulimit -v), or use fewer landmarks or columns."
    _features_seed: int | None = None  # where Fourier features and samples must not share a seed
    _tries: ClassVar[bool] = False  # whether heads are compared though nothing asks for it: rows left out one by one
    _width: Choice | None = None  # how γ was chosen

    def merge(self, other: Self) -> Self:
        """Return a new estimator that has learnt from both streams; neither operand changes.

        Parameters
        ----------
        other : object
            An estimator of the same class, parameters, landmarks and kernel width: pass the same array as `landmarks`
            to both.

        Returns
        -------
        object
            The merged estimator, equal to one that was fitted on the rows of both.
        """
        if type(other) is not type(self):
            return super().merge(other)
        mine, theirs = copy.copy(self), copy.copy(other)
        for model in (mine, theirs):  # arrays are compared where the statistics meet
            if not _is_plain(model.landmarks):
                model.landmarks = "rows"
        result = super(KernelSubspace, mine).merge(theirs)
        result.landmarks, result._width = self.landmarks, self._width
        return result

    def inverse_transform(self, X: Any) -> Float:
        """Raise an error: a point of the kernel's feature space need not be the image of any row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Coordinates.

        Returns
        -------
        array
            Nothing is ever returned.
        """
        raise TypeError(
            f"{type(self).__name__}.inverse_transform: directions of a kernel's feature space have no inverse in the "
            "space of the rows. Use a linear estimator where one is needed."
        )

    @property
    def landmarks_(self) -> Rows:
        """The landmarks that were kept."""
        basis = self._basis()
        if isinstance(basis, FourierBasis):
            raise AttributeError(f"{type(self).__name__} with Fourier features has no landmarks_: see frequencies_.")
        return basis.landmarks

    @property
    def frequencies_(self) -> Float:
        """The frequencies of the Fourier features, one a row."""
        basis = self._basis()
        if isinstance(basis, LandmarkBasis):
            raise AttributeError(f"{type(self).__name__} with landmarks has no frequencies_: see landmarks_.")
        return basis.frequencies

    @property
    def gamma_(self) -> float:
        """The factor γ of the kernel."""
        return self._basis().kernel.gamma

    @property
    def scale_(self) -> Float | None:
        """The standard deviations by which the columns are divided first; None if they are taken as they are."""
        return self._basis().kernel.units

    @property
    def scale_reason_(self) -> str:
        """Why the columns are divided by their standard deviations or not, in one sentence."""
        losses = {} if self._width is None else self._width.scales
        return scale_reason(self.scale, self._basis().kernel.units is not None, losses, "nothing was compared")

    @property
    def coefficients_(self) -> Float:
        """What each direction multiplies the kernel values of a row to the landmarks by."""
        known = self._read()
        assert isinstance(known, KernelPredictor)
        return known.coefficients

    def _check_parameters(self) -> None:
        name = type(self).__name__
        check_choice(name, "head", self.head, ("auto", BEST, *HEADS))
        check_priors(name, self.priors)
        check_seed(name, self.random_state)
        check_switches(name, self)
        check_choice(name, "placement", self.placement, ("auto", "rows", "centres", "fourier"))
        check_scale(name, self.scale)
        if isinstance(self.gamma, str):
            check_choice(name, "gamma", self.gamma, ("auto", "mean", "scale"))
        step = "Give bytes, for instance 2 * 2**30."
        check_number(name, "memory_bytes", self.memory_bytes, low=1, high=np.inf, next_step=step)
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise ValueError(
                f"{name}: kernel='precomputed' has no rows to place landmarks on. Pass the kernel as a callable of two "
                "blocks of rows, or give the columns of the matrix to FisherDiscriminant as features."
            )

    def _solver(self) -> str:
        return "auto"

    def _decay(self) -> float:
        return 1.0

    def _start(self, n_features: int, y: Any) -> None:
        """Check the parameters; the statistics wait for rows to place landmarks with."""
        self._check_parameters()
        vars(self).pop("_drawn", None)
        self._wanted()
        self._value(None)
        earlier, in_memory = self._on_landmarks(), y is not None
        if in_memory and self.warm_start and earlier is not None and earlier.basis.width == n_features:
            self._statistics = self._empty_on(earlier.basis)
        else:
            self._statistics = ClassMeans(0)  # holds declared classes until there are landmarks
            self._statistics.owner = type(self).__name__
            self._width = None
        self._said = False
        self._forget_results()

    def _learn_all(self, X: Rows, y: Any, sample_weight: Any) -> tuple[RowsInMemory, Callable[[], None]]:
        """Place the landmarks and learn all rows, one part after another; callbacks are called after each part."""
        name, n = type(self).__name__, X.shape[0]
        check_finite(X, name)
        weights = check_weights(sample_weight, n)
        rows = RowsInMemory(X, y, None)
        if not weights.any():
            return rows, lambda: None
        watched, order = (X, y), np.argsort(_numbered(X, y, weights)[1])  # nothing depends on the order of the rows
        entries, itemsize = (X if isinstance(X, np.ndarray) else X.data).size, float_type(X).itemsize
        if entries * itemsize <= VALUES_BYTES:  # not even the last bits
            X, y, weights, order = X[order], y[order], weights[order], np.arange(n)
        statistics = self._on_landmarks()
        if statistics is None:
            statistics = self._placed(X, y, weights)
        # every part is a sample of all rows, so that callbacks see all classes after the first part
        n_parts = -(-n // block_rows(statistics.basis.rank * itemsize, target=VALUES_BYTES))
        watcher = FitWatcher(self, *watched, _hand_over, name="rows", n_rounds=n_parts)
        seen = 0
        for first in range(n_parts):
            part = order[first::n_parts]
            watcher.begin()
            statistics.update(X[part], y[part], weights[part])
            seen += len(weights[part])
            if self.verbose:
                print(f"{name}: {seen} of {n} rows, {statistics.basis.rank} landmarks", flush=True)
            if watcher.end(lambda: statistics) and seen < n:
                text = f"{name}.fit: a callback ended it after {seen} of {n} rows."
                warnings.warn(text, ConvergenceWarning, stacklevel=4)
                break
        self._statistics = statistics
        return rows, watcher.finish

    @one_at_a_time
    def _learn(self, X: Rows, y: Any, sample_weight: Any, classes: Any = None) -> None:
        if self._on_landmarks() is None:
            check_finite(X, type(self).__name__)
            weights = check_weights(sample_weight, X.shape[0])
            waiting = copy.copy(self._statistics)  # which holds the classes declared
            if classes is not None:
                waiting.declare(classes)
            if weights.any():
                statistics = self._placed(X, y, weights)
                if waiting.n_classes:
                    statistics.declare(waiting.classes)
                self._statistics = statistics.update(X, y, weights)
            else:
                self._statistics = waiting
            self._forget_results()
            return
        super()._learn(X, y, sample_weight, classes)

    def _placed(self, X: Rows, y: Any, weights: Float) -> KernelScatter:
        """Return empty statistics on landmarks placed with these rows."""
        seen = np.flatnonzero(weights)
        first = (X, y, weights) if len(seen) == len(weights) else (X[seen], y[seen], weights[seen])
        return self._empty_on(self._place(*first))

    def _on_new_landmarks(self, most: int) -> Self | None:
        """Return a model of the same rows on landmarks placed again with the kept sample, at most this many.

        None where the landmarks are given, where no rows are kept, or where those kept lack a class. A number of
        landmarks that was asked for stays.
        """
        statistics = self._on_landmarks()
        if statistics is None or statistics.kept is None or statistics.multilabel:
            return None
        if not _is_plain(self.landmarks) or self._is_fourier():
            return None
        sample, width = statistics.kept.sample(), statistics.basis.width
        result, n = copy.copy(self), sample.rows.shape[0]
        if isinstance(self.landmarks, str):
            fitting = most_landmarks(float(self.memory_bytes) / 2, width)  # both models stand side by side
            result.landmarks = min(most, n, max(fitting, 1))
        elif self.landmarks > n:
            return None
        basis = result._place(sample.rows, statistics.kept.classes[sample.members.codes], sample.members.weights)
        found = statistics.placed_anew(basis)
        if found is None:
            return None
        result.landmarks, result._statistics = self.landmarks, found
        result._forget_results()
        return result

    def _empty_on(self, basis: Basis) -> KernelScatter:
        """Return statistics on landmarks that have learnt nothing, with a sample of rows where heads are tried."""
        tries = self._tries and (self.head == "auto" or not isinstance(basis, FourierBasis))  # which hold no row
        kept = None
        if tries or self._wants_sample():
            budget = min(BUDGET, KEPT * (8 * basis.width + ROW_BYTES + 8))
            kept = ClassReservoir(basis.width, budget=budget, random_state=self._seed())
        result = KernelScatter(basis, kept)
        result.owner = type(self).__name__
        return result

    def _place(self, X: Rows, y: Any, weights: Float) -> LandmarkBasis | FourierBasis:
        """Return the landmarks that the parameters ask for, placed with rows of positive weight if not given."""
        name, given = type(self).__name__, self.landmarks
        if not _is_plain(given):
            if given is None or (not hasattr(given, "shape") and np.ndim(given) != 2):
                raise ValueError(
                    f"{name}: landmarks must be 'auto', 'fourier', a whole number ≥ 1 or rows, got {given!r:.100}."
                )
            landmarks: Rows = check_array(
                admit(given, "landmarks"),
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                estimator=name,
                input_name="landmarks",
            )
            if landmarks.shape[1] != X.shape[1]:
                raise ValueError(
                    f"{name}: landmarks has {landmarks.shape[1]} features, but X has {X.shape[1]}. Give landmarks of "
                    "the same width as the rows."
                )
            self._check_memory(landmarks.shape[0], X.shape[1])
            return LandmarkBasis(self._kernel(landmarks, np.ones(landmarks.shape[0])), landmarks)
        n, most = X.shape[0], most_landmarks(float(self.memory_bytes), X.shape[1])
        if isinstance(given, str):
            check_choice(name, "landmarks", given, ("auto", "fourier"))
            m = min(MOST_BY_DEFAULT, max(most, 1)) if self._is_fourier() else min(n, MOST_BY_DEFAULT, max(most, 1))
        else:
            if isinstance(given, bool) or not isinstance(given, numbers.Integral) or given < 1:
                raise ValueError(
                    f"{name}: landmarks must be 'auto', 'fourier', a whole number ≥ 1 or rows, got {given!r}."
                )
            m = int(given)
            if m > n and not self._is_fourier():
                raise ValueError(
                    f"{name}: landmarks={m}, but they are placed with the first rows, and there are {n} of positive "
                    "weight. Ask for fewer, begin with a larger batch, or pass the landmarks as an array."
                )
        self._check_memory(m, X.shape[1])
        codes, drawn = _numbered(X, y, weights)
        validated = not self._is_fourier() and not is_indicator(y)
        kernel = self._kernel(X, weights, codes if validated else None, drawn, m)
        if self._is_fourier():
            seed = self._seed() if self._features_seed is None else self._features_seed
            try:
                return FourierBasis(replace(kernel, varying=None), X.shape[1], m, seed)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return LandmarkBasis(kernel, self._settle(kernel, X, codes, weights, drawn, m))

    def _is_fourier(self) -> bool:
        """Tell whether Fourier features stand in the place of landmarks."""
        named = isinstance(self.landmarks, str) and self.landmarks == "fourier"
        return named or (self.placement == "fourier" and _is_plain(self.landmarks))

    def _check_memory(self, m: int, n_features: int) -> None:
        needed, most = bytes_needed(m, n_features), most_landmarks(float(self.memory_bytes), n_features)
        if needed > self.memory_bytes:
            fewer = f"Ask for at most {most} landmarks, or raise memory_bytes." if most else "Raise memory_bytes."
            raise ValueError(
                f"{type(self).__name__}: {m} landmarks of {n_features} features need about {needed} bytes "
                f"({needed / 2**30:.2f} GiB), and memory_bytes is {self.memory_bytes}. {fewer}"
            )

    def _kernel(
        self, X: Rows, weights: Float, codes: Integer | None = None, numbers: Integer | None = None, m: int = 0
    ) -> Kernel:
        """Return the kernel with scale and width from these rows, chosen by their classes if they are given."""
        columns = columns_of(X, weights if np.ptp(weights) else None)
        units, name = columns.units(), type(self).__name__
        automatic = isinstance(self.gamma, str) and self.gamma == "auto"

        def of(gamma: Any, scaled: bool) -> Kernel:
            given = {"gamma": gamma, "degree": self.degree, "coef0": self.coef0}
            return make_kernel(name, self.kernel, columns, **given, units=units if scaled else None)

        validated = codes is not None and numbers is not None
        scales: tuple[bool, ...] = (bool(self.scale),)
        factors = np.zeros(1)
        if isinstance(self.scale, str):
            # a number γ is in the units of the rows, and a function of one's own may be too
            both = validated and isinstance(self.gamma, str) and not callable(self.kernel)
            scales = (False, True) if both else (False,)
        if validated and automatic and self.kernel == "rbf":
            factors = FACTORS
        usual = {scaled: of("mean" if automatic else self.gamma, scaled) for scaled in scales}
        self._width = None
        if codes is not None and numbers is not None and len(scales) * len(factors) > 1:
            self._width = choose_kernel(
                lambda factor, scaled: of(usual[scaled].gamma * 10.0**factor, scaled) if factor else usual[scaled],
                scales,
                factors,
                (X, codes, weights),
                row_keys(numbers, weights, self._seed()),
                m,
            )
        return usual[scales[0]] if self._width is None else of(self._width.value, self._width.scaled)

    def _settle(self, kernel: Kernel, X: Rows, codes: Integer, weights: Float, numbers: Integer, m: int) -> Rows:
        """Return m landmarks: rows, or centres of rows of one class where rows are hard to tell apart."""
        if m >= X.shape[0]:
            return X
        movable = isinstance(X, np.ndarray) and kernel.name != "callable"
        if self.placement == "centres" and not movable:
            raise ValueError(
                f"{type(self).__name__}: placement='centres' takes means of rows, which needs dense rows and a named "
                "kernel. Use placement='rows'."
            )
        if self.placement == "rows" or not movable:
            return X[draw_rows(codes, weights, m, self._seed(), numbers=numbers)]
        assert isinstance(X, np.ndarray)
        shares = weights * self._difficulty(kernel, X, codes, weights, numbers, m)
        seeds = draw_rows(codes, weights, m, self._seed(), shares, numbers)
        return move_to_centres(X, codes, shares, seeds, kernel.units)

    def _difficulty(self, kernel: Kernel, X: Float, codes: Integer, weights: Float, numbers: Integer, m: int) -> Float:
        """Return what a first model on few landmarks leaves unexplained: 1 − the probability of the row's own class."""
        scouts = draw_rows(codes, weights, min(max(m // SCOUTS, 1), MOST_SCOUTS), self._seed(), numbers=numbers)
        statistics = KernelScatter(LandmarkBasis(kernel, X[scouts])).update(X, codes, weights)
        trace = statistics.within_trace
        if classes_seen(statistics) < 2 or trace <= 0:
            return np.ones(len(codes))
        recipe = Recipe(FisherCriterion, landmark_ridge(statistics) * trace, None, "auto", "gaussian", 0.0, str)
        basis = statistics.basis
        assert isinstance(basis, LandmarkBasis)
        scout = KernelPredictor.around(make_predictor(recipe, statistics), basis)
        missing: Float = 1.0 - scout.head.probabilities(scout.points(X))[np.arange(len(codes)), codes]
        mean = float(np.average(missing, weights=weights))
        return missing + EASY_SHARE * mean if mean > 0 else np.ones(len(codes))

    def _recipe(self) -> Recipe:
        """Return what is asked for; landmarks have no order, so signs follow from the class means."""
        head = "auto" if self.head == BEST else self.head
        recipe = replace(super()._recipe(), signs_by_means=True, head=head)
        if self.head not in WEIGHED and (not self._tries or head not in ("auto", *TRIED, *TRAINED)):
            return recipe
        return replace(recipe, trial=self._trial, choice=self._width)

    def _trial(self, inside: Inside, components: Float, value: float) -> Evidence | None:
        """Return heads to try on rows that they have not seen, None if too few rows can validate them."""
        raise NotImplementedError

    def _make(self, rows: RowsInMemory | None, keep: Predictor | None = None) -> Predictor:
        made = super()._make(rows, keep)
        return KernelPredictor.around(made, self._basis())

    def _to_state(self) -> dict[str, Any] | None:
        """Return what a checkpoint holds: the landmarks, the sums over kernel values, and the predictor."""
        statistics = self._on_landmarks()
        if statistics is None:
            return None
        self._check_all()  # a file with other parameters could not be read
        assert isinstance(statistics.basis, LandmarkBasis | FourierBasis)
        state: dict[str, Any] = {"basis": statistics.basis.to_state(), "statistics": statistics.to_state()}
        if self._width is not None:
            state["width"] = self._width.to_state()
        known = self._known()
        return state if known is None else {**state, "predictor": known.to_state()}

    def _from_state(self, contents: Contents) -> None:
        part, sums = contents.part("basis"), contents.part("statistics")
        kind = FourierBasis if "n_fourier" in part else LandmarkBasis
        rank = part.look("n_fourier" if kind is FourierBasis else "n_landmarks")
        sums.expect("scatter", (rank * (rank + 1) // 2,))  # before a kernel matrix of that size is made
        basis = kind.from_state(part, self.n_features_in_)
        kept = ClassReservoir.from_state(sums.part("kept"), basis.width) if "kept" in sums else None
        estimated = sums.flag("estimated") if "estimated" in sums else False
        plain = ClassScatter.from_state(sums, basis.rank)
        if kept is not None and not set(kept.classes.tolist()) <= set(plain.classes.tolist()):
            contents.refuse("the sample has classes that the sums do not know")
        self._statistics, self._said = KernelScatter.around(basis, plain, kept), False
        self._statistics.estimated = estimated
        self._width = Choice.from_state(contents.part("width"), self.n_features_in_) if "width" in contents else None
        self._read_back(contents)

    def _predictor_from(self, contents: Contents) -> Predictor:
        return KernelPredictor.from_state_on(contents, self._basis())

    def _what_stays(self) -> tuple[str, ...]:
        return (LANDMARKS,) if _is_plain(self.landmarks) and not self._is_fourier() else ()

    def _basis(self) -> LandmarkBasis | FourierBasis:
        check_is_fitted(self)
        basis = self._statistics.basis
        assert isinstance(basis, LandmarkBasis | FourierBasis)
        return basis

    def _on_landmarks(self) -> KernelScatter | None:
        """Return the statistics, None until there are landmarks."""
        found: KernelScatter | None = getattr(self, "_statistics", None)
        return None if found is None or found.basis is None else found


def _hand_over(model: Any, statistics: KernelScatter) -> None:
    """Give a copy of an estimator what has been learnt so far."""
    model._statistics = KernelScatter.around(statistics.basis, statistics.plain())
    model._said = True
    model._forget_results()


def _numbered(X: Rows, y: Any, weights: Float) -> tuple[Integer, Integer]:
    """Return the place of each row's class among the sorted labels, and a number that does not depend on its place."""
    codes: Integer = np.zeros(X.shape[0], dtype=np.int64)
    if not is_indicator(y):
        index = LabelIndex()
        labels, codes, new = check_labels(index, y, X.shape[0])
        index.add(new, labels.dtype)
        codes = index.position[codes]
    return codes, content_numbers(X, columns_of(X, weights if np.ptp(weights) else None).units(), codes, weights)


def _is_plain(landmarks: Any) -> bool:
    """Tell whether a value is a number or a word, and not rows."""
    return isinstance(landmarks, (str, numbers.Number))
