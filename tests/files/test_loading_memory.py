"""Small files that claim large sizes: refused before memory of that size is used."""

import tracemalloc

import numpy as np
import pytest
from sklearn.datasets import load_iris

import kampong
from kampong import CheckpointError, FisherDiscriminant, InterClassScatter, KernelFisherDiscriminant
from kampong.files.container import encode
from kampong.files.contents import to_lines
from kampong.files.saved_models import pack

X, Y = load_iris(return_X_y=True)
LEARNT = "model.learnt."


def peak_of(arrays, facts):
    """Load a lie under a right digest; return its size and the most memory in use meanwhile."""
    data = encode(arrays, facts)
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError) as caught:
            kampong.from_bytes(data)
        return len(data), tracemalloc.get_traced_memory()[1], str(caught.value)
    finally:
        tracemalloc.stop()


def fourier():
    return pack(KernelFisherDiscriminant(landmarks=8, placement="fourier").fit(X, Y))


def lie_fourier():
    arrays, facts = fourier()
    facts["model"]["state"]["learnt.basis.n_fourier"] = 2**20
    facts["model"]["state"]["n_features_in_"] = 2**12
    return arrays, facts


def lie_width(model):
    def lie():
        arrays, facts = pack(model)
        facts["model"]["state"]["n_features_in_"] = 2**20
        return arrays, facts

    return lie


def lie_landmarks():
    arrays, facts = pack(KernelFisherDiscriminant(landmarks=8).fit(X[:, :1], Y))
    facts["model"]["state"]["learnt.basis.n_landmarks"] = 30_000
    arrays[LEARNT + "basis.landmarks.data"] = np.linspace(0, 1, 30_000)[:, None]
    return arrays, facts


def lie_labels(dtype):
    def lie():
        arrays, facts = pack(InterClassScatter().fit(X, Y))
        names = [*map(str, range(1000)), "x" * 900_000]
        part = LEARNT + "statistics.labels"
        arrays[part + ".values"] = to_lines(names)
        facts["model"]["state"]["learnt.statistics.labels.dtype"] = dtype
        return arrays, facts

    return lie


def lie_predictor_labels():
    model = InterClassScatter().fit(X, Y.astype(str))
    model._before_save()
    arrays, facts = pack(model)
    arrays[LEARNT + "predictor.classes.values"] = to_lines([f"{number:04d}" for number in range(2000)])
    facts["model"]["state"]["learnt.predictor.classes.dtype"] = "<U999999"
    return arrays, facts


LIES = {
    "Fourier features": lie_fourier,
    "the width of a scatter": lie_width(FisherDiscriminant(ridge=0.1).fit(X, Y)),
    "the width of class means": lie_width(InterClassScatter().fit(X, Y)),
    "landmarks": lie_landmarks,
    "one long label": lie_labels("<U0"),
    "labels that claim a width": lie_labels("<U999999"),
    "a predictor's labels": lie_predictor_labels,
}


@pytest.mark.parametrize("name", LIES)
def test_what_a_file_claims_is_not_allocated(name):
    size, peak, said = peak_of(*LIES[name]())
    assert "bytes in memory: the state of" in said
    assert peak < 40 * 2**20 + 30 * size  # JSON as Python objects, and arrays of the bytes that came


def test_fourier_frequencies_come_back_when_they_are_needed():
    model = KernelFisherDiscriminant(landmarks=8, placement="fourier").fit(X, Y)
    again = kampong.from_bytes(model.to_bytes())
    assert "frequencies" not in vars(again._basis())
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.frequencies_, model.frequencies_)


def test_no_memory_is_an_error_of_the_file(monkeypatch):
    data = InterClassScatter().fit(X, Y).to_bytes()

    def none(*_, **__):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(InterClassScatter, "_from_state", none)
        with pytest.raises(CheckpointError, match=r"does not fit into memory\. Load it on a machine with more"):
            kampong.from_bytes(data)
    monkeypatch.setattr("kampong.files.container._bytes", none)
    with pytest.raises(CheckpointError, match=r"bytes do not fit into memory\. Load it"):
        kampong.from_bytes(data)


def test_an_array_named_twice_as_stored_by_columns_is_refused():
    import hashlib
    import json
    import struct

    from kampong.files.container import FORMAT, FRAME, MAGIC, START

    inner = json.dumps({"facts": {}, "columnwise": ["a"] * 1000})
    header = {"__metadata__": {"kampong": inner}, "a": {"dtype": "F64", "shape": [1, 1], "data_offsets": [0, 8]}}
    text = json.dumps(header).encode()
    document = struct.pack("<Q", len(text)) + text + bytes(8)
    start = FRAME.pack(MAGIC, FORMAT, 0, len(document), 0, b"")[:START]
    with pytest.raises(CheckpointError, match="it names an array twice"):
        kampong.from_bytes(start + hashlib.sha256(start + document).digest() + document)
