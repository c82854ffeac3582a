"""The bit sets of allowed operations that clients can ask for (KIP-430)."""

from typing import Final

from goqueue.doors.kafka.operation import RequestContext
from goqueue.model.rights import CLUSTER_NAME, Resource

NOT_ASKED_FOR: Final = -(2**31)
# Kafka's answer to who may not even describe the cluster.
_NONE: Final = 0


def operations_on(context: RequestContext, resource: Resource, name: str) -> int:
    """What the caller may do, as bits."""
    allowed = context.service.administration.allowed(context.caller, resource, name)
    return sum(1 << verb.value for verb in allowed)


def operations_on_cluster(context: RequestContext) -> int:
    if not context.service.administration.may_describe_cluster(context.caller):
        return _NONE
    return operations_on(context, Resource.CLUSTER, CLUSTER_NAME)
