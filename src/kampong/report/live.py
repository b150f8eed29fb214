"""The live page of a running stream: the report, served over HTTP and updated while the stream runs.

A reader's browser asks for the state after the one it shows, and the answer waits until there is one. Each state is
taken, written as JSON and compressed once, however many readers there are.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import secrets
import socket
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tornado.ioloop import IOLoop
from tornado.iostream import StreamClosedError
from tornado.web import Application, HTTPError, RequestHandler

from kampong.report.admission import Guard, LimitedServer, is_this_machine
from kampong.report.page import live_page, report_of, to_json
from kampong.report.snapshot import take
from kampong.streaming.history.history import History

if TYPE_CHECKING:
    from collections.abc import Mapping

SHARE = 0.03
"""The largest part of the stream's time that taking states may cost, and again that sending them may."""

LONGEST_WAIT = 25.0
"""Seconds after which a browser that waits is told to ask again."""

SHORTEST_TOKEN = 8

_log = logging.getLogger(__name__)


class LivePage:
    """A page that shows a stream while it runs, and stays after its end until it is stopped.

    A server in its own thread answers readers with the newest state. Publishing never waits for the server and never
    raises: errors are logged. Taking states costs at most 3 % of the stream's time, and sending them at most 3 %: where
    there are many readers, states come less often. The page writes nothing, and readers who leave, reload, or read
    slowly do not affect the stream.

    Parameters
    ----------
    host : str
        The address to serve at. All addresses except this machine's own (127.0.0.1, ::1, localhost) need a token.
    port : int
        The port; 0 takes a free one.
    token : str or None
        A secret of at least 8 characters. Requests without it are refused. The address that `start` returns contains
        it; the browser keeps it in a cookie. "auto" makes a new one. None needs none: every user of this machine can
        then read the page, with labels, columns and the latest rows of the map.
    title : str, default="kampong"
        The heading.
    provenance : mapping, optional
        Where the data come from and how the run was started.
    interval : float, default=1.0
        The least number of seconds between two states.

    See Also
    --------
    kampong.report.page.write_report : The same page in a file.

    Examples
    --------
    >>> from kampong.streaming.history.history import History
    >>> page = LivePage()
    >>> page.start()[:17]
    'http://127.0.0.1:'
    >>> page.publish(None, History(), {})
    >>> page.finish()
    >>> page.stop()
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = "auto",
        *,
        title: str = "kampong",
        provenance: Mapping[str, Any] | None = None,
        interval: float = 1.0,
    ) -> None:
        if token == "auto":
            token = secrets.token_urlsafe()
        if token is None and not is_this_machine(host):
            raise ValueError(
                f"LivePage: host={host!r} can be reached from other machines. Give a token, which readers must have, "
                "or serve at 127.0.0.1."
            )
        if token is not None and len(token) < SHORTEST_TOKEN:
            raise ValueError(
                f"LivePage: the token has {len(token)} characters; at least {SHORTEST_TOKEN} are needed. "
                "token='auto' makes a good one."
            )
        self.host, self.port, self.token = host, port, token
        self.title, self.provenance, self.interval = title, dict(provenance or {}), interval
        self._last: tuple[Any, History, Mapping[str, Any], dict[str, Any]] = (None, History(), {}, {})
        self._due = 0.0
        # Replaced as a whole, so readers see the old state or the new one, never a mixture.
        self._current = self._take(0, "Waiting for rows")
        self._loop: IOLoop | None = None
        self._thread: threading.Thread | None = None
        self._desk: _Desk | None = None

    def start(self) -> str:
        """Serve the page.

        Returns
        -------
        str
            Its address, with the token where there is one.
        """
        if self._thread is not None:
            raise RuntimeError("LivePage.start: the page is being served already. Stop it first.")
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            listening = socket.create_server((self.host, self.port), family=family, backlog=128)
        except OSError as error:
            raise OSError(
                error.errno, f"LivePage: cannot serve at {self.host}:{self.port}: {error.strerror}. Try another port."
            ) from None
        listening.setblocking(False)
        self.port = int(listening.getsockname()[1])
        ready = threading.Event()
        self._thread = threading.Thread(
            target=self._serve, args=(listening, ready), name="kampong live page", daemon=True
        )
        self._thread.start()
        ready.wait()
        host = socket.gethostname() if self.host in ("", "0.0.0.0", "::") else self.host
        address = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"
        return address if self.token is None else f"{address}?token={quote(self.token, safe='')}"

    def publish(self, model: Any, history: History, counters: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Show this state, unless the last one is too recent; the stream calls this after a batch.

        Parameters
        ----------
        model : object or None
            The model; it is only read, never solved.
        history : History
            The course of the stream.
        counters : mapping, optional
            Further figures, shown with the model.
        **more : object
            `predictor` and `memory`, as `kampong.report.snapshot.take` has them.
        """
        self._last = (model, history, counters or {}, more)
        if time.monotonic() >= self._due:
            self._renew(f"Running, {_now()}")

    def finish(self) -> None:
        """Show the last state that was published, and that the stream has ended."""
        state = f"Finished, {_now()}"
        before = self._current
        self._renew(state, finished=True)
        if self._current is before:  # it could not be taken
            self._replace({**before, "state": state, "finished": True, "number": before["number"] + 1})
        self._last = (None, History(), {}, {})

    def stop(self) -> None:
        """Stop serving; open pages keep what they show."""
        thread, loop = self._thread, self._loop
        if thread is None or loop is None:
            return
        loop.add_callback(loop.stop)
        thread.join()
        self._thread = self._loop = self._desk = None

    # How.

    def _take(self, number: int, state: str, *, finished: bool = False) -> dict[str, Any]:
        model, history, counters, more = self._last
        texts: dict[str, Any] = {"title": self.title, "state": state, "provenance": self.provenance}
        data = take(model, history, counters=counters, **texts, **more)
        return {**data, "number": number, "finished": finished}

    def _renew(self, state: str, *, finished: bool = False) -> None:
        """Replace the current state; an error here does not stop the stream."""
        started = time.monotonic()
        try:
            self._replace(self._take(self._current["number"] + 1, state, finished=finished))
        except Exception:
            _log.warning("The live page could not be renewed.", exc_info=True)
        ended = time.monotonic()
        self._due = ended + max(self.interval, (ended - started) / SHARE)

    def _replace(self, data: dict[str, Any]) -> None:
        self._current = data
        loop, desk = self._loop, self._desk
        if loop is not None and desk is not None:
            loop.add_callback(desk.wake)

    def _serve(self, listening: socket.socket, ready: threading.Event) -> None:
        events = asyncio.new_event_loop()
        asyncio.set_event_loop(events)
        loop = self._loop = IOLoop.current()
        desk = self._desk = _Desk(self)
        application = _Guarded(
            [
                ("/", _Static, {"desk": desk, "kind": "page"}),
                ("/report.html", _Static, {"desk": desk, "kind": "report"}),
                ("/data", _Data, {"desk": desk}),
            ],
            guard=Guard(self.token, self.port),
            log_function=lambda handler: None,
        )
        server = application.server = LimitedServer(application)
        server.take_from(listening)
        loop.add_callback(ready.set)
        loop.start()
        server.stop()
        events.run_until_complete(desk.close())
        events.run_until_complete(server.close_all_connections())
        tasks = asyncio.all_tasks(events)
        for task in tasks:
            task.cancel()
        events.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()


