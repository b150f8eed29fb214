"""New landmarks in a kernel stream: exact while all rows are kept, validated by later rows, resumed bit for bit."""

import threading
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

import kampong
from kampong.estimators.stream_model import KernelModel
from kampong.files import CheckpointError, read, write
from kampong.files.saved_models import unpack
from kampong.kernels.functions import make_kernel
from kampong.kernels.landmarks import LandmarkBasis
from kampong.statistics.kernel_scatter import KernelScatter
from kampong.streaming import Layout, Source, challenger, learn
from kampong.streaming.challenger import Challenger, begins, next_after
from kampong.streaming.errors import StreamError
from kampong.streaming.model_file import read_model
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
    assert [rows for rows in range(1, 5000) if begins(rows)] == [32, 64, 128, 256, 512, 1024, 2048, 4096]
    assert [next_after(rows) for rows in (1, 31, 32, 33, 63, 64)] == [32, 32, 64, 64, 64, 128]


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
    monkeypatch.setattr(challenger, "SETTINGS", replace(SETTINGS, first_choice=2**40))
    never = learn(source(tmp_path / "a.csv"), model())
    assert len(never.model.landmarks_) < 150
    assert anew.counters.scored == never.counters.scored
    assert anew.counters.accuracy > never.counters.accuracy + 0.05


@pytest.mark.parametrize(
    ("alone", "estimated", "wins"),
    [
        ((0, 0), False, True),
        ((6, 10), False, True),  # 4 rows, and a standard error is 4
        ((6, 11), False, False),
        ((0, 0), True, False),
        ((16, 6), True, True),  # 10 rows, and two standard errors are 9.4
        ((15, 6), True, False),
    ],
)
def test_who_stays(alone, estimated, wins):
    X, y = rings(300)
    learnt = model().partial_fit(X, y)
    one = Challenger(KernelModel(learnt), learnt.freeze(), 256)
    one.alone[:], learnt._statistics.estimated = alone, estimated
    assert one.wins is wins


def test_the_worse_one_goes_and_nothing_of_the_model_changes(tmp_path, monkeypatch):
    write_rings(tmp_path / "a.csv", 700)
    monkeypatch.setattr(Challenger, "wins", property(lambda _: False))
    lost = learn(source(tmp_path / "a.csv"), model(), model_file=str(tmp_path / "lost"))
    monkeypatch.setattr(KernelScatter, "placed_anew", lambda *_: None)
    none = learn(source(tmp_path / "a.csv"), model(), model_file=str(tmp_path / "none"))
    assert lost.counters == none.counters
    np.testing.assert_array_equal(lost.model.landmarks_, none.model.landmarks_)
    np.testing.assert_array_equal(lost.model._statistics.within_scatter(), none.model._statistics.within_scatter())


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


def test_stopped_while_both_are_compared_and_resumed_with_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "SMALLEST", 256)
    monkeypatch.setattr(blocks, "LARGEST", 512)
    write_rings(tmp_path / "a.csv", 700)
    whole = {"model_file": str(tmp_path / "whole"), "out": str(tmp_path / "whole.csv")}
    learn(source(tmp_path / "a.csv"), model(), **whole)
    pieces = {"model_file": str(tmp_path / "m"), "out": str(tmp_path / "m.csv")}
    compared = 0
    for _ in range(700):
        stop = threading.Event()
        run = learn(source(tmp_path / "a.csv"), model(), stop=stop, watch=lambda _, stop=stop: stop.set(), **pieces)
        compared += read_model(str(tmp_path / "m"))[1].course.challenger is not None
        if run.finished:
            break
    assert run.finished
    assert compared > 5
    assert without_clock(tmp_path / "m") == without_clock(tmp_path / "whole")
    assert (tmp_path / "m.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def stopped_between(folder, rows, stop_at):
    """Learn this many rows of a stream, so that a challenger is saved; return its file."""
    write_rings(folder / "a.csv", rows)
    stop = threading.Event()

    def watch(run):
        if run.counters.rows >= stop_at:
            stop.set()

    learn(source(folder / "a.csv"), model(), model_file=str(folder / "m"), stop=stop, watch=watch)
    return str(folder / "m")


def test_lies_about_it_are_refused(tmp_path):
    arrays, facts = read(stopped_between(tmp_path, 600, 520))
    name = "stream.challenger."
    assert facts["stream"]["challenger.since"] == 512
    rows = facts["stream"]["counters.rows"]
    assert 512 <= rows < 640
    lies = {
        "since is": {"challenger.since": 511},
        "since is 256": {"challenger.since": 256},
        "since is 1024": {"challenger.since": 1024},
    }
    for said, lie in lies.items():
        write(str(tmp_path / "lie"), arrays, {**facts, "stream": {**facts["stream"], **lie}})
        with pytest.raises(CheckpointError, match=said):
            read_model(str(tmp_path / "lie"))
    for said, alone in {"alone": [-1, 0], "alone counts more": [rows - 512, rows - 512]}.items():
        write(str(tmp_path / "lie"), {**arrays, f"{name}alone": np.array(alone)}, facts)
        with pytest.raises(CheckpointError, match=said):
            read_model(str(tmp_path / "lie"))
    counts = next(key for key in arrays if key.startswith(name) and key.endswith("statistics.counts"))
    for key in (f"{name}alone", counts):
        write(str(tmp_path / "lie"), {other: array for other, array in arrays.items() if other != key}, facts)
        with pytest.raises(CheckpointError):
            read_model(str(tmp_path / "lie"))
    numbers = counts.replace("counts", "numbers")
    fewer = {**arrays, numbers: arrays[numbers] - [1, 0]}
    form = counts.replace("counts", "form")
    fewer[form] = arrays[form] - [0, 1, 0, 0]
    write(str(tmp_path / "lie"), fewer, facts)
    with pytest.raises(CheckpointError, match="it has not learnt the rows that the model has"):
        read_model(str(tmp_path / "lie"))


def test_rows_that_are_unlearnt_leave_it_too(tmp_path):
    name = stopped_between(tmp_path, 600, 520)
    assert read_model(name)[1].course.challenger is not None
    (tmp_path / "b.csv").write_text("\n".join((tmp_path / "a.csv").read_text().splitlines()[:6]) + "\n")
    unlearn(source(tmp_path / "b.csv"), name, str(tmp_path / "receipt"))
    assert read_model(name)[1].course.challenger is None


def test_unlearning_after_an_estimate_says_why_not(tmp_path, monkeypatch):
    monkeypatch.setattr(Challenger, "wins", property(lambda _: True))
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
    monkeypatch.setattr(challenger, "SETTINGS", replace(SETTINGS, few_landmarks=32, most_landmarks=64))
    monkeypatch.setattr("kampong.estimators.kernel_subspace.KEPT", 128)
    sizes = {}
    for rows in (1100, 2100, 8300, 16500):  # each a little after a doubling, while both are kept
        folder = tmp_path / str(rows)
        folder.mkdir()
        write_rings(folder / "a.csv", rows)
        learn(source(folder / "a.csv"), model(), model_file=str(folder / "m"))
        state = read_model(str(folder / "m"))[1]
        assert state.course.challenger is not None
        both = state.course.challenger.model.estimator, read_model(str(folder / "m"))[0]
        # the first landmarks are rows of the first block
        assert all(len(one.landmarks_) <= 256 and one._statistics.kept.n_kept <= 128 for one in both)
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
