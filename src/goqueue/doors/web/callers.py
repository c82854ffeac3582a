"""Who asks over HTTP, whatever protocol is spoken there."""

from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from goqueue.doors.web.standing import Standing
from goqueue.doors.web.turns import ConnectionParty
from goqueue.model.caller import ANONYMOUS, Caller, Door
from goqueue.model.security.web_logins import WebLogin

_LOGIN: Final = "goqueue.login"
_STANDING: Final = "goqueue.standing"

# By this name transports tell who a client is by its certificate, and connections tell requests.
CLIENT_NAME: Final = "client_name"
# By this name connections tell requests which party they are of.
PARTY: Final = "party"


def client_name_in(scope: Mapping[str, Any]) -> str | None:
    """Whom the client's certificate names; None if it showed none."""
    name: str | None = scope.get("state", {}).get(CLIENT_NAME)
    return name


def caller_in(scope: Mapping[str, Any], door: Door) -> Caller:
    """The caller of a request, by its ASGI scope."""
    login: WebLogin | None = scope.get(_LOGIN)
    principal = ANONYMOUS if login is None else login.principal
    return Caller(principal=principal, door=door, address=address_in(scope))


def address_in(scope: Mapping[str, Any]) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def prepare(scope: MutableMapping[str, Any], standing: Standing) -> None:
    """Before `let_in`, of every request while security is on."""
    scope[_STANDING] = standing


def let_in(scope: MutableMapping[str, Any], login: WebLogin) -> None:
    """It has logged in; should that end before it is answered, it is refused."""
    scope[_LOGIN] = login
    party: ConnectionParty | None = scope.get("state", {}).get(PARTY)
    if party is not None:
        party.seen(login.principal)
    standing: Standing = scope[_STANDING]
    standing.hold(login)


def let_finish(scope: Mapping[str, Any]) -> None:
    """It is about to end its own log-in, and is answered all the same."""
    standing: Standing | None = scope.get(_STANDING)
    if standing is not None:
        standing.release()
