"""Tenants with the same names everywhere in one broker, each with contents of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import httpx

from goqueue.broker.node import Node
from goqueue.doors.kafka import connection
from goqueue.doors.web import callers
from goqueue.model.caller import ANONYMOUS, Caller, Door, Principal
from goqueue.model.companions import kind_and_owner
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.tenants import SEPARATOR, tenant_of_topic
from goqueue.model.topics import is_internal
from goqueue.service.broker_service import BrokerService
from tests.access import canaries
from tests.access.canaries import Doors, World
from tests.unit.doors.kafka.wire_client import WireClient

NOBODYS: Final = ""
ACME: Final = "acme"
ZETA: Final = "zeta"
TENANTS: Final = (NOBODYS, ACME, ZETA)


class AllMay:
    """Allows everything; rules are asked by the names that tenants use. Who has no tenant may have
    groups whose names look like those of one."""

    def allows(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> bool:
        is_local = SEPARATOR not in name
        assert is_local or (not caller.principal.tenant and resource is not Resource.TOPIC), name
        assert name.partition(SEPARATOR)[0] not in (ACME, ZETA), name
        return True


def principal_of(tenant: str) -> Principal:
    return Principal("User", f"user-of-{tenant}", tenant) if tenant else ANONYMOUS


@contextmanager
def coming_from(tenant: str) -> Iterator[None]:
    """Connections that are made meanwhile, and requests over HTTP, are those of the tenant's user,
    as if it had logged in."""
    found: Any = principal_of(tenant)
    places: tuple[Any, ...] = (connection, callers)
    for place in places:
        place.ANONYMOUS = found
    try:
        yield
    finally:
        for place in places:
            place.ANONYMOUS = ANONYMOUS


async def make_tenants(node: Node) -> None:
    caller = Caller(principal=ANONYMOUS, door=Door.HTTP)
    service = BrokerService(node)
    for tenant in filter(None, TENANTS):
        await service.tenants.create(caller, tenant, {})


async def fill(node: Node, doors: Doors, tenant: str) -> tuple[World, WireClient]:
    """Everything that `canaries` has, under the same names and with contents of the tenant's."""
    before: Any = canaries.SECRET
    module: Any = canaries
    module.SECRET = f"s3cret_{tenant or 'nobodys'}"
    try:
        with coming_from(tenant):
            live = await WireClient.connect(*doors.kafka.address)
            async with httpx.AsyncClient(base_url=doors.url, timeout=30, verify=False) as http:
                return await canaries.fill(node, http, live, tenant), live
    finally:
        module.SECRET = before


def stored_of(node: Node, tenant: str) -> dict[str, object]:
    """Changes with everything that is stored of a tenant's topics. Without a tenant, of what the
    broker keeps nothing is looked at: it keeps it for all, or writes it late."""
    image = node.image
    topics = {
        name: view
        for name, view in image.topics.items()
        if tenant_of_topic(name) == tenant and not is_internal(name)
    }
    owned = {view.id for view in topics.values()}

    def is_own(name: str) -> bool:
        companion = kind_and_owner(name)
        return name in topics or (bool(tenant) and companion is not None and companion[1] in owned)

    logs = {
        str(partition.name): (partition.log_start_offset, partition.log_end_offset)
        for partition in node.hosted
        if is_own(partition.name.topic)
    }
    groups = {
        name: config
        for name, config in image.group_configs.items()
        if name.startswith(f"{tenant}{SEPARATOR}")
    }
    return {**topics, **logs, **groups}
