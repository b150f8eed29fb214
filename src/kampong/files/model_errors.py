"""What goes wrong with files and models."""

from __future__ import annotations


class CheckpointError(ValueError):
    """A file or model cannot be saved or loaded; the message names it and says what to do.

    Examples
    --------
    >>> import tempfile
    >>> from kampong import CheckpointError, load
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     try:
    ...         load(file.name)
    ...     except CheckpointError as error:
    ...         "this is not a model file of kampong" in str(error)
    True
    """


class CriterionWarning(UserWarning):
    """The request is met, but not with directions that raise the criterion; the text says what would.

    Examples
    --------
    >>> import warnings
    >>> from sklearn.datasets import load_iris
    >>> from kampong import CriterionWarning, MaximumMarginCriterion
    >>> X, y = load_iris(return_X_y=True)
    >>> with warnings.catch_warnings(record=True, category=CriterionWarning) as told:
    ...     warnings.simplefilter("always")
    ...     model = MaximumMarginCriterion(3).fit(X, y)  # only one direction raises the criterion
    >>> len(told)
    1
    """