class _Desk:
    """Hands the current state to all readers who wait for it, at a pace that keeps sending cheap.

    All work of the server's thread since the last round counts: at most a small share of the time goes into it.
    """

    def __init__(self, page: LivePage) -> None:
        self._page = page
        self._waiting: set[asyncio.Future[None]] = set()
        self._sent: tuple[int, bytes] = (-1, b"")
        self._due, self._used, self._planned = 0.0, time.thread_time(), False

    @property
    def page(self) -> bytes:
        """The page without its data."""
        return live_page()

    @property
    def report(self) -> bytes:
        """The report of the current state."""
        data = self._page._current
        return report_of(to_json(data), str(data["title"]))

    def packed(self) -> tuple[int, bytes]:
        """Return the number of the current state and the state, compressed; each is packed once."""
        data = self._page._current
        if self._sent[0] != data["number"]:
            self._sent = (data["number"], gzip.compress(to_json(data), 5, mtime=0))
        return self._sent

    def wake(self) -> None:
        """Send the new state soon: at once, or when the work of the last round is paid for."""
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_later(max(0.0, self._due - time.monotonic()), self._round)

    def _round(self) -> None:
        self._planned = False
        used = time.thread_time()
        self._due = time.monotonic() + (used - self._used) / SHARE
        self._used = used
        for one in self._waiting:
            if not one.done():
                one.set_result(None)

    async def next(self, seen: int) -> tuple[int, bytes]:
        """Return the first state after the one that a reader has seen, or the same one if none comes for long."""
        if self._page._current["number"] == seen:
            one: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(one)
            try:
                await asyncio.wait({one}, timeout=LONGEST_WAIT)
            finally:
                self._waiting.discard(one)
        return self.packed()

    async def close(self) -> None:
        """Let nobody wait any longer, and let all answers go out."""
        for one in self._waiting:
            if not one.done():
                one.set_result(None)
        for _ in range(100):
            if not self._waiting:
                return
            await asyncio.sleep(0.01)


