"""Who may ask a server of models: a token for reading, another for learning, and no other sites."""

from __future__ import annotations

import hmac
from typing import Any

from kampong.report.admission import Guard


class ServiceGuard(Guard):
    """Decides which requests are allowed.

    Parameters
    ----------
    token : str or None
        The secret of readers; None admits every user of this machine.
    learn_token : str or None
        The secret of those who may change models, and read; None as for `token`.
    port : int
        The port, which names the cookie of the page.
    """

    def __init__(self, token: str | None, learn_token: str | None, port: int) -> None:
        super().__init__(token, port)
        self._learn_token = learn_token

    def status(self, request: Any, *, learns: bool) -> tuple[int, str]:
        """Return the status and the reason of a refusal, status 0 where a request is allowed.

        Parameters
        ----------
        request : HTTPServerRequest
            The request; its header Authorization holds "Bearer " and a token.
        learns : bool
            Whether it would change a model. The cookie of the page is not enough for that.
        """
        if self.token is None:
            reason = self.refusal(request)
            return (403, reason) if reason else (0, "")
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._status_of(given.strip(), learns)
        if learns:
            return 401, "Learning needs the header 'Authorization: Bearer TOKEN' with the token for learning."
        if self.refusal(request):
            return 401, "Send the header 'Authorization: Bearer TOKEN' with the token that the server was started with."
        return 0, ""

    def _status_of(self, given: str, learns: bool) -> tuple[int, str]:
        """Compare a token in constant time."""
        may_learn = _same(given, self._learn_token)
        if may_learn or (_same(given, self.token) and not learns):
            return 0, ""
        if learns and _same(given, self.token):
            return 403, "This token is for reading. Learning needs the token for learning."
        return 403, "This token is not one of this server."


def _same(given: str, token: str | None) -> bool:
    return token is not None and hmac.compare_digest(given.encode(), token.encode())
