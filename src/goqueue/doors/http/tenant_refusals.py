"""What is said of failures, in the words of the caller's tenant."""

from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from goqueue.model.caller import Caller
from goqueue.model.security.tenants import local_text

_TENANT: Final = "goqueue.tenant"


def note_tenant(scope: MutableMapping[str, Any], caller: Caller) -> None:
    """For where a failure is told of, and the caller is not at hand."""
    if caller.principal.tenant:
        scope[_TENANT] = caller.principal.tenant


def local_refusal(scope: Mapping[str, Any], body: bytes) -> bytes:
    """Nothing of messages is in it."""
    tenant: str = scope.get(_TENANT, "")
    return local_text(tenant, body.decode()).encode() if tenant else body
