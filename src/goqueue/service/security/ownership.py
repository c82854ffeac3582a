"""Which tenant things belong to, by their inner names (decision 26). Nobody gets a right to what
another tenant has, whatever rules say."""

from collections.abc import Callable, Container
from typing import Final

from goqueue.model.caller import Caller, Door
from goqueue.model.queues.sqs_queue import SQS_GROUP
from goqueue.model.rights import Resource, Verb
from goqueue.model.schemas.tenant_subjects import (
    local_subject,
    scope_of_tenant,
    tenant_of_subject,
)
from goqueue.model.security.tenants import SEPARATOR, local_name
from goqueue.model.security.users import BROKER_KIND

# What tenants may ask of the cluster at all; everything else concerns others, too.
OF_TENANTS: Final = frozenset({Verb.CREATE, Verb.IDEMPOTENT_WRITE})
# Asked for with every request: Python 3.11 looks a member of an enum up by a call of its own.
_TOPIC: Final = Resource.TOPIC
_GROUP: Final = Resource.GROUP
_CLUSTER: Final = Resource.CLUSTER
_SUBJECT: Final = Resource.SUBJECT


class Ownership:
    """`tenants` tells the names of those there are; None while security is off, when there are
    none but the one without a name."""

    def __init__(self, tenants: Callable[[], Container[str]] | None) -> None:
        self._tenants = tenants

    def has(self, caller: Caller, resource: Resource, name: str) -> bool:
        """Whether this is the caller's tenant's."""
        if resource is _CLUSTER:
            return True
        tenant = caller.principal.tenant
        if tenant:
            if resource is _GROUP and name == SQS_GROUP and caller.door is Door.SQS:
                # Every queue has it; whose queue it is the right to the topic says.
                return True
            if resource is _SUBJECT:
                return name.startswith(scope_of_tenant(tenant))
            return name.startswith(f"{tenant}{SEPARATOR}")
        # Brokers work for all tenants.
        if SEPARATOR not in name or caller.principal.kind == BROKER_KIND:
            return True
        # No topic without a tenant has a separator in its name. Groups may: those of tenants that
        # there are belong to them.
        if resource is _TOPIC:
            return False
        owner = name.partition(SEPARATOR)[0]
        if resource is _SUBJECT:
            owner = tenant_of_subject(name)
        return self._tenants is None or owner not in self._tenants()


def local(tenant: str, resource: Resource, name: str) -> str:
    """As rules and refusals call it."""
    if resource is _SUBJECT:
        return local_subject(tenant, name)
    return local_name(tenant, name)
