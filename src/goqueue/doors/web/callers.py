"""Who asks over HTTP, whatever protocol is spoken there."""

from collections.abc import Mapping
from typing import Any, Final

from goqueue.model.caller import ANONYMOUS, Caller, Door

# By this name transports tell who a client is by its certificate, and connections tell requests.
CLIENT_NAME: Final = "client_name"


def client_name_in(scope: Mapping[str, Any]) -> str | None:
    """Whom the client's certificate names; None if it showed none."""
    name: str | None = scope.get("state", {}).get(CLIENT_NAME)
    return name


def caller_in(scope: Mapping[str, Any], door: Door) -> Caller:
    """The caller of a request, by its ASGI scope."""
    client = scope.get("client")
    return Caller(principal=ANONYMOUS, door=door, address=client[0] if client else "")
