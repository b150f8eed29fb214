"""Access to a page or a server: a token, a limited number of connections, and no waiting for silent ones.

The run needs descriptors to read, save and write. Connections take at most half of those that are free when the page
starts; when all places are taken, the oldest connection that has not been admitted gives way to a new one.
"""

from __future__ import annotations

import errno
import hmac
import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.iostream import IOStream, SSLIOStream
from tornado.netutil import ssl_wrap_socket

if TYPE_CHECKING:
    import socket

MOST = 1024
"""The most connections at once, where descriptors would allow more: each holds some memory."""

PATIENCE = 10.0
"""Seconds after which a connection that has not sent a whole request is closed."""

PAUSE = 1.0
"""Seconds without new connections after the system has refused a descriptor."""

REQUEST = 2**16
"""The most bytes of a request: its header or its body."""


class Guard:
    """Decides which requests are allowed.

    Parameters
    ----------
    token : str or None
        The secret that readers must bring; None admits every user of this machine.
    port : int
        The port, which names the cookie.
    """

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
        return "" if is_this_machine(name) else "Without a token this page is only for 127.0.0.1 and localhost."

    def brings_token(self, request: Any) -> bool:
        """Whether this is the first request, with the token in its address."""
        given = request.query_arguments.get("token", [b""])[-1].decode("utf-8", "replace")
        return request.path == "/" and self.is_token(quote(given, safe=""))

    def is_token(self, text: str) -> bool:
        """Compare a token in constant time."""
        return self.token is not None and hmac.compare_digest(text.encode(), quote(self.token, safe="").encode())


class LimitedServer(HTTPServer):
    """A server whose connections leave the run the descriptors that it needs.

    The application calls `admit` for the requests that it allows.
    """

    def initialize(self, *given: Any, largest: int = REQUEST, patience: float | None = None, **settings: Any) -> None:
        """Set what a request may take; tornado calls this in place of `__init__`.

        Parameters
        ----------
        *given : object
            The application.
        largest : int
            The most bytes of a body.
        patience : float, optional
            Seconds after which a connection that has not sent a whole request is closed; 10 by default.
        **settings : object
            Further settings of tornado, such as `ssl_options`.
        """
        self._buffer = max(largest, REQUEST) + 3 * REQUEST
        sizes = {"max_body_size": largest, "max_header_size": REQUEST, "max_buffer_size": self._buffer}
        times = dict.fromkeys(("idle_connection_timeout", "body_timeout"), PATIENCE if patience is None else patience)
        super().initialize(*given, **{**settings, **sizes, **times})

    def take_from(self, listening: socket.socket) -> None:
        """Take connections from a socket, which `stop` closes."""
        self._listening, self._loop, self._stopped = listening, IOLoop.current(), False
        self._most = min(MOST, max(1, free_descriptors() // 2))
        self._open: dict[IOStream, bool] = {}  # in the order in which they came; whether they have been admitted
        self._listen()

    def admit(self, stream: IOStream) -> None:
        """Let a connection keep its place: it has sent a request that is allowed."""
        if stream in self._open:
            self._open[stream] = True

    def on_close(self, server_conn: Any) -> None:
        """Free the place of a connection that has ended."""
        super().on_close(server_conn)
        self._open.pop(server_conn.stream, None)

    def stop(self) -> None:
        """Take no more connections."""
        if not self._stopped:
            self._stopped = True
            self._loop.remove_handler(self._listening)
            self._listening.close()

    def _listen(self) -> None:
        if not self._stopped:
            self._loop.add_handler(self._listening, self._accept, IOLoop.READ)

    def _accept(self, *_: Any) -> None:
        try:
            connection, address = self._listening.accept()
        except OSError as error:
            # The socket stays readable, so the loop would ask again at once, for ever.
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._loop.remove_handler(self._listening)
                self._loop.call_later(PAUSE, self._listen)
            return
        if len(self._open) >= self._most:
            stranger = next((stream for stream, admitted in self._open.items() if not admitted), None)
            if stranger is None:
                connection.close()
                return
            del self._open[stranger]
            stranger.close()
        stream = self._stream(connection)
        if stream is not None:
            self._open[stream] = False
            self.handle_stream(stream, address)

    def _stream(self, connection: socket.socket) -> IOStream | None:
        """Return a connection as a stream, encrypted where the server has a certificate; None if it has gone."""
        if self.ssl_options is None:
            return IOStream(connection, max_buffer_size=self._buffer)
        try:
            wrapped = ssl_wrap_socket(connection, self.ssl_options, server_side=True, do_handshake_on_connect=False)
        except OSError:
            connection.close()
            return None
        return SSLIOStream(wrapped, max_buffer_size=self._buffer)


def free_descriptors() -> int:
    """Return how many files and sockets this process may still open, `2 * MOST` where the system has no such limit."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return 2 * MOST if limit == resource.RLIM_INFINITY else limit - len([*Path("/dev/fd").iterdir()])
    except (ImportError, OSError):  # Windows counts sockets apart
        return 2 * MOST


def is_this_machine(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
