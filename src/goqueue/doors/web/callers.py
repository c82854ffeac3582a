"""Who asks over HTTP, whatever protocol is spoken there."""

from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from goqueue.doors.web.standing import Standing
from goqueue.model.caller import ANONYMOUS, Caller, Door
from goqueue.model.security.web_logins import WebLogin

_LOGIN: Final = "goqueue.login"
_STANDING: Final = "goqueue.standing"


def caller_in(scope: Mapping[str, Any], door: Door) -> Caller:
    """The caller of a request, by its ASGI scope."""
    client = scope.get("client")
    login: WebLogin | None = scope.get(_LOGIN)
    principal = ANONYMOUS if login is None else login.principal
    return Caller(principal=principal, door=door, address=client[0] if client else "")


def prepare(scope: MutableMapping[str, Any], standing: Standing) -> None:
    """Before `let_in`, of every request while security is on."""
    scope[_STANDING] = standing


def let_in(scope: MutableMapping[str, Any], login: WebLogin) -> None:
    """It has logged in; should that end before it is answered, it is refused."""
    scope[_LOGIN] = login
    standing: Standing = scope[_STANDING]
    standing.hold(login)
