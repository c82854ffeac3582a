"""The broker's own groups, which no client joins, moves, changes or deletes, whatever rules say."""

from goqueue.model.caller import Caller, Door
from goqueue.model.errors import GroupAccessDenied
from goqueue.model.queues.own_groups import OWN_GROUPS
from goqueue.model.queues.sqs_queue import SQS_GROUP
from goqueue.model.security.tenants import local_name


def check_not_own(caller: Caller, group: str) -> None:
    """Of tenants as well: rules call the group of their queues by the same name."""
    name = local_name(caller.principal.tenant, group)
    purpose = OWN_GROUPS.get(name)
    if purpose is not None and not (caller.door is Door.SQS and name == SQS_GROUP):
        raise GroupAccessDenied(f"group {name!r} is the broker's own: {purpose}")
