"""Addresses of sources, such as postgresql://host/base?table=rows: cut into parts, and refused if they hold secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from kampong.streaming.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

SECRETS = ("password", "passwd", "pass", "secret", "token", "auth", "sslpassword", "sig", "apikey", "awsaccesskeyid")
ENDINGS = ("password", "secret", "token", "signature", "credential", "key")
"""How options end that hold secrets, such as those of signed addresses."""


@dataclass(frozen=True)
class Address:
    """The parts of an address.

    Attributes
    ----------
    scheme : str
        What is before "://", in lower case.
    server : str
        Host and port, several with commas between them, perhaps after the name of a user and "@".
    path : str
        What is after the first "/" behind the server.
    options : mapping of str to str
        What is after "?".
    """

    scheme: str
    server: str
    path: str
    options: Mapping[str, str]

    @classmethod
    def of(cls, text: str) -> Address:
        """Cut an address into its parts."""
        parts = urlsplit(text)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        return cls(parts.scheme.lower(), parts.netloc, unquote(parts.path[1:]), options)

    def without(self, *options: str) -> str:
        """Return the address as text, less some options."""
        rest = urlencode({name: value for name, value in self.options.items() if name not in options})
        return f"{self.scheme}://{self.server}/{self.path}" + (f"?{rest}" if rest else "")


def check_address(text: str) -> None:
    """Refuse an address with a password or a token, without repeating it.

    The address of a source is kept in the model file, and printed in messages and reports.

    Parameters
    ----------
    text : str
        The address.
    """
    try:
        parts = urlsplit(text)
        options = [name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    except ValueError as error:
        raise UsageError(f"An address cannot be read: {error}. Check what is between // and the next /.") from None
    user, at, _ = parts.netloc.rpartition("@")
    secret = (at and (":" in user or parts.scheme.lower() not in USER_NAMES)) or any(
        one in SECRETS or re.split("[-_.]", one)[-1] in ENDINGS for one in options
    )
    if secret:
        raise UsageError(
            f"The address {parts.scheme}://… holds a password or a token. It would be kept in the model file, so take "
            "it out. Give it by the environment or a file; the guide to sources says how for each kind."
        )


USER_NAMES = ("postgresql", "postgres")
"""Schemes whose addresses may name a user; for others, what is before "@" may be a token."""
