"""The generated data are the published ones, where those are at hand, and have their known properties elsewhere."""

import numpy as np
import pytest

from kampong.datasets import balance_scale, monk_problem, sparse_text, waveform


def rows_and_labels(X, y):
    return sorted((*map(float, row), str(label)) for row, label in zip(X, y, strict=True))


def test_balance_scale_is_the_published_design(real_data):
    X, y = real_data("balance_scale")
    ours, labels = balance_scale()
    assert rows_and_labels(ours, labels) == rows_and_labels(X, np.array(["L", "B", "R"])[y])


def test_balance_scale_has_identity_covariance_times_two():
    X, _ = balance_scale()
    np.testing.assert_allclose(np.cov(X.T, bias=True), 2 * np.eye(4), atol=1e-12)


def test_monk_problem_is_the_published_one(real_data):
    X, y = real_data("monks1")
    ours, labels = monk_problem()
    rule = {tuple(row): label for row, label in zip(ours, labels, strict=True)}
    shift = 1 - X.min()
    assert [rule[tuple(row + shift)] for row in X] == y.tolist()


def test_waveform_classes_mix_two_triangles():
    X, y = waveform(60_000, random_state=0)
    point = np.arange(1, 22)
    triangles = [np.maximum(6 - np.abs(point - peak), 0) for peak in (11, 15, 7)]
    for k, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        np.testing.assert_allclose(X[y == k].mean(axis=0), (triangles[i] + triangles[j]) / 2, atol=0.06)
    residual = X[y == 0][:, [0, 1, 2]]
    np.testing.assert_allclose(residual.var(axis=0), 1.0, atol=0.05)


def test_waveform_looks_like_the_published_sample(real_data):
    X, y = real_data("waveform21")
    ours, labels = waveform(len(X), random_state=1)
    theirs = sorted((X[y == k].mean(axis=0) for k in range(3)), key=lambda m: m[6])
    mine = sorted((ours[labels == k].mean(axis=0) for k in range(3)), key=lambda m: m[6])
    np.testing.assert_allclose(mine, theirs, atol=0.2)


def test_sparse_text_is_sparse_unit_length_and_repeats():
    X, y = sparse_text(500, 2000, 30, n_classes=3, random_state=7)
    again, labels = sparse_text(500, 2000, 30, n_classes=3, random_state=7)
    assert (again != X).nnz == 0
    np.testing.assert_array_equal(y, labels)
    np.testing.assert_allclose(X.multiply(X).sum(axis=1), 1.0)
    assert X.has_canonical_format
    assert X.nnz <= 500 * 30


@pytest.mark.parametrize("classes", [2, 4])
def test_sparse_text_has_classes_to_find(classes):
    from kampong import InterClassScatter

    X, y = sparse_text(4000, 1000, 40, n_classes=classes, random_state=0)
    assert InterClassScatter().fit(X[:3000], y[:3000]).score(X[3000:], y[3000:]) > 1.3 / classes
