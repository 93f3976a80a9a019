"""Where a Guardian is reached over HTTP: one address, checked once."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from awr.errors import InvalidInput
from awr.guardian.handshake import Transport

__all__ = ["Address", "parse_address"]


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of an http or https address. `target` is what stands in the request line."""

    url: str
    secure: bool
    host: str
    port: int
    target: str

    @property
    def transports(self) -> tuple[Transport, ...]:
        """What the client offers: the one that the address names first. Behind a proxy that ends TLS, a Guardian
        knows its door by the other name."""
        return ("https", "http") if self.secure else ("http", "https")


def parse_address(url: str) -> Address:
    """Return the parts of an address. Raise InvalidInput for anything but http or https to a named host."""
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname or ""
    except ValueError:
        raise _refused("something else") from None
    if parts.scheme not in {"http", "https"}:
        raise _refused("another scheme")
    if not host or not url.isascii() or not url.isprintable() or " " in url:
        raise _refused("no host, or characters that an address has not")
    if "@" in parts.netloc or parts.fragment:
        raise _refused("a user name or a fragment in it")
    secure = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Address(url=url, secure=secure, host=host, port=port or (443 if secure else 80), target=target)


def _refused(got: str) -> InvalidInput:
    return InvalidInput(
        "the Guardian's address cannot be used",
        got=got,
        expected="http://HOST:PORT/PATH or https://HOST:PORT/PATH, in ASCII",
        next_step="name the address that the Guardian printed when it began to listen",
    )
