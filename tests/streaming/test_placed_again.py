"""New landmarks in a kernel stream: exact while all rows are kept, at given rows, resumed bit for bit."""

import threading
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

import kampong
from kampong.files import read
from kampong.files.saved_models import unpack
from kampong.kernels.functions import make_kernel
from kampong.kernels.landmarks import LandmarkBasis
from kampong.statistics.kernel_scatter import KernelScatter
from kampong.streaming import Layout, Source, learn, prediction
from kampong.streaming.errors import StreamError
from kampong.streaming.model_file import read_model
from kampong.streaming.schedule import next_placing, places
from kampong.streaming.settings import SETTINGS
from kampong.streaming.sources import blocks
from kampong.streaming.unlearn_records import unlearn
from stream_problems import without_clock


def rings(rows, *, seed=0, first=0):
    """Return points on three rings of two classes each, in turns along them; the first rows lie on a short arc."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, rows)
    angle[:first] = rng.uniform(0, 0.5, first)
    ring = rng.integers(1, 4, rows)
    y = (np.floor(angle / (np.pi / 3)).astype(int) + ring) % 2
    X = ring[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.05 * rng.normal(size=(rows, 2))
    return np.round(X, 4), y


def write_rings(path, rows, **options):
    X, y = rings(rows, **options)
    path.write_text("\n".join(["x,y,kind", *(f"{a},{b},{'pq'[c]}" for (a, b), c in zip(X.tolist(), y, strict=True))]))
    return X, np.array(["p", "q"])[y]


def source(path):
    return Source(str(path), Layout(label="kind"))


def model(**options):
    return kampong.KernelFisherDiscriminant(**options)


def test_row_numbers_decide():
    assert [rows for rows in range(1, 5000) if places(rows)] == [32, 64, 128, 256, 512, 1024, 2048, 4096]
    assert [next_placing(rows) for rows in (1, 31, 32, 33, 63, 64)] == [32, 32, 64, 64, 64, 128]


def test_while_all_rows_are_kept_the_sums_are_those_of_all_rows(tmp_path):
    X, y = write_rings(tmp_path / "a.csv", 1500)
    run = learn(source(tmp_path / "a.csv"), model())
    found = run.model._statistics
    unscored = X[: 1500 - run.counters.scored].tolist()  # those of the first block were the first landmarks
    assert any(one not in unscored for one in run.model.landmarks_.tolist())
    assert not found.estimated
    whole = KernelScatter(found.basis).update(X, y)
    assert found.n_samples == whole.n_samples == 1500
    np.testing.assert_allclose(found.counts, whole.counts, rtol=1e-12)
    np.testing.assert_allclose(found.means, whole.means, atol=1e-6)
    np.testing.assert_allclose(found.within_scatter(), whole.within_scatter(), atol=1e-6)


def test_after_that_rows_of_the_sample_stand_for_the_others():
    X, y = rings(9000)
    learnt = model(landmarks=40).partial_fit(X, y)
    before = learnt._statistics
    other = learnt._on_new_landmarks(SETTINGS.most_landmarks)
    found = other._statistics
    assert found.estimated
    assert (
        30 < len(found.basis.landmarks) <= 40
    )  # a number that was asked for stays, but for those that depend on others
    assert not found.basis.same_as(before.basis)
    assert (found.n_samples, found.kept.n_kept) == (9000, before.kept.n_kept)
    np.testing.assert_allclose(found.counts, before.counts, rtol=1e-9)
    whole = KernelScatter(found.basis).update(X, y)
    error = np.linalg.norm(found.within_scatter() - whole.within_scatter()) / np.linalg.norm(whole.within_scatter())
    assert 0 < error < 0.15  # 2,048 rows for 9,000: an estimate
    with pytest.raises(ValueError, match="placed again during the stream, when only a sample"):
        other.unlearn(X[:5], y[:5])
    with pytest.raises(ValueError, match="placed again during the stream, when only a sample"):
        other.unlearn_class(1)
    again = unpack(*kampong.files.pack(other))
    assert again._statistics.estimated
    assert other.merge(other)._statistics.estimated
    assert not unpack(*kampong.files.pack(learnt))._statistics.estimated


def test_given_landmarks_and_fourier_features_stay():
    X, y = rings(300)
    for given in ("fourier", X[:20]):
        assert model(landmarks=given, gamma=1.0).partial_fit(X, y)._on_new_landmarks(100) is None
    few = model(landmarks=20, memory_bytes=2**29).partial_fit(X, y)
    few.landmarks = "auto"
    few.memory_bytes = 2 * (2 * 64 * 2**20 + 10_000)  # room for a few landmarks beside the blocks of kernel values
    assert 1 <= len(few._on_new_landmarks(100).landmarks_) < 20


def test_a_beginning_that_does_not_represent_the_stream_is_overcome(tmp_path, monkeypatch):
    write_rings(tmp_path / "a.csv", 2400, first=300)
    anew = learn(source(tmp_path / "a.csv"), model())
    monkeypatch.setattr(prediction, "places", lambda _: False)
    never = learn(source(tmp_path / "a.csv"), model())
    assert len(never.model.landmarks_) < 150
    assert anew.counters.scored == never.counters.scored
    assert anew.counters.accuracy > never.counters.accuracy + 0.05


@pytest.mark.parametrize("where", ["_on_new_landmarks", "_learn"])
def test_a_kernel_that_fails_on_new_landmarks_does_not_end_the_stream(tmp_path, monkeypatch, where):
    write_rings(tmp_path / "a.csv", 700)
    given, kind = model(), kampong.KernelFisherDiscriminant
    works = getattr(kind, where)

    def fails(self, *values):
        if where == "_learn" and self is given:
            return works(self, *values)
        raise ValueError("infinite")

    monkeypatch.setattr(kind, where, fails)
    run = learn(source(tmp_path / "a.csv"), given)
    assert run.counters.rows == 700
    assert len(run.model.landmarks_) < 200


def test_a_class_that_the_sample_lacks_is_not_lost():
    X, y = rings(6000)
    y = np.where(np.arange(6000) == 17, 2, y)
    lacking = 0
    for seed in range(6):
        learnt = model(landmarks=30, random_state=seed).partial_fit(X, y)
        anew = learnt._on_new_landmarks(30)
        lacking += anew is None
        assert anew is None or anew._statistics.counts.tolist() == pytest.approx(learnt._statistics.counts.tolist())
    assert lacking > 0


def test_stopped_and_resumed_with_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "SMALLEST", 256)
    monkeypatch.setattr(blocks, "LARGEST", 512)
    write_rings(tmp_path / "a.csv", 700)
    whole = {"model_file": str(tmp_path / "whole"), "out": str(tmp_path / "whole.csv")}
    learn(source(tmp_path / "a.csv"), model(), **whole)
    pieces = {"model_file": str(tmp_path / "m"), "out": str(tmp_path / "m.csv")}
    stops = 0
    for _ in range(700):
        stop = threading.Event()
        run = learn(source(tmp_path / "a.csv"), model(), stop=stop, watch=lambda _, stop=stop: stop.set(), **pieces)
        stops += 1
        if run.finished:
            break
    assert run.finished
    assert stops > 5
    assert without_clock(tmp_path / "m") == without_clock(tmp_path / "whole")
    assert (tmp_path / "m.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_unlearning_after_an_estimate_says_why_not(tmp_path):
    write_rings(tmp_path / "a.csv", 5300)
    run = learn(source(tmp_path / "a.csv"), model(), model_file=str(tmp_path / "m"))
    assert run.model._statistics.estimated
    before = (tmp_path / "m").read_bytes()
    (tmp_path / "b.csv").write_text("\n".join((tmp_path / "a.csv").read_text().splitlines()[:6]) + "\n")
    with pytest.raises(StreamError, match="Learn again without the rows"):
        unlearn(source(tmp_path / "b.csv"), str(tmp_path / "m"), str(tmp_path / "receipt"))
    assert (tmp_path / "m").read_bytes() == before


def test_memory_does_not_grow_with_the_stream(tmp_path, monkeypatch):
    """Limits are made small, so that a short stream reaches them."""
    monkeypatch.setattr(prediction, "SETTINGS", replace(SETTINGS, most_landmarks=64))
    monkeypatch.setattr("kampong.estimators.kernel_subspace.KEPT", 128)
    sizes = {}
    for rows in (1100, 2100, 8300, 16500):
        folder = tmp_path / str(rows)
        folder.mkdir()
        write_rings(folder / "a.csv", rows)
        learn(source(folder / "a.csv"), model(), model_file=str(folder / "m"))
        found = read_model(str(folder / "m"))[0]
        assert len(found.landmarks_) <= 64
        assert found._statistics.kept.n_kept <= 128
        arrays = read(str(folder / "m"))[0]
        sizes[rows] = sum(array.nbytes for name, array in arrays.items() if "history" not in name)
    assert sizes[16500] < 1.3 * sizes[2100]


def test_a_basis_that_left_landmarks_out_comes_back_with_the_same_bits():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    kernel = make_kernel("a test", "rbf", X, gamma=0.3, degree=3, coef0=0.0)
    basis = LandmarkBasis(kernel, X)
    assert basis.rank < 300
    again = LandmarkBasis(kernel, basis.landmarks)
    assert again.rank == basis.rank
    assert again.root.tobytes() == basis.root.tobytes()
