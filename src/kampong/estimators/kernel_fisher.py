"""Kernel discriminants in one pass: the criteria of the linear estimators on kernel values to landmarks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kampong.criteria import FisherCriterion, MarginCriterion, landmark_ridge
from kampong.data.labels import is_indicator
from kampong.data.validation import check_number
from kampong.estimators.kernel_subspace import KernelSubspace
from kampong.estimators.novelty import score_samples
from kampong.estimators.verification import same_class
from kampong.files import savable
from kampong.selection.choose import choose_parameter
from kampong.selection.kernel_width import landmark_trial

if TYPE_CHECKING:
    from kampong._core.compute import Float, Rows
    from kampong.build import Recipe
    from kampong.criteria import Criterion
    from kampong.heads import Inside
    from kampong.selection.evidence import Evidence
    from kampong.statistics import ClassMeans
    from kampong.statistics.kernel_scatter import KernelScatter

__all__ = ["KernelFisherDiscriminant", "KernelMarginSubspace"]


@savable
class KernelFisherDiscriminant(KernelSubspace):
    """Kernel Fisher discriminant analysis on landmarks: one pass, mergeable, n·m·d for n rows and m landmarks.

    With φ(x) the image of a row in the kernel's feature space, projected on the span of the images of the landmarks,
    maximises wᵀS_b w / wᵀ(S_w + ρI)w over w in that span, one direction after another, conjugate in S_w + ρI. In the
    coefficients a of w = Σ_j a_j φ(landmark_j) the ridge is ρ aᵀK_mm a. Only sums over kernel values to the landmarks
    are kept, so memory does not grow with the rows, and order and batches do not matter once the landmarks are placed.

    If every training row is a landmark, this is the classical kernel Fisher discriminant (Mika et al. 1999, equations 8
    to 11, for two classes; Baudat and Anouar 2000 for several). Two deviations. The ridge is in the metric of the
    feature space, which Mika et al. propose as well as the plain aᵀa, so that repeated landmarks do not change it. And
    landmarks that depend linearly on others are left out, which changes nothing but rounding.

    Parameters
    ----------
    n_components : int, "auto" or None
        How many directions, at most one less than there are classes; None, and "auto", for all of those.
    kernel : {"rbf", "laplacian", "linear", "polynomial", "sigmoid"} or callable
        As in scikit-learn; "laplacian" is exp(−γ Σ|x_j − z_j|), for columns that each matter on their own, such as
        those of tables: use it with scale=True. A callable takes two blocks of rows and returns the matrix of their
        kernel values.
    gamma : float, "auto", "mean" or "scale"
        The factor γ. "mean" is one over the mean squared distance of two rows, "scale" is 1 / (n_features · X.var());
        for the Laplacian kernel one over their mean distance if columns are normal, and 1 / (n_features · X.std());
        all of the rows of `fit`, of the first batch, or of the landmarks where they are given as rows. "auto" chooses
        a factor between a quarter and four on "mean" for the rbf kernel, by the leave-one-out errors of Fisher's
        directions on up to 500 landmarks, or a quarter of more than 2,000, when the landmarks are placed; it is "mean"
        for other kernels, several labels per row, Fourier features, landmarks given as rows, and fewer than ten rows.
        If columns are scaled, γ is that of the scaled columns.
    degree : float
        The degree of the polynomial kernel.
    coef0 : float
        The constant of the polynomial and sigmoid kernels.
    ridge : float or "auto"
        The ridge ρ ≥ 0 as a part of tr S_w, so that a number means the same for every kernel and γ. "auto" is (m/n)²/n
        for m landmarks and rows of weight n, 1/n if there are no more rows than landmarks, and at least 1e-7. With
        enough landmarks to fit every row a ridge is needed; with more rows it becomes smaller.
    landmarks : "auto", "fourier", int or array-like of shape (m, n_features)
        How many landmarks, or the landmarks themselves. "auto" is all rows up to 2,000 of them, or as many as
        `memory_bytes` allows. They are placed with the rows of `fit`, in whatever order these come, or with the first
        batch, which decides on scale and width too: begin `partial_fit` with a batch of some hundred rows of all
        classes, since later rows move none of these. "fourier" is 2,000
        random Fourier features instead, which depend on `random_state` and a given `gamma` alone and hold no rows:
        models with the same seed merge though neither saw the other's rows.
    placement : {"auto", "rows", "centres", "fourier"}
        "rows" draws rows, equally many of each class. "centres" draws rows in proportion to what a first model on a
        quarter of the landmarks (at most 500) leaves unexplained, and moves each to the mean of the rows of its class
        nearest to it. "auto" is "centres" for dense rows and a named kernel, else "rows". "fourier" makes
        `landmarks` the number of Fourier features.
    head : {"auto", "best"} or str
        Or "gaussian", "nearest_mean", "cosine", "regression", "quadratic", "logistic", "hinge", "mixture".
        What `predict` uses inside the subspace: Gaussian classes with the shared covariance W(S_w + ρI)Wᵀ and the
        observed priors; the nearest class mean; the cosine to the class means; least squares on the classes; one
        covariance per class, logistic regression, or one linear support vector machine per class, trained on a sample
        of 2,048 rows; or a mixture. "auto", or "best", takes the one of Gaussian, cosine, regression and mixture that
        errs least on that sample by leave-one-out. All are calibrated there. With several labels per row it is
        Gaussian.
        Fourier features with a named head keep no sample, and are not calibrated.
    memory_bytes : int
        Memory limit in bytes for statistics and solution, about 64·m², 2 GiB by default. "auto" and "fourier" take as
        many landmarks as fit; a number of landmarks that does not fit is refused.
    warm_start : bool
        Whether `fit` keeps landmarks and kernel of the last fit and does not place them again: to try several ridges,
        or for the next rows of the same kind.
    random_state : int, RandomState or None
        The seed of the landmarks. A RandomState, or numpy's own for None, draws one for each fit or stream.
    verbose : int
        Print a line for each block of rows that `fit` has learnt.
    priors : {"observed", "uniform"}, array-like of shape (n_classes,) or None
        The shares of the classes where the model will be used, in the order of `classes_`; None is "observed". S_b
        weighs the class means by them, and with any head the logarithm of a probability moves by log(given /
        observed). S_w and all choices are those of the rows. Not for several labels per row.
    scale : {"auto", True, False}
        Whether each column is divided by its standard deviation first, so that the distance means the same for all of
        them; the answers are for the rows as they come. Sparse rows are not centred. "auto" tries both when the
        landmarks are placed, and divides if that errs less, by the leave-one-out errors that choose `gamma`. It takes
        the rows as they are if γ is a number, for several labels per row, Fourier features, landmarks given as rows, a
        kernel that is a callable, and fewer than ten rows. The deviations are those of the rows of `fit`, of the first
        batch, or of the landmarks if they are given as rows.

    Attributes
    ----------
    components_ : array of shape (n_components, m)
        The directions in an orthonormal basis of the span of the landmarks, best first, with wᵀ(S_w + ρI)w = 1.
    coefficients_ : array of shape (n_components, m)
        The same as combinations of landmarks: a feature is Σ_j a_j k(x, landmark_j) less its mean.
    eigenvalues_ : array of shape (n_components,)
        The ratio that each direction reaches.
    criterion_ratio_ : array of shape (n_components,)
        Each eigenvalue over the sum of all positive ones.
    landmarks_ : array or sparse matrix of shape (m, n_features_in_)
        The landmarks kept: those that are linearly independent in the feature space.
    gamma_ : float
        The factor γ in use.
    scale_ : array of shape (n_features,) or None
        The standard deviations by which the columns are divided; None if they are taken as they are.
    scale_reason_ : str
        Why they are divided, or are not.
    ridge_ : float
        The ridge ρ in use, tr S_w included.
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    class_counts_ : array of shape (n_classes,)
        The weight of each class.
    class_means_ : array of shape (n_classes, m)
        The mean of each class in the orthonormal basis.
    mean_ : array of shape (m,)
        The mean of all rows there.
    n_samples_seen_ : int
        The number of rows of positive weight learnt.
    n_features_in_ : int
        The width of the rows.
    feature_names_in_ : array of shape (n_features_in_,)
        The column names, where the rows had them.
    solver_ : str
        The solver that found the directions.
    head_ : str
        The head in use.
    choice_ : Choice or None
        How γ and the scale were chosen, and the losses of the `heads` that were compared.

    See Also
    --------
    KernelMarginSubspace : The difference in place of the ratio, on the same landmarks.
    kampong.FisherDiscriminant : The same without a kernel.

    References
    ----------
    Mika, Rätsch, Weston, Schölkopf and Müller, Fisher discriminant analysis with kernels, NNSP 1999. Baudat and Anouar,
    Generalized discriminant analysis using a kernel approach, Neural Computation 12, 2000.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kampong import KernelFisherDiscriminant
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KernelFisherDiscriminant(landmarks=300).fit(X[:1000], y[:1000])
    >>> model.transform(X[1000:]).shape
    (797, 9)
    >>> model.score(X[1000:], y[1000:]) > 0.95
    True
    """

    def __init__(
        self,
        n_components: Any = None,
        *,
        kernel: Any = "rbf",
        gamma: Any = "auto",
        degree: float = 3.0,
        coef0: float = 0.0,
        ridge: Any = "auto",
        landmarks: Any = "auto",
        placement: str = "auto",
        head: str = "auto",
        memory_bytes: int = 2**31,
        warm_start: bool = False,
        random_state: Any = 0,
        verbose: int = 0,
        priors: str | list[float] = "observed",
        scale: bool | str = "auto",
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.ridge = ridge
        self.landmarks = landmarks
        self.placement = placement
        self.head = head
        self.memory_bytes = memory_bytes
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.priors = priors
        self.scale = scale

    @property
    def ridge_(self) -> float:
        """The ridge ρ in use."""
        return self._read().criterion.value

    _tries = True

    score_samples = score_samples
    same_class = same_class

    def _trial(self, inside: Inside, components: Float, value: float) -> Evidence | None:
        statistics = self._on_landmarks()
        return None if statistics is None else landmark_trial(statistics, inside, components, value)

    def _kind(self) -> type[Criterion]:
        return FisherCriterion

    def _value(self, statistics: ClassMeans | None) -> float | None:
        automatic = isinstance(self.ridge, str) and self.ridge == "auto"
        if not automatic:
            name, step = type(self).__name__, "It is a part of tr S_w; use 'auto' to have it chosen."
            check_number(name, "ridge", self.ridge, low=0.0, high=1e300, next_step=step)
        if statistics is None:
            return 0.0
        trace = statistics.within_trace
        if trace <= 0:  # every class is a single point: any ridge gives the same directions
            trace = float((statistics.between_factor() ** 2).sum())
        return (landmark_ridge(statistics) if automatic else float(self.ridge)) * trace


@savable
class KernelMarginSubspace(KernelSubspace):
    """The margin criterion S_b − ε S_w in a kernel's feature space, on landmarks (kernel MMC): one pass, mergeable.

    With φ(x) the image of a row in the kernel's feature space, projected on the span of the images of the landmarks,
    maximises tr W(S_b − ε S_w)Wᵀ over orthonormal directions W of that span. ε is a threshold on the ratio of
    between-class to within-class variance: directions above it raise the criterion, and there are at most as many as
    classes less one. If every training row is a landmark, this is the kernel maximum margin criterion of Li, Jiang and
    Zhang 2004; here it needs one pass and no n × n matrix. Each row has one label.

    Parameters
    ----------
    n_components : int, "auto" or None
        How many directions. "auto" and None keep those that raise the criterion, and at least one. A number may be
        larger, up to the number of landmarks; a warning says how many of them lower the criterion.
    epsilon : float
        The weight ε ≥ 0 of the within-class scatter.
    kernel : {"rbf", "laplacian", "linear", "polynomial", "sigmoid"} or callable
        As in scikit-learn; "laplacian" is exp(−γ Σ|x_j − z_j|), for columns that each matter on their own, such as
        those of tables: use it with scale=True. A callable takes two blocks of rows and returns the matrix of their
        kernel values.
    gamma : float, "auto", "mean" or "scale"
        The factor γ. "mean" is one over the mean squared distance of two rows, "scale" is 1 / (n_features · X.var());
        for the Laplacian kernel one over their mean distance if columns are normal, and 1 / (n_features · X.std());
        all of the rows of `fit`, of the first batch, or of the landmarks where they are given as rows. "auto" chooses
        a factor between a quarter and four on "mean" for the rbf kernel, by the leave-one-out errors of Fisher's
        directions on up to 500 landmarks, or a quarter of more than 2,000, when the landmarks are placed; it is "mean"
        for other kernels, several labels per row, Fourier features, landmarks given as rows, and fewer than ten rows.
        If columns are scaled, γ is that of the scaled columns.
    degree : float
        The degree of the polynomial kernel.
    coef0 : float
        The constant of the polynomial and sigmoid kernels.
    landmarks : "auto", "fourier", int or array-like of shape (m, n_features)
        How many landmarks, or the landmarks themselves. "auto" is all rows up to 2,000 of them, or as many as
        `memory_bytes` allows. They are placed with the rows of `fit`, in whatever order these come, or with the first
        batch, which decides on scale and width too: begin `partial_fit` with a batch of some hundred rows of all
        classes, since later rows move none of these. "fourier" is 2,000
        random Fourier features instead, which depend on `random_state` and a given `gamma` alone and hold no rows:
        models with the same seed merge though neither saw the other's rows.
    placement : {"auto", "rows", "centres", "fourier"}
        "rows" draws rows, equally many of each class. "centres" draws rows in proportion to what a first model on a
        quarter of the landmarks (at most 500) leaves unexplained, and moves each to the mean of the rows of its class
        nearest to it. "auto" is "centres" for dense rows and a named kernel, else "rows". "fourier" makes
        `landmarks` the number of Fourier features.
    head : {"auto", "best"} or str
        Or "gaussian", "nearest_mean", "cosine", "regression", "quadratic", "logistic", "hinge", "mixture".
        What `predict` uses inside the subspace: Gaussian classes with the shared covariance W(S_w + ρI)Wᵀ, ρ the
        automatic ridge of KernelFisherDiscriminant, and the observed priors ("auto"); the nearest class mean; the
        cosine to the class means; least squares on the classes; a covariance per class, logistic regression, or a
        linear support vector machine a class, trained on a sample of 2,048 rows; or a mixture. "best" keeps
        that sample too, and takes the one that errs least on parts of it, held out in turn from the
        statistics; it is calibrated there.
    memory_bytes : int
        Memory limit in bytes for statistics and solution, about 64·m², 2 GiB by default. "auto" and "fourier" take as
        many landmarks as fit; a number of landmarks that does not fit is refused.
    warm_start : bool
        Whether `fit` keeps landmarks and kernel of the last fit and does not place them again: to try several ridges,
        or for the next rows of the same kind.
    random_state : int, RandomState or None
        The seed of the landmarks. A RandomState, or numpy's own for None, draws one for each fit or stream.
    verbose : int
        Print a line for each block of rows that `fit` has learnt.
    priors : {"observed", "uniform"}, array-like of shape (n_classes,) or None
        The shares of the classes where the model will be used, in the order of `classes_`; None is "observed". S_b
        weighs the class means by them, and with any head the logarithm of a probability moves by log(given /
        observed). S_w and all choices are those of the rows. Not for several labels per row.
    scale : {"auto", True, False}
        Whether each column is divided by its standard deviation first, so that the distance means the same for all of
        them; the answers are for the rows as they come. Sparse rows are not centred. "auto" tries both when the
        landmarks are placed, and divides if that errs less, by the leave-one-out errors that choose `gamma`. It takes
        the rows as they are if γ is a number, for several labels per row, Fourier features, landmarks given as rows, a
        kernel that is a callable, and fewer than ten rows. The deviations are those of the rows of `fit`, of the first
        batch, or of the landmarks if they are given as rows.

    Attributes
    ----------
    components_ : array of shape (n_components, m)
        The directions in an orthonormal basis of the span of the landmarks, best first, orthonormal.
    coefficients_ : array of shape (n_components, m)
        The same as combinations of landmarks: a feature is Σ_j a_j k(x, landmark_j) less its mean.
    eigenvalues_ : array of shape (n_components,)
        What each direction adds to the criterion: eigenvalues of S_b − ε S_w.
    criterion_ratio_ : array of shape (n_components,)
        Each eigenvalue over the sum of all positive ones.
    landmarks_ : array or sparse matrix of shape (m, n_features_in_)
        The landmarks kept: those that are linearly independent in the feature space.
    gamma_ : float
        The factor γ in use.
    scale_ : array of shape (n_features,) or None
        The standard deviations by which the columns are divided; None if they are taken as they are.
    scale_reason_ : str
        Why they are divided, or are not.
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    class_counts_ : array of shape (n_classes,)
        The weight of each class.
    class_means_ : array of shape (n_classes, m)
        The mean of each class in the orthonormal basis.
    mean_ : array of shape (m,)
        The mean of all rows there.
    n_samples_seen_ : int
        The number of rows of positive weight learnt.
    n_features_in_ : int
        The width of the rows.
    feature_names_in_ : array of shape (n_features_in_,)
        The column names, where the rows had them.
    solver_ : str
        The solver that found the directions.
    head_ : str
        The head in use.
    choice_ : Choice or None
        With head="best" the losses of the `heads` that were compared, and how γ and the scale were chosen if they were.

    See Also
    --------
    KernelFisherDiscriminant : The ratio in place of the difference, on the same landmarks.
    kampong.MarginSubspace : The same without a kernel.

    References
    ----------
    Li, Jiang and Zhang, Efficient and robust feature extraction by maximum margin criterion, NIPS 2004, section 4.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from kampong import KernelMarginSubspace
    >>> X, y = load_wine(return_X_y=True)
    >>> KernelMarginSubspace(epsilon=0.5).fit(X, y).transform(X).shape
    (178, 2)
    """

    def __init__(
        self,
        n_components: Any = "auto",
        *,
        epsilon: float = 1.0,
        kernel: Any = "rbf",
        gamma: Any = "mean",
        degree: float = 3.0,
        coef0: float = 0.0,
        landmarks: Any = "auto",
        placement: str = "auto",
        head: str = "auto",
        memory_bytes: int = 2**31,
        warm_start: bool = False,
        random_state: Any = 0,
        verbose: int = 0,
        priors: str | list[float] = "observed",
        scale: bool | str = "auto",
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.landmarks = landmarks
        self.placement = placement
        self.head = head
        self.memory_bytes = memory_bytes
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.priors = priors
        self.scale = scale

    def _kind(self) -> type[Criterion]:
        return MarginCriterion

    def _value(self, statistics: ClassMeans | None) -> float | None:
        name, step = type(self).__name__, "0 weighs the class means alone."
        return check_number(name, "epsilon", self.epsilon, low=0.0, high=1e300, next_step=step)

    def _recipe(self) -> Recipe:
        """Return what is asked for; with as many landmarks as rows S_w may vanish, and the head needs a ridge."""
        return replace(super()._recipe(), head_ridge=self._head_ridge())

    def _head_ridge(self) -> float:
        return landmark_ridge(self._statistics) * self._statistics.within_trace

    def _trial(self, inside: Inside, components: Float, value: float) -> Evidence | None:
        ridge = self._head_ridge()
        statistics = self._statistics.in_rows()
        trial = choose_parameter(MarginCriterion, statistics, self._wanted(), self.head, value, ridge)[2]
        return None if trial is None else trial.evidence(inside, components)

    def _placed(self, X: Rows, y: Any, weights: Float) -> KernelScatter:
        if is_indicator(y):
            raise ValueError(
                f"KernelMarginSubspace: y has shape {y.shape}, but a row has one label here: without a ridge, as many "
                "landmarks as rows fit every label. Use KernelFisherDiscriminant for several labels per row."
            )
        return super()._placed(X, y, weights)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = tags.classifier_tags.multi_label = False
        return tags
