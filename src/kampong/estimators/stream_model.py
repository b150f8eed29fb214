"""The subspaces behind the contract: what streams, adapters, reports and merges may ask of them.

    DiscriminantSubspace → SubspaceModel    FisherDiscriminant → FisherModel    KernelSubspace → KernelModel

They use private members of their own estimators, so that nobody else has to.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import clone

from kampong._core.locks import lock_of
from kampong.build import RowsInMemory
from kampong.contract import Abilities, PartialFitModel, stream_model
from kampong.data.validation import check_weights, validate_batch
from kampong.estimators.fisher import FisherDiscriminant
from kampong.estimators.following import AnsweringContest
from kampong.estimators.kernel_subspace import KernelPredictor, KernelSubspace
from kampong.estimators.novelty import known_rows
from kampong.estimators.subspace import DiscriminantSubspace
from kampong.files.contents import flatten
from kampong.kernels.fourier import FourierBasis
from kampong.kernels.landmarks import LandmarkBasis
from kampong.online.contest import check_entries
from kampong.statistics.all_rows import ClassRows, PartRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong._core.compute import Float, Integer, Rows
    from kampong.contract import Frozen, Pauses
    from kampong.files import Contents
    from kampong.predictor import Predictor
    from kampong.selection.known_rows import KnownRows
    from kampong.statistics.all_rows import RowParts
    from kampong.statistics.means import ClassMeans
    from kampong.statistics.receipt import Receipt


class SubspaceModel(PartialFitModel):
    """The contract for the subspaces: statistics of the rows, and a predictor that follows from them.

    Parameters
    ----------
    estimator : DiscriminantSubspace
        What learns.
    """

    can = Abilities(freeze=True, widen=True, merge=True, unlearn=True)

    @property
    def fitted(self) -> bool:
        """Whether it has learnt a row of positive weight."""
        return bool(self.estimator.__sklearn_is_fitted__())

    @property
    def width(self) -> int:
        """The number of columns, or the number that was announced where that is more."""
        return max(super().width, getattr(self.estimator, "_widest", 0))

    @property
    def statistics(self) -> ClassMeans | None:
        """What it remembers of the rows, None before the first batch."""
        found: ClassMeans | None = getattr(self.estimator, "_statistics", None)
        return found

    @property
    def known(self) -> Predictor | None:
        """The predictor that has been solved already, None if rows or parameters have changed since."""
        found: Predictor | None = None if self.statistics is None else self.estimator._known()
        return found

    @property
    def chosen(self) -> str:
        """The name of the parameter that `choice_` is about."""
        return str(self.estimator._kind().parameter)

    def learn(self, X: Rows, y: np.ndarray, classes: Sequence[Any] = ()) -> None:
        """Learn a batch."""
        self.estimator.partial_fit(X, y, classes=list(classes) or None)

    def predictor(self, keep: Predictor | None = None, *, provisional: bool = False) -> Predictor | None:
        """Return a frozen predictor."""
        found: Predictor | None = self.estimator.freeze(keep=keep)
        return found

    def frozen(self, predictor: Predictor | None = None, *, saved: bool = False) -> Frozen | None:
        """Return the stream's predictor, or with `saved` the one that a model file would hold."""
        return self._frozen_predictor(predictor, saved=saved)

    def _frozen_predictor(self, predictor: Predictor | None, *, saved: bool) -> Predictor | None:
        if not saved:
            return predictor
        own = copy.copy(self.estimator)  # what it finds is not remembered, so that nothing depends on when it was asked
        try:
            found: Predictor | None = own.freeze(keep=predictor) if self.fitted else None
        except ValueError:  # what cannot be solved says so when it is read
            return None
        return found

    def frozen_from(self, contents: Contents) -> Frozen:
        """Return a predictor of this model that a file holds."""
        return self.predictor_from(contents)

    def settle(self, keep: Predictor | None = None, *, forget_nothing: bool = False) -> None:
        """Solve, and remember the solution."""
        if forget_nothing:
            self.estimator._keep_all()
        if keep is None:
            self.estimator._before_save()
            return
        try:
            found = self.estimator.freeze(keep=keep)
        except ValueError:  # what cannot be solved says so when it is read
            return
        if found is not None:
            self.estimator._remember(found)

    def expect_width(self, n_features: int) -> None:
        """Say before the first rows how wide they may become."""
        self.estimator._expect_width(n_features)

    def move_columns(self, places: Integer, n_features: int) -> None:
        """Move columns to new places of a new width."""
        self.estimator._move_columns(places, n_features)

    def unlearn(self, X: Rows, y: np.ndarray) -> Receipt:
        """Take rows out again."""
        receipt: Receipt = self.estimator.unlearn(X, y)
        return receipt

    def copy(self) -> Self:
        """Return a copy with statistics and a lock of its own."""
        result = copy.copy(self.estimator)
        result._statistics = copy.deepcopy(self.estimator._statistics)
        return type(self)(result)

    def predictor_from(self, contents: Contents) -> Predictor:
        """Return a predictor of this model that a file holds."""
        predictor: Predictor = self.estimator._predictor_from(contents)
        return predictor

    # Beyond the contract, for the adapters to river and Dask.

    def grown(self, n_features: int) -> Self:
        """Return a copy with more columns at its end; this model does not change.

        Parameters
        ----------
        n_features : int
            The new width.

        Returns
        -------
        SubspaceModel
            The copy.
        """
        if self.statistics is None:
            return self
        fresh = clone(self.estimator)
        fresh.n_features_in_ = n_features
        fresh._start(n_features, None)
        old, laid_out = self.estimator._statistics, fresh._statistics
        if type(old) is not type(laid_out):
            raise ValueError(
                f"with {n_features} features {type(fresh).__name__} would keep a {type(laid_out).__name__} in place of "
                f"a {type(old).__name__}, which cannot be made of it."
            )
        result = copy.copy(self.estimator)
        result._move_columns(np.arange(old.n_features), n_features)
        result._statistics.take_budget(laid_out)
        return type(self)(result)

    def fit_parts(self, means: ClassMeans, parts: RowParts, labels: np.ndarray) -> bool:
        """Fit on rows that lie elsewhere, in parts.

        Parameters
        ----------
        means : ClassMeans
            Those of all rows.
        parts : RowParts
            Whoever holds the rows.
        labels : array
            The class of each row.

        Returns
        -------
        bool
            False if the statistics need no rows: then nothing is fitted.
        """
        model = self.estimator
        model.n_features_in_ = means.n_features
        model._start(means.n_features, labels)
        if type(model._statistics) is not ClassRows:
            return False
        model._statistics = PartRows(means, parts)
        nothing: Any = None
        known = model._remember(model._make(RowsInMemory(nothing, None, None)))
        left = model._statistics.without_rows()
        model._statistics = left if known.criterion.needs_within else left.plain()
        return True


