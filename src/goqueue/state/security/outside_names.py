"""Whom a name means that somebody else vouches for: an identity provider, or a certificate's CA.

    the name is that of                     it means
    nobody here                             that name without a tenant, of which rules may speak
    a user that is federated                that user, in its tenant
    a user of a tenant that is not          the same as that of nobody: tenants keep to themselves
    a user without a tenant that is not     nobody: rules that speak of the name mean the user

Tenants make users of any name. Were the names enough, a tenant could have the messages of others.
"""

from collections.abc import Mapping
from typing import NamedTuple

from goqueue.model.caller import Principal
from goqueue.model.security.users import USER_KIND, User


class Meant(NamedTuple):
    """`user_created_ms`: of the user that is kept here; None where only others know the name."""

    principal: Principal
    user_created_ms: int | None


def meant_by(name: str, users: Mapping[str, User]) -> Meant | None:
    """None: it is refused."""
    user = users.get(name)
    if user is not None and user.is_federated:
        return Meant(user.principal, user.created_ms)
    if user is not None and not user.tenant:
        return None
    return Meant(Principal(USER_KIND, name), None)