class _Guarded(Application):
    """An application that asks the guard before every request."""

    server: LimitedServer

    def __init__(self, handlers: Any, *, guard: Guard, **settings: Any) -> None:
        super().__init__(handlers, **settings)
        self._guard = guard

    def find_handler(self, request: Any, **more: Any) -> Any:
        """Route a request to its handler, or to the one that refuses it."""
        if self._guard.brings_token(request):
            return self.get_handler_delegate(request, _Admit, {"guard": self._guard})
        reason = self._guard.refusal(request)
        if reason:
            return self.get_handler_delegate(request, _Refuse, {"reason": reason})
        self.server.admit(request.connection.stream)
        return super().find_handler(request, **more)


class _Handler(RequestHandler):
    """Logs an error of its own in one line: readers decide how often there is one."""

    def log_exception(self, kind: Any, value: Any, traceback: Any) -> None:
        if not isinstance(value, HTTPError):
            _log.warning("The live page could not answer %s: %s: %s", self.request.path, kind.__name__, value)


class _Static(_Handler):
    """The page itself, and the report of the current state."""

    def initialize(self, desk: _Desk, kind: str) -> None:
        self._desk, self._kind = desk, kind

    def get(self) -> None:
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.finish(self._desk.page if self._kind == "page" else self._desk.report)


class _Data(_Handler):
    """The state after the one that the reader has seen, as JSON."""

    def initialize(self, desk: _Desk) -> None:
        self._desk = desk

    async def get(self) -> None:
        seen = self.get_query_argument("seen", "-1")
        number = int(seen) if seen.isascii() and seen.isdecimal() and len(seen) < 18 else -1
        found, data = await self._desk.next(number)
        if found == number:
            self.set_status(204)
            return
        self.set_header("Content-Type", "application/json")
        self.set_header("Content-Encoding", "gzip")
        self.set_header("X-Kampong-State", str(found))
        self.set_header("Cache-Control", "no-store")
        try:
            await self.finish(data)
        except StreamClosedError:  # the reader has left
            return


class _Admit(_Handler):
    """Puts the token into a cookie, and takes it out of the address."""

    def initialize(self, guard: Guard) -> None:
        self._guard = guard

    def get(self) -> None:
        self.set_cookie(self._guard.cookie, quote(self._guard.token or "", safe=""), httponly=True, samesite="Lax")
        self.redirect("/")


class _Refuse(_Handler):
    """Answers 403 with the reason."""

    def initialize(self, reason: str) -> None:
        self._answer = reason

    def prepare(self) -> None:
        self.set_status(403)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(self._answer)


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
