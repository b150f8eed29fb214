"""Connections that want nothing: a run with a live page goes on, saves, and ends as if they had not come."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

import numpy as np
import pytest

import kampong

pytest.importorskip("tornado", reason="the live page needs the `stream` extra")
pytest.importorskip("msgspec", reason="the live page needs the `stream` extra")
pytest.importorskip("pyarrow", reason="the live page needs the `stream` extra")
pytest.importorskip("resource", reason="descriptors are limited on POSIX alone")

import resource

from command import call
from kampong.report import admission
from kampong.report.live import LivePage

LIMIT, SILENT = 200, 220
OPTIONS = ("--format", "csv", "--label", "kind", "--checkpoint-every", "0.05")
LIMITED = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT}, {LIMIT}))
sys.argv[0] = "kampong"
from kampong.__main__ import main
main()
"""


def lines(n_rows, seed):
    """Return rows of three classes as lines of CSV."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(3, size=n_rows)
    X = rng.normal(size=(n_rows, 4)) + codes[:, None]
    return [",".join([*(f"{value:.3f}" for value in row), f"c{code}"]) for row, code in zip(X, codes, strict=True)]


class Limited:
    """`kampong learn -` with few descriptors, fed by hand."""

    def __init__(self, folder, *options):
        self.model = folder / "model.kampong"
        self.said = folder / "said"
        with self.said.open("wb") as said:
            self.process = self._start(said, options)

    def _start(self, said, options):
        return subprocess.Popen(
            [sys.executable, "-c", LIMITED, "learn", "-", *OPTIONS, "-m", str(self.model), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=said,
            env={**os.environ, "NO_COLOR": "1"},
        )

    def feed(self, rows):
        self.process.stdin.write(("\n".join(rows) + "\n").encode())
        self.process.stdin.flush()

    def until(self, condition):
        """Wait until something holds, while the process lives."""
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            found = condition()
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(f"in vain; exit code {self.process.poll()}: {self.said.read_text()[:2000]}")

    def address(self):
        """Return the address of the live page, once it is printed."""
        text = self.said.read_text()
        return text.split("Live page: ")[1].split("\n")[0] if "Live page: " in text and "\n" in text else ""


def silent(stack, port, count):
    """Open connections that say nothing."""
    for _ in range(count):
        stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="token made"),
        pytest.param(("--token", "correct horse"), id="token given", marks=pytest.mark.slow),
        pytest.param(("--no-token",), id="no token", marks=pytest.mark.slow),
    ],
)
def test_silent_connections_change_nothing_about_a_run(tmp_path, options):
    rows = ["a,b,c,d,kind", *lines(600, 0)]  # fewer bytes than a pipe holds, so all are read at once
    (tmp_path / "alone").mkdir()
    (tmp_path / "served").mkdir()
    alone = Limited(tmp_path / "alone")
    alone.feed(rows)
    alone.process.stdin.close()
    assert alone.process.wait(60) == 0
    run = Limited(tmp_path / "served", "--serve", *options)
    try:
        run.feed(rows)
        port = urlsplit(run.until(run.address)).port
        with ExitStack() as stack:
            silent(stack, port, SILENT)
            run.process.stdin.close()
            run.until(lambda: "stays until Ctrl-C" in run.said.read_text())
            run.process.send_signal(signal.SIGINT)
            assert run.process.wait(60) == 0, run.said.read_text()[:2000]
    finally:
        run.process.kill()
        run.process.wait()
    assert "Traceback" not in run.said.read_text()
    assert len(run.said.read_bytes()) < 2000
    assert kampong.load(run.model).state_digest() == kampong.load(alone.model).state_digest()


@pytest.fixture
def page():
    live = LivePage("127.0.0.1")
    yield live
    live.stop()


def ask(port, path="/", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.getheader("Set-Cookie", "").split(";")[0]
    finally:
        connection.close()


def is_closed(one, seconds=10):
    """Whether the server has closed a connection."""
    one.settimeout(seconds)
    try:
        return one.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


def test_a_reader_comes_in_though_strangers_take_every_place(page, monkeypatch):
    monkeypatch.setattr(admission, "MOST", 8)
    address = page.start()
    with ExitStack() as stack:
        silent(stack, page.port, 50)
        status, cookie = ask(page.port, f"/?{urlsplit(address).query}")
        assert status == 302
        assert ask(page.port, "/data", Cookie=cookie)[0] == 200


def test_an_admitted_reader_keeps_its_place_and_a_stranger_too_many_is_sent_away(page, monkeypatch):
    monkeypatch.setattr(admission, "MOST", 3)
    address = page.start()
    cookie = ask(page.port, f"/?{urlsplit(address).query}")[1]
    readers = [http.client.HTTPConnection("127.0.0.1", page.port, timeout=10) for _ in range(3)]
    for reader in readers:
        reader.request("GET", "/data", headers={"Cookie": cookie})
        reader.getresponse().read()
    with ExitStack() as stack:
        for _ in range(5):
            assert is_closed(stack.enter_context(socket.create_connection(("127.0.0.1", page.port))))
        for reader in readers:
            reader.request("GET", "/report.html", headers={"Cookie": cookie})
            assert reader.getresponse().read().startswith(b"<!")
            reader.close()


@pytest.mark.parametrize(
    "start",
    [b"", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n"],
    ids=["nothing", "half a header", "no body"],
)
def test_who_does_not_finish_a_request_is_sent_away(page, monkeypatch, start):
    monkeypatch.setattr(admission, "PATIENCE", 0.2)
    page.start()
    with socket.create_connection(("127.0.0.1", page.port)) as slow:
        slow.sendall(start)
        assert is_closed(slow)


def test_an_error_behind_a_request_is_one_line(page, monkeypatch, caplog):
    address = page.start()
    cookie = ask(page.port, f"/?{urlsplit(address).query}")[1]
    monkeypatch.setattr("kampong.report.live.report_of", lambda *_: 1 / 0)
    assert ask(page.port, "/report.html", Cookie=cookie)[0] == 500
    assert [record.getMessage() for record in caplog.records] == [
        "The live page could not answer /report.html: ZeroDivisionError: division by zero"
    ]
    assert not any(record.exc_info for record in caplog.records)


def test_without_descriptors_the_page_waits_and_says_nothing(page, monkeypatch, capfd, caplog):
    monkeypatch.setattr(admission, "PAUSE", 0.2)
    address = page.start()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as late:
        resource.setrlimit(resource.RLIMIT_NOFILE, (late.fileno() + 1, hard))
        try:
            late.connect(("127.0.0.1", page.port))
            used = time.process_time()
            time.sleep(1.0)
            assert time.process_time() - used < 0.5  # it does not ask the system again and again
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert ask(page.port, f"/?{urlsplit(address).query}")[0] == 302
    assert not caplog.records
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("limit", [64, 200, 1024])
def test_connections_take_at_most_half_of_the_free_descriptors(limit):
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))\n"
        "import os; from kampong.report.admission import free_descriptors\n"
        "kept, n = [], free_descriptors()\n"
        "for _ in range(n): kept.append(os.open('/dev/null', os.O_RDONLY))\n"
        "try: os.open('/dev/null', os.O_RDONLY)\n"
        "except OSError: print('all')"
    )
    # one descriptor more is open while they are counted
    done = subprocess.run(
        [sys.executable, "-c", code.replace("range(n)", "range(n + 1)")], capture_output=True, text=True
    )
    assert done.stdout == "all\n", done.stderr


def test_a_token_and_none_at_once_are_refused(tmp_path, capfd):
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,c,d,kind", *lines(20, 0)]) + "\n")
    arguments = ["learn", tmp_path / "rows.csv", "-l", "kind", "-m", tmp_path / "m", "--serve", "--no-token"]
    said = call(capfd, *arguments, "--token", "correct horse", expect=2).err
    assert "--token and --no-token contradict each other" in said
    said = call(capfd, *arguments, "--host", "0.0.0.0", expect=2).err
    assert "can be reached from other machines. Give a token" in said
