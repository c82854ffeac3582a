"""Who asks over HTTP, whatever protocol is spoken there."""

from collections.abc import Mapping
from typing import Any

from goqueue.model.caller import ANONYMOUS, Caller, Door


def caller_in(scope: Mapping[str, Any], door: Door) -> Caller:
    """The caller of a request, by its ASGI scope."""
    client = scope.get("client")
    return Caller(principal=ANONYMOUS, door=door, address=client[0] if client else "")
