"""Who counts as one where something is divided, and where turns are taken."""

from goqueue.model.caller import ANONYMOUS, Principal
from goqueue.model.security.tenants import SEPARATOR
from goqueue.model.security.users import BROKER_KIND, BROKERS_USER


def party_of(principal: Principal) -> str:
    """Its tenant, else the user. Empty: nobody in particular."""
    if principal.tenant:
        return principal.tenant + SEPARATOR
    if principal.kind == BROKER_KIND:
        # A user may have the name that they have.
        return BROKERS_USER
    return "" if principal == ANONYMOUS else principal.name
