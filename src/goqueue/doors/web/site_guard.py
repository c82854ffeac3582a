"""Keeps out what a web page of another site makes a visitor's browser send here.

Such a page has two ways. It can send requests across sites: it cannot read the answers, but what
the requests do is done. Browsers say so in `Sec-Fetch-Site`, older ones in `Origin`. And it can let
its own name point to this broker (DNS rebinding): to the browser all is one site then, and the page
reads the answers, too. Its requests still carry that name in `Host`.

Programs send neither `Sec-Fetch-Site` nor `Origin`, and call the broker by its own name or address.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from goqueue.doors.web.asgi import Scope
from goqueue.doors.web.bodies import Headers

_AUTHORITY: Final = re.compile(r"(?:\[(?P<address>[^]]+)]|(?P<name>[^:]*))(?::\d*)?", re.ASCII)
# RFC 6761, 6.3: no name below it is ever asked for outside the machine.
_LOOPBACK: Final = "localhost"
_WILDCARDS: Final = ("", "0.0.0.0", "::")
# RFC 9110, 9.2.1: methods that ask for nothing but an answer.
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# `Sec-Fetch-Site: none` is the visitor's own doing, such as an address typed or a bookmark.
_BY_OWN_PAGE: Final = b"same-origin"
_BY_VISITOR: Final = b"none"
# Names found to be ours, as they were written (with ports): clients use a handful. One that sends
# ever new spellings makes us forget, and look again.
_SEEN_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Unwelcome:
    """Why a request is refused; each door says it in its own protocol."""

    status: int
    code: str
    message: str


CROSS_SITE: Final = Unwelcome(
    403, "cross_site", "a web page of another site may not change anything here"
)


class SiteGuard:
    """Looks at every request before anything else does.

    `own_names` are the names by which clients call this broker: `broker.example`, `.example` for
    that and every name below it, `*` for any. An address (127.0.0.1, [::1]) is always welcome:
    nobody can let an address point elsewhere.
    """

    def __init__(self, own_names: Iterable[str]) -> None:
        names = {_name_in(name) for name in own_names} - set(_WILDCARDS)
        self._names = frozenset({_LOOPBACK, *(name.removeprefix(".") for name in names)})
        self._endings = (f".{_LOOPBACK}", *(name for name in names if name.startswith(".")))
        self._takes_any = "*" in names
        self._seen: set[bytes] = set()

    def refusal(self, scope: Scope) -> Unwelcome | None:
        is_from_browser = False
        for name, value in scope["headers"]:
            if name == b"host":
                if value not in self._seen and not self._is_own(value):
                    return _misdirected(value)
            elif name in (b"sec-fetch-site", b"origin"):
                is_from_browser = True
        if not is_from_browser or scope["method"] in _SAFE_METHODS:
            return None
        is_welcome = is_from_own_page(scope["headers"], or_visitor=True)
        return None if is_welcome else CROSS_SITE

    def _is_own(self, host: bytes) -> bool:
        name = _name_in(host.decode("latin-1"))
        is_own = (
            self._takes_any
            or name in self._names
            or name.endswith(self._endings)
            or _is_address(name)
        )
        if is_own:
            if len(self._seen) >= _SEEN_MAX:
                self._seen.clear()
            self._seen.add(host)
        return is_own


def is_from_own_page(headers: Headers, *, or_visitor: bool = False) -> bool:
    """Whether a request comes from a page of this broker, or from no page at all."""
    site = origin = host = b""
    for name, value in headers:
        if name == b"sec-fetch-site":
            site = value
        elif name == b"origin":
            origin = value
        elif name == b"host":
            host = value
    if site:
        return site == _BY_OWN_PAGE or (or_visitor and site == _BY_VISITOR)
    # The scheme may differ: a proxy in front of us may speak TLS.
    return not origin or origin.partition(b"://")[2].lower() == host.lower()


def is_by_own_page(headers: Headers, *, changes: bool) -> bool:
    """As `is_from_own_page`, for what a browser's cookie lets in. To change something needs proof:
    a browser that says nothing of where a request comes from may send any page's.
    """
    if changes and not any(name in (b"sec-fetch-site", b"origin") for name, _ in headers):
        return False
    return is_from_own_page(headers, or_visitor=not changes)


def _misdirected(host: bytes) -> Unwelcome:
    name = _name_in(host.decode("latin-1"))[:255]
    return Unwelcome(
        421,
        "misdirected",
        f"{name!r} is not a name of this broker; if it should be, add it to http.allowed.hosts",
    )


def _name_in(host: str) -> str:
    """Without a port, brackets around an IPv6 address, and the dot that ends a complete name."""
    parts = _AUTHORITY.fullmatch(host.strip().lower())
    if parts is None:
        return host
    return parts["address"] or parts["name"].removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
