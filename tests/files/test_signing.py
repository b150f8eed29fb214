"""Signed model files: opened with their key alone, and with a key nothing else is opened; every command takes one."""

import hashlib
import hmac
import os
import stat

import numpy as np
import pytest

import kampong
from command import call
from kampong.adapters.federated import combine, contribution
from kampong.files import CheckpointError, read, write
from kampong.files.container import FRAME, START
from kampong.files.signing import fingerprint, make_key
from stream_problems import write_points

KEY, OTHER = b"k" * 32, b"o" * 32
ARRAYS, FACTS = {"means": np.arange(6.0).reshape(2, 3)}, {"name": "a"}


@pytest.fixture
def signed(tmp_path):
    """Return a folder with a signed file, a plain one, and the keys."""
    write(tmp_path / "signed", ARRAYS, FACTS, key=KEY)
    write(tmp_path / "plain", ARRAYS, FACTS)
    (tmp_path / "key").write_bytes(KEY)
    return tmp_path


def test_the_signature_is_the_hmac_of_the_standard(signed):
    data = (signed / "signed").read_bytes()
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in KEY.ljust(64, b"\0")) + data[:START] + data[FRAME.size :]).digest()
    outer = hashlib.sha256(bytes(b ^ 0x5C for b in KEY.ljust(64, b"\0")) + inner).digest()  # RFC 2104, written out
    assert data[START : FRAME.size] == outer
    assert data[FRAME.size :] == (signed / "plain").read_bytes()[FRAME.size :]  # the document stays what it was


@pytest.mark.parametrize("how", ["bytes", "file", "path"])
def test_a_signed_file_is_opened_with_its_key(signed, how):
    key = {"bytes": KEY, "file": str(signed / "key"), "path": signed / "key"}[how]
    arrays, facts = read(signed / "signed", key=key)
    assert np.array_equal(arrays["means"], ARRAYS["means"])
    assert facts == FACTS


def test_a_signed_file_is_refused_without_a_key_and_with_another(signed):
    mark = f"{fingerprint(KEY):016x}"
    with pytest.raises(CheckpointError, match=rf"signed: this checkpoint is signed, with the key of .* {mark}.*--key"):
        read(signed / "signed")
    with pytest.raises(CheckpointError, match=rf"signed with another key, of fingerprint {mark}; the key that was"):
        read(signed / "signed", key=OTHER)


def test_a_file_that_is_not_signed_is_refused_where_a_key_is_given(signed):
    with pytest.raises(CheckpointError, match="plain: this checkpoint is not signed, and a key was given"):
        read(signed / "plain", key=KEY)


def test_no_byte_of_a_signed_file_can_be_changed(signed):
    data = (signed / "signed").read_bytes()
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        (signed / "changed").write_bytes(changed)
        with pytest.raises(CheckpointError):
            read(signed / "changed", key=KEY)
        with pytest.raises(CheckpointError):
            read(signed / "changed")


def test_a_forger_without_the_key_gets_nowhere(signed):
    """What someone can write who knows the format and has seen signed files, but not the key."""
    data = (signed / "signed").read_bytes()
    lying = data[FRAME.size :].replace(ARRAYS["means"][0].tobytes(), np.full(3, 9.0).tobytes())
    assert lying != data[FRAME.size :]
    start, plain = data[:START], (signed / "plain").read_bytes()
    forged = {
        "a digest in place of the signature": start + hashlib.sha256(start + lying).digest() + lying,
        "the signature of another file": data[: FRAME.size] + lying,
        "a signature by another key": start + hmac.digest(OTHER, start + lying, "sha256") + lying,
        "not signed at all": plain[:START] + hashlib.sha256(plain[:START] + lying).digest() + lying,
    }
    for content in forged.values():
        (signed / "forged").write_bytes(content)
        with pytest.raises(CheckpointError, match=r"its signature is wrong|is not signed"):
            read(signed / "forged", key=KEY)


def test_a_file_changed_while_it_is_read_is_refused(signed, monkeypatch):
    """The signature is checked first and the arrays are read after it: what is used must be what was signed."""
    from kampong.files import container

    check, path = container._Reader._check_frame, signed / "signed"

    def change_after_the_check(self):
        found = check(self)
        with path.open("r+b") as other:
            other.seek(-8, os.SEEK_END)
            other.write(np.float64(99.0).tobytes())
        return found

    monkeypatch.setattr(container, "BLOCK", 64)
    monkeypatch.setattr(container._Reader, "_check_frame", change_after_the_check)
    with pytest.raises(CheckpointError, match="changed while it was read"):
        read(path, key=KEY)


@pytest.mark.parametrize(
    ("key", "kind", "text"),
    [
        (b"short", CheckpointError, r"key: a key has 16 to 4,096 bytes, and this has 5\. Make one with `kampong key"),
        (b"", CheckpointError, "this has 0"),
        (bytes(5000), CheckpointError, "this has more than 4,096"),
        ("nowhere", CheckpointError, r"key nowhere: .* could not be read \(No such file or directory\)"),
        (os.sep, CheckpointError, "could not be read"),
        (7, TypeError, "key: got a int. Give bytes, or the path"),
    ],
)
def test_keys_that_are_none(signed, key, kind, text):
    with pytest.raises(kind, match=text):
        read(signed / "signed", key=key)
    with pytest.raises(kind, match=text):
        write(signed / "new", ARRAYS, FACTS, key=key)
    assert not (signed / "new").exists()


