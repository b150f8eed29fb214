"""The live page of a running stream: the figures of the report, served and updated while the stream runs."""

from __future__ import annotations

import asyncio
import dataclasses
import hmac
import ipaddress
import logging
import socket
import threading
import time
import weakref
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from bokeh.application import Application
from bokeh.application.handlers.function import FunctionHandler
from bokeh.server.server import BaseServer
from bokeh.server.tornado import BokehTornado
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.web import RequestHandler

from kampong.report.figures import Figures
from kampong.report.page import PAGE
from kampong.report.snapshot import take
from kampong.streaming.history import History

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bokeh.document import Document

SHARE = 0.05
"""The largest part of the stream's time that snapshots may take."""

SHORTEST_TOKEN = 8

_log = logging.getLogger(__name__)


class LivePage:
    """A page that shows a stream while it runs, and stays after its end until it is stopped.

    A server in its own thread updates the page from the newest snapshot. Publishing never waits for the server, costs
    at most a twentieth of the stream's time, and never raises: errors are logged. The page writes nothing, and readers
    who leave or reload it do not affect the stream.

    Parameters
    ----------
    host : str
        The address to serve at. All addresses except this machine's own (127.0.0.1, ::1, localhost) need a token.
    port : int
        The port; 0 takes a free one.
    token : str, optional
        A secret of at least 8 characters. Requests without it are refused. The address that `start` returns contains
        it; the browser keeps it in a cookie.
    title : str
        The heading.
    provenance : mapping, optional
        Where the data come from and how the run was started.
    interval : float
        The least number of seconds between two snapshots.

    See Also
    --------
    kampong.report.page.write_report : The same figures in a file.

    Examples
    --------
    >>> from kampong.streaming.history import History
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
        token: str | None = None,
        *,
        title: str = "kampong",
        provenance: Mapping[str, Any] | None = None,
        interval: float = 1.0,
    ) -> None:
        if token is None and not _is_this_machine(host):
            raise ValueError(
                f"LivePage: host={host!r} can be reached from other machines. Give a token, which readers must have, "
                "or serve at 127.0.0.1."
            )
        if token is not None and len(token) < SHORTEST_TOKEN:
            raise ValueError(
                f"LivePage: the token has {len(token)} characters; at least {SHORTEST_TOKEN} are needed. "
                "`secrets.token_urlsafe()` makes a good one."
            )
        self.host, self.port, self.token = host, port, token
        self.title, self.provenance, self.interval = title, dict(provenance or {}), interval
        self._last: tuple[Any, History, Mapping[str, Any]] = (None, History(), {})
        self._due = 0.0
        # The pair is replaced as a whole, so readers see the old pair or the new one, never a mixture.
        self._current = (0, take(None, History(), title=title, state="waiting for rows", provenance=provenance))
        self._loop: IOLoop | None = None
        self._thread: threading.Thread | None = None

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

    def publish(self, model: Any, history: History, counters: Mapping[str, Any] | None = None) -> None:
        """Show this state, unless the last one is too recent; the stream calls this after a batch.

        Parameters
        ----------
        model : object or None
            The model; it is only read, never solved.
        history : History
            The course of the stream.
        counters : mapping, optional
            Further figures, shown with the model.
        """
        self._last = (model, history, counters or {})
        if time.monotonic() >= self._due:
            self._snap(f"running, {_now()}")

    def finish(self) -> None:
        """Show the last state that was published, and that the stream has ended."""
        state = f"finished, {_now()}"
        self._snap(state)
        number, snapshot = self._current
        self._current = (number + 1, dataclasses.replace(snapshot, state=state))
        self._last = (None, History(), {})

    def stop(self) -> None:
        """Stop serving; open pages keep what they show."""
        thread, loop = self._thread, self._loop
        if thread is None or loop is None:
            return
        loop.add_callback(loop.stop)
        thread.join()
        self._thread = self._loop = None

    # How.

    def _snap(self, state: str) -> None:
        """Replace the current snapshot; an error here does not stop the stream."""
        started = time.monotonic()
        model, history, counters = self._last
        try:
            texts: dict[str, Any] = {"title": self.title, "state": state, "provenance": self.provenance}
            self._current = (self._current[0] + 1, take(model, history, counters=counters, **texts))
        except Exception:
            _log.warning("The live page could not be renewed.", exc_info=True)
        ended = time.monotonic()
        self._due = ended + max(self.interval, (ended - started) / SHARE)

    def _serve(self, listening: socket.socket, ready: threading.Event) -> None:
        events = asyncio.new_event_loop()
        asyncio.set_event_loop(events)
        loop = self._loop = IOLoop.current()
        application = _Guarded(
            {"/": Application(FunctionHandler(self._open))},
            guard=_Guard(self.token, self.port),
            extra_websocket_origins=[f"*:{self.port}"],  # the guard compares the origin with the host itself
            include_headers=[],
            include_cookies=[],
            log_function=lambda handler: None,
        )
        http = HTTPServer(application)
        http.add_socket(listening)
        server = BaseServer(loop, application, http)
        server.start()
        loop.add_callback(ready.set)
        loop.start()
        server.unlisten()
        events.run_until_complete(application.close_sockets())
        events.run_until_complete(http.close_all_connections())
        server.stop()
        tasks = asyncio.all_tasks(events)
        for task in tasks:
            task.cancel()
        events.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()

    def _open(self, document: Document) -> None:
        """Lay out the page of one reader, and renew it while it is open."""
        shown, snapshot = self._current
        page = Figures(snapshot)

        def renew() -> None:
            nonlocal shown
            number, newest = self._current
            if number != shown:
                shown = number
                page.update(newest)

        document.title = self.title
        template: Any = PAGE  # bokeh takes the text of a template too
        document.template = template
        document.add_root(page.layout)
        document.add_periodic_callback(renew, 500)


class _Guard:
    """Decides which requests are allowed, including those of the websocket."""

    def __init__(self, token: str | None, port: int) -> None:
        self.token, self.cookie = token, f"kampong_{port}"

    def refusal(self, request: Any) -> str:
        """Return why a request is refused, or an empty text if it is allowed."""
        host = request.headers.get("Host", "").lower()
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host:
            return "This page is not for other sites."
        if self.token is not None:
            cookie = request.cookies.get(self.cookie)
            admitted = self.is_token(cookie.value if cookie else "")
            return "" if admitted else "Open the address that was printed when the page started: it holds the token."
        # Another host name that resolves to this machine would let its owner read the page.
        name = urlsplit(f"//{host}").hostname or ""
        return "" if _is_this_machine(name) else "Without a token this page is only for 127.0.0.1 and localhost."

    def brings_token(self, request: Any) -> bool:
        """Whether this is the first request, with the token in its address."""
        given = request.query_arguments.get("token", [b""])[-1].decode("utf-8", "replace")
        return request.path == "/" and self.is_token(quote(given, safe=""))

    def is_token(self, text: str) -> bool:
        """Compare a token in constant time."""
        return self.token is not None and hmac.compare_digest(text.encode(), quote(self.token, safe="").encode())


class _Guarded(BokehTornado):
    """A bokeh application that asks the guard before every request."""

    def __init__(self, applications: Any, *, guard: _Guard, **settings: Any) -> None:
        super().__init__(applications, **settings)
        self._guard = guard
        self._open_sockets: weakref.WeakSet[Any] = weakref.WeakSet()

    def new_connection(self, protocol: Any, socket: Any, *more: Any, **named: Any) -> Any:
        """Remember the websocket of a reader, so that it can be closed."""
        self._open_sockets.add(socket)
        return super().new_connection(protocol, socket, *more, **named)

    async def close_sockets(self) -> None:
        """Close the connections of all readers, by force where they do not answer at once."""
        readers = [reader for reader in self._open_sockets if reader.ws_connection is not None]
        streams = [reader.ws_connection.stream for reader in readers]
        for reader in readers:
            reader.close(1001, "the page was stopped")
        for _ in range(20):
            if all(stream.closed() for stream in streams):
                return
            await asyncio.sleep(0.01)
        for stream in streams:
            stream.close()
        await asyncio.sleep(0)

    def find_handler(self, request: Any, **more: Any) -> Any:
        """Route a request to its handler, or to the one that refuses it."""
        if self._guard.brings_token(request):
            return self.get_handler_delegate(request, _Admit, {"guard": self._guard})
        reason = self._guard.refusal(request)
        if reason:
            return self.get_handler_delegate(request, _Refuse, {"reason": reason})
        return super().find_handler(request, **more)


class _Admit(RequestHandler):
    """Puts the token into a cookie, and takes it out of the address."""

    def initialize(self, guard: _Guard) -> None:
        self._guard = guard

    def get(self) -> None:
        self.set_cookie(self._guard.cookie, quote(self._guard.token or "", safe=""), httponly=True, samesite="Lax")
        self.redirect("/")


class _Refuse(RequestHandler):
    """Answers 403 with the reason."""

    def initialize(self, reason: str) -> None:
        self._answer = reason

    def prepare(self) -> None:
        self.set_status(403)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(self._answer)


def _is_this_machine(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
