"""One broker with three worlds in it, and what holds of everything that somebody is told there."""

import asyncio
import re
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pytest
import uvloop

from goqueue.broker.node import Node
from goqueue.model.broker_config import broker_config
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.tenants import SEPARATOR
from goqueue.service.needs import Need
from tests.access.canaries import SETTINGS, Doors, World
from tests.access.tenant_worlds import NOBODYS, TENANTS, ZETA, AllMay, fill, make_tenants, stored_of

T = TypeVar("T")

# What tenants may ask of the cluster at all.
OF_TENANTS: Final = {Verb.CREATE, Verb.IDEMPOTENT_WRITE}
# The cluster itself, and who logs in to it.
OF_ALL: Final = {Resource.CLUSTER, Resource.USER, Resource.DELEGATION_TOKEN}
# Those that end things come last, so that the others find them.
ENDING: Final = {Verb.DELETE, Verb.ALTER, Verb.ALTER_CONFIGS}
NAMES: Final = re.compile(rb"(?:canary|h1dden)[a-z0-9.\-]*")


@dataclass(slots=True)
class Worlds:
    runner: asyncio.Runner
    node: Node
    doors: Doors
    of: dict[str, World]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    folder = tmp_path_factory.mktemp("tenants")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        texts = {"data.dir": str(folder / "data"), **SETTINGS}
        node = runner.run(Node.open(broker_config(texts)))
        doors = runner.run(Doors.open(node, AllMay()))
        runner.run(node.announce("127.0.0.1", doors.kafka.address[1], 0))
        runner.run(make_tenants(node))
        filled = {tenant: runner.run(fill(node, doors, tenant)) for tenant in TENANTS}
        yield Worlds(runner, node, doors, {tenant: world for tenant, (world, _) in filled.items()})
        for _, live in filled.values():
            live.close()
        runner.run(doors.close())
        runner.run(node.close())


def is_of_cluster(needs: tuple[Need, ...]) -> bool:
    """Whether a tenant is refused, or refused a part, or has accounts of its own."""
    return any(need.resource in OF_ALL and need.verb not in OF_TENANTS for need in needs)


def ends_last(needs: tuple[Need, ...]) -> int:
    return sum(need.verb in ENDING for need in needs) + 2 * any(
        need.verb is Verb.DELETE for need in needs
    )


def check_stays_within(worlds: Worlds, tenant: str, told: bytes) -> None:
    """Nothing of other tenants, and of its own no inner name."""
    for other in TENANTS:
        if other == tenant:
            continue
        world = worlds.of[other]
        mark = f"s3cret_{other or 'nobodys'}".encode()
        assert mark not in told, told
        assert world.topic_id.bytes not in told, told
        assert str(world.topic_id).encode() not in told, told
        if other:
            assert other.encode() not in told, told
    if tenant:
        assert f"{tenant}{SEPARATOR}".encode() not in told, told


def names_in(told: bytes) -> set[bytes]:
    return set(NAMES.findall(told))


class Untouched:
    """What others than acme have is as it was."""

    def __init__(self, worlds: Worlds) -> None:
        self._node = worlds.node
        self._before = {tenant: stored_of(worlds.node, tenant) for tenant in (NOBODYS, ZETA)}

    def check(self) -> None:
        for tenant, before in self._before.items():
            after = stored_of(self._node, tenant)
            changed = {
                name: (before.get(name), after.get(name))
                for name in {*before, *after}
                if before.get(name) != after.get(name)
            }
            assert not changed, (tenant, changed)
