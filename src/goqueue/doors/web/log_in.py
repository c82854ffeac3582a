"""The gate of the HTTP port while security is on: who asks must be somebody.

Looked at before anything of a body is read. What is open tells nothing of what is stored.
"""

from typing import Final

from goqueue.doors.web.asgi import Scope
from goqueue.doors.web.bodies import Headers
from goqueue.doors.web.callers import address_in, client_name_in, let_in, prepare
from goqueue.doors.web.site_guard import (
    CROSS_SITE,
    Unwelcome,
    is_by_own_page,
    is_from_own_page,
)
from goqueue.doors.web.standing import Standing
from goqueue.model.caller import Door
from goqueue.model.security.errors import AuthenticationFailed, TooManyLogIns
from goqueue.service.security.web_logins import WebLogins

COOKIE: Final = "goqueue_session"
SESSION_PATH: Final = "/session"
# Whether the broker is well is asked by those who have nothing to show.
_PROBES: Final = frozenset({"/healthz", "/readyz"})
_COOKIE_PREFIX: Final = f"{COOKIE}=".encode()
_ASKING: Final = frozenset({"GET", "HEAD"})
REVOKED: Final = Unwelcome(
    401,
    AuthenticationFailed.code,
    "the log-in has ended meanwhile; whether this was done is not known",
)


class Gate:
    def __init__(self, logins: WebLogins) -> None:
        self._logins = logins
        self.standing = Standing(logins.clock_ms)
        logins.on_change(self.standing.look_again)

    def prepare(self, scope: Scope) -> None:
        """Before a request that is let in by its own protocol."""
        prepare(scope, self.standing)

    async def refusal(self, scope: Scope, door: Door) -> Unwelcome | None:
        """None: whoever asks is let in, by name or as nobody where that is enough."""
        prepare(scope, self.standing)
        self._logins.came_from(door, address_in(scope))
        method: str = scope["method"]
        path: str = scope["path"]
        if path == SESSION_PATH and method == "POST":
            # It is what one logs in by.
            return None
        headers: Headers = scope["headers"]
        try:
            authorization = authorization_in(headers)
            if authorization is not None:
                let_in(scope, await self._logins.by_authorization(authorization))
                return None
            word = session_in(headers)
            if word is not None:
                if not is_by_own_page(headers, changes=method not in _ASKING):
                    return CROSS_SITE
                let_in(scope, await self._logins.by_session(word))
                return None
            client_name = client_name_in(scope)
            if client_name is not None:
                # Browsers show certificates whichever page asks.
                if not is_from_own_page(headers, or_visitor=method in _ASKING):
                    return CROSS_SITE
                let_in(scope, await self._logins.by_certificate(client_name))
                return None
            if path in _PROBES and method in _ASKING:
                return None
            raise self._logins.nothing_shown()
        except AuthenticationFailed as error:
            return Unwelcome(401, error.code, error.message)
        except TooManyLogIns as error:
            return Unwelcome(503, error.code, error.message)


def authorization_in(headers: Headers) -> bytes | None:
    for name, value in headers:
        if name == b"authorization":
            return value
    return None


def session_in(headers: Headers) -> str | None:
    """The word in the cookie."""
    for name, value in headers:
        if name == b"cookie":
            for part in value.split(b";"):
                pair = part.strip()
                if pair.startswith(_COOKIE_PREFIX):
                    return pair[len(_COOKIE_PREFIX) :].decode("latin-1")
    return None