class FisherModel(SubspaceModel):
    """The contract for `FisherDiscriminant`, which can follow drift.

    Parameters
    ----------
    estimator : FisherDiscriminant
        What learns.
    """

    can = replace(SubspaceModel.can, reject=True)

    @property
    def follows_drift(self) -> bool:
        """Whether half_life="auto" is set, rows have come, and nothing was taken out or merged."""
        return self.estimator._following() is not None

    def frozen(self, predictor: Predictor | None = None, *, saved: bool = False) -> Frozen | None:
        """Return the contest as it is now, with a predictor of all rows; without contest that predictor."""
        found = self._frozen_predictor(predictor, saved=saved)
        contest: AnsweringContest | None = self.estimator._contest(found)
        return found if contest is None else contest

    def frozen_from(self, contents: Contents) -> Frozen:
        """Return a contest or a predictor of this model that a file holds."""
        if "contest" not in contents:
            return super().frozen_from(contents)
        predictor = self.predictor_from(contents.part("predictor")) if "predictor" in contents else None
        return AnsweringContest.from_state(contents, predictor, self.estimator.n_features_in_)

    def known_rows(self, predictor: Predictor, most: int) -> KnownRows | None:
        """Return what tells rows that look like no class, None while kept rows are few."""
        return known_rows(self.estimator, predictor, "known_rows", most)

    def let_all_rows_answer(self, alone: bool) -> None:
        """Say whether the model of all rows alone answers once it is saved, rather than the contest."""
        self.estimator._all_rows_answer = alone and self.follows_drift

    def answer(self, X: Rows, predictor: Predictor | None = None) -> tuple[Float | None, np.ndarray | None]:
        """Return what the contest says of rows, nothing while it knows fewer than two classes."""
        if not self.follows_drift:
            return super().answer(X, predictor)
        contest = self.estimator._contest(predictor)
        return (None, None) if contest is None else contest.answers(X)

    def predict_then_learn(
        self,
        X: Rows,
        y: np.ndarray,
        predictor: Predictor | None = None,
        classes: Sequence[Any] = (),
        pauses: Pauses | None = None,
    ) -> tuple[np.ndarray, Float] | None:
        """Learn a batch; with half_life="auto" predict each row first, and return classes and probabilities."""
        if self.statistics is None or not self.follows_drift:
            return super().predict_then_learn(X, y, predictor, classes)
        found: tuple[np.ndarray, Float] | None = self.estimator._predict_then_learn(X, y, predictor, pauses)
        return found

    def predictor(self, keep: Predictor | None = None, *, provisional: bool = False) -> Predictor | None:
        """Return a frozen predictor of all rows; one that is provisional costs less where a contest answers."""
        if not self.follows_drift:
            return super().predictor(keep)
        found: Predictor | None = self.estimator._freeze_provisional(keep, provisional=provisional)
        return found

    def has_aged(self, predictor: Predictor) -> bool:
        """Tell whether recent rows cost more than validation rows did; True where there is no contest that knows."""
        follower, held_out = self.estimator._follows(), predictor.held_out
        return follower is None or held_out is None or follower.has_aged(held_out)

    def contest_shares(self, X: Rows) -> Float:
        """Return what the contest says of rows, without the model of all rows, which would have to be solved.

        Parameters
        ----------
        X : array or sparse matrix of shape (rows, columns)
            The rows.

        Returns
        -------
        array of shape (rows, classes)
            Probabilities, in the order of the classes.
        """
        own = self.estimator
        check_entries(X, type(own).__name__)
        with lock_of(own):
            shares: Float = own._contest(None).probabilities(X)
        return shares


