"""The tuned numbers of selection, in one place: what each means, its unit, and the benchmark that measures it.

Benchmarks are named as `python -m benchmarks NAME`: "tables" and "defaults" measure errors, "stages" measures time.
Limits of floating-point numbers stay where they are used.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Numbers that the data at hand have set; none of them is a parameter of an estimator.

    Attributes
    ----------
    slack : float
        Selection loss: a simpler candidate (a simpler head, columns as they are) may lose so much more ("tables").
    label_slack : float
        Factor: with several labels per row a simpler head may have this many times the log-loss ("defaults").
    fewest_rows : int
        Rows: fewer validation rows choose nothing ("tables").
    least_left : float
        Share of a class: a row that leaves less of its class is no validation row ("tables").
    cross_fit_rows : int
        Rows below which a logistic head is not offered ("tables").
    folds : int
        Folds in which few rows are held out where leave-one-out has no closed form, over which a head of yours is
        cross-fitted, and parts of the rows of which one validates a trained head ("defaults", "tables").
    single_fold_rows : int
        Rows: an eighth of all rows is one fold, if it has this many ("defaults").
    validation_rows : int
        Rows held out at most; errors are then known to half a percent ("defaults").
    narrow_rows, wide_rows : int
        Validation rows at most of leave-one-out, up to `exact_columns` columns and above; the latter also choose a
        shrinkage, and all that is provisional ("stages").
    curve_scores : int
        Rows × classes on which a parameter or a head is chosen at most, if the classes are many ("stages").
    labelled_share : float
        Share of rows with a label below which several labels per row choose no head ("defaults").
    leave_one_out_columns : int
        Columns up to which one eigendecomposition of S_w costs less than a Krylov space ("stages").
    exact_columns : int
        Columns up to which all directions are used: by the space of a choice, and by trained heads ("stages").
    quadratic_gain : float
        Factor: where one covariance per class lowers the log-loss below this part, logistic regression is not tried;
        it saves its time ("stages") and changes no error ("tables").
    logistic_cost : float
        Rows × classes × columns up to which logistic regression is solved exactly ("stages").
    logistic_scatters : float
        Classes per column: above it, one step of logistic regression costs far more than the scatter, so it is not
        tried where it costs more than `logistic_cost` ("stages").
    logistic_columns_cost : float
        Rows × classes × columns up to which logistic regression sees all columns ("stages").
    logistic_columns_penalty : float
        Its L2 penalty where it is trained by batches ("defaults").
    logistic_passes_cost : float
        Rows × classes × columns that all its passes over batches take ("stages").
    logistic_rows : int
        Rows at most that train it while it is compared ("stages").
    logistic_steps, logistic_weak_penalty : int, float
        Steps and L2 penalty where it is not solved exactly: to stop early is a penalty too ("defaults").
    hinge_rows : int
        Rows that support vector machines on all columns of text need ("defaults").
    hinge_last_epochs : int
        Passes over the rows that add the validation rows in the end ("defaults").
    hinge_spared_share : float
        Share of the rows which they need not learn if these are validation rows ("stages").
    hinge_bytes : int
        Bytes of their weights at most.
    regrowth : float
        Factor: their weights are kept until there are this many times the rows ("stages").
    training_rows, training_bytes : int
        Rows that train a head at most, and bytes of their coordinates.
    label_rows, label_cost, label_steps, label_rows_per_direction : int
        Several labels per row: rows that train logistic regression at most, rows × labels × directions at most, steps
        of L-BFGS, and rows per direction below which it is not tried ("defaults").
    head_rows, head_rows_per_direction : int
        Rows on which `fit` measures the covariance of a head where no scatter is kept: good to 2 % ("stages").
    """

    slack: float = 0.002
    label_slack: float = 1.002
    fewest_rows: int = 10
    least_left: float = 1e-3
    cross_fit_rows: int = 100
    folds: int = 5
    single_fold_rows: int = 512
    validation_rows: int = 8192
    narrow_rows: int = 2048
    wide_rows: int = 1024
    curve_scores: int = 2**18
    labelled_share: float = 0.99
    leave_one_out_columns: int = 1024
    exact_columns: int = 64
    quadratic_gain: float = 0.8
    logistic_cost: float = 5e6
    logistic_scatters: float = 4.0
    logistic_columns_cost: float = 4e8
    logistic_columns_penalty: float = 5e-3
    logistic_passes_cost: float = 6e8
    logistic_rows: int = 6144
    logistic_steps: int = 20
    logistic_weak_penalty: float = 1e-4
    hinge_rows: int = 1000
    hinge_last_epochs: int = 1
    hinge_spared_share: float = 1 / 32
    hinge_bytes: int = 2**29
    regrowth: float = 1.5
    training_rows: int = 2**18
    training_bytes: int = 2**28
    label_rows: int = 2**14
    label_cost: int = 2**31
    label_steps: int = 60
    label_rows_per_direction: int = 20
    head_rows: int = 2**13
    head_rows_per_direction: int = 200


SETTINGS = Settings()
"""The settings in use."""
