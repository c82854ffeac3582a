"""Who counts as one where something is divided, and where turns are taken."""

from goqueue.model.caller import ANONYMOUS, Principal
from goqueue.model.security.tenants import SEPARATOR


def party_of(principal: Principal) -> str:
    """Its tenant, else the user. Empty: nobody in particular."""
    if principal.tenant:
        return principal.tenant + SEPARATOR
    return "" if principal == ANONYMOUS else principal.name