def test_models_and_bytes_are_signed(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3
    model = kampong.FisherDiscriminant(ridge=0.1).fit(X, y)
    model.save(tmp_path / "m", key=KEY)
    assert np.array_equal(kampong.load(tmp_path / "m", key=KEY).predict(X), model.predict(X))
    data = model.to_bytes(key=KEY)
    assert data == (tmp_path / "m").read_bytes()
    assert np.array_equal(kampong.from_bytes(data, key=KEY).transform(X), model.transform(X))
    for open_it in (lambda **key: kampong.load(tmp_path / "m", **key), lambda **key: kampong.from_bytes(data, **key)):
        for wrong in ({}, {"key": OTHER}):
            with pytest.raises(CheckpointError, match="signed"):
                open_it(**wrong)
    with pytest.raises(CheckpointError, match="bytes in memory: this checkpoint is not signed"):
        kampong.from_bytes(model.to_bytes(), key=KEY)


def test_a_server_takes_signed_contributions_alone():
    X, y = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 2
    agreed = kampong.FisherDiscriminant(ridge=0.1)
    letters = [contribution(agreed, X[i::2], y[i::2], number=i, key=KEY, min_class_rows=0) for i in range(2)]
    combined = combine(letters, key=KEY)
    assert np.allclose(combined.decision_function(X), agreed.fit(X, y).decision_function(X))
    stranger = contribution(agreed, X, y, number=2)
    with pytest.raises(CheckpointError, match=r"combine: contribution 2: .* is not signed"):
        combine([*letters, stranger], key=KEY)


def test_a_new_key_is_random_and_its_owner_s(tmp_path):
    mark = make_key(tmp_path / "a")
    make_key(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() != (tmp_path / "b").read_bytes()
    assert mark == f"{fingerprint((tmp_path / 'a').read_bytes()):016x}"
    if os.name == "posix":
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    before = (tmp_path / "a").read_bytes()
    with pytest.raises(CheckpointError, match="this file exists and may hold a key"):
        make_key(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == before
    with pytest.raises(CheckpointError, match="the key could not be written"):
        make_key(tmp_path / "no folder" / "a")


@pytest.fixture
def learnt(tmp_path, capfd, monkeypatch):
    """Return a folder with a signed model of a stream."""
    monkeypatch.chdir(tmp_path)
    write_points(tmp_path / "a.csv", 300)
    for name in ("ours", "theirs"):
        call(capfd, "key", name, "--quiet")
    options = ("learn", "a.csv", "--label", "kind", "--half-life", "none", "--quiet")
    call(capfd, *options, "--model", "m", "--key", "ours")
    call(capfd, *options, "--model", "plain")
    return tmp_path


COMMANDS = {
    "learn": ("learn", "a.csv", "--label", "kind", "--half-life", "none", "--again", "--model", "{model}"),
    "predict": ("predict", "a.csv", "--model", "{model}", "--out", "p.csv"),
    "project": ("project", "a.csv", "--model", "{model}", "--out", "z.csv"),
    "score": ("score", "a.csv", "--model", "{model}"),
    "inspect": ("inspect", "{model}"),
    "report": ("report", "{model}", "--out", "r.html"),
    "merge": ("merge", "{model}", "{model}", "--out", "both"),
    "unlearn": ("unlearn", "few.csv", "--model", "{model}", "--receipt", "r.json"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_opens_signed_models_with_their_key_alone(learnt, capfd, name):
    lines = (learnt / "a.csv").read_text().splitlines()
    (learnt / "few.csv").write_text("\n".join(lines[:5]) + "\n")
    before = {one.name: one.read_bytes() for one in learnt.iterdir()}
    signed = [part.format(model="m") for part in COMMANDS[name]]
    plain = [part.format(model="plain") for part in COMMANDS[name]]
    assert "m: this checkpoint is signed" in call(capfd, *signed, expect=4).err
    assert "m: this checkpoint is signed with another key" in call(capfd, *signed, "--key", "theirs", expect=4).err
    assert "plain: this checkpoint is not signed" in call(capfd, *plain, "--key", "ours", expect=4).err
    assert before == {one.name: one.read_bytes() for one in learnt.iterdir()}
    call(capfd, *signed, "--key", "ours")
    with pytest.raises(CheckpointError, match="is signed"):
        kampong.load("both" if name == "merge" else "m")  # what is written again is signed again
    kampong.load("both" if name == "merge" else "m", key="ours")


def test_the_key_may_come_from_the_environment(learnt, capfd, monkeypatch):
    monkeypatch.setenv("KAMPONG_KEY", "ours")
    assert "accuracy" in call(capfd, "score", "a.csv", "--model", "m").out


def test_a_signed_run_is_resumed_with_its_key(learnt, capfd):
    command = ("learn", "a.csv", "--label", "kind", "--half-life", "none", "--model", "m")
    assert "has learnt this already" in call(capfd, *command, "--key", "ours", expect=6).err


@pytest.mark.parametrize("target", ["--out", "--model", "--dead-letters", "--report"])
def test_no_command_writes_on_the_key(learnt, capfd, target):
    options = {"--model": "new", "--out": "p.csv"} | {target: "ours"}
    command = ("learn", "a.csv", "--label", "kind", *(part for pair in options.items() for part in pair))
    said = call(capfd, *command, "--key", "ours", expect=2).err
    assert f"{target} ours: this is the key, and writing would destroy it" in said
    assert len((learnt / "ours").read_bytes()) == 32