class FrozenKernel:
    """A kernel predictor with its own landmarks: those of the model may be placed again while it is kept.

    Parameters
    ----------
    predictor : KernelPredictor
        The predictor.
    """

    def __init__(self, predictor: KernelPredictor) -> None:
        self.predictor = predictor

    def answers(self, X: Rows) -> tuple[Float | None, np.ndarray]:
        """Return the coordinates of rows and their classes."""
        return self.predictor.answers(X)

    def ways(self, X: Rows) -> tuple[np.ndarray, ...]:
        """Return the classes of rows: there is one way to answer."""
        return self.predictor.ways(X)

    def apart(self) -> Self:
        """Return itself: nothing changes it."""
        return self

    def widened(self, n_features: int) -> Self:
        """Return itself: the columns of a kernel are fixed."""
        return self

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(array.nbytes for array in flatten(self.to_state())[0].values())

    def to_state(self) -> dict[str, Any]:
        """Return landmarks and predictor by name."""
        return {"basis": self.predictor.basis.to_state(), "predictor": self.predictor.to_state()}


class KernelModel(SubspaceModel):
    """The contract for the kernel subspaces: landmarks are placed with the first batch and stay.

    Parameters
    ----------
    estimator : KernelSubspace
        What learns.
    """

    can = replace(SubspaceModel.can, widen=False, landmarks=True)

    @property
    def width(self) -> int:
        """The number of landmarks; that of the columns before they are placed, and for Fourier features."""
        return self.basis.landmarks.shape[0] if isinstance(self.basis, LandmarkBasis) else super().width

    @property
    def basis(self) -> Any:
        """The landmarks or Fourier features, None before they are placed."""
        return None if self.statistics is None else self.statistics.basis

    @property
    def chosen(self) -> str:
        """The name of the parameter that `choice_` is about."""
        return super().chosen if self.estimator._width is None else "gamma"

    def frozen(self, predictor: Predictor | None = None, *, saved: bool = False) -> Frozen | None:
        """Return the stream's predictor, or with `saved` the one of a model file, with its landmarks."""
        found = super().frozen(predictor, saved=saved)
        return FrozenKernel(found) if isinstance(found, KernelPredictor) else None

    def frozen_from(self, contents: Contents) -> Frozen:
        """Return a predictor that a file holds with its landmarks."""
        part, rest = contents.part("basis"), contents.part("predictor")
        kind = FourierBasis if "n_fourier" in part else LandmarkBasis
        rest.expect("mean", (part.look("n_fourier" if kind is FourierBasis else "n_landmarks"),))
        basis = kind.from_state(part, self.estimator.n_features_in_)
        contents.finish()
        return FrozenKernel(KernelPredictor.from_state_on(rest, basis))

    def blank(self, seed: int | None = None) -> Self:
        """Return a model on the same landmarks that has learnt nothing."""
        own, basis = self.estimator, self.basis
        result = clone(own)
        if seed is not None:
            result._features_seed = result.random_state  # Fourier features are the same for all parts
            result.random_state = seed
        if basis is not None:
            result.n_features_in_, result._width = own.n_features_in_, own._width
            if hasattr(own, "feature_names_in_"):
                result.feature_names_in_ = own.feature_names_in_
            result._statistics, result._said = result._empty_on(basis), False
            result._forget_results()
        return type(self)(result)

    def placed(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Return a model with landmarks placed on a sample of rows, and nothing learnt.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The sample.
        y : array-like of shape (n_samples,)
            The labels.
        sample_weight : array-like of shape (n_samples,), optional
            The weights.

        Returns
        -------
        KernelModel
            The copy.
        """
        result = clone(self.estimator)
        X, y = validate_batch(result, X, y, reset=True)
        weights = check_weights(sample_weight, X.shape[0])
        if not weights.any():
            raise ValueError(f"fit_landmarks: the {X.shape[0]} rows have no weight. Give at least one row a weight.")
        result._start(X.shape[1], None)
        basis = result._placed(X, y, weights).basis
        # A column that is constant in the sample may vary in other parts.
        if isinstance(basis, LandmarkBasis) and basis.kernel.varying is not None:
            basis = LandmarkBasis(replace(basis.kernel, varying=None), basis.landmarks)
        result._statistics = result._empty_on(basis)
        return type(self)(result)

    def placed_again(self, most: int) -> Self | None:
        """Return a model of the same rows on landmarks placed again with the kept sample, None where it cannot be."""
        result = self.estimator._on_new_landmarks(most)
        return None if result is None else type(self)(result)

    def adopt(self, other: Self) -> None:
        """Take over all that another model has learnt, with its landmarks."""
        own, theirs = self.estimator, other.estimator
        own._statistics, own._width = theirs._statistics, theirs._width
        own._forget_results()


stream_model.register(DiscriminantSubspace, SubspaceModel)
stream_model.register(FisherDiscriminant, FisherModel)
stream_model.register(KernelSubspace, KernelModel)
