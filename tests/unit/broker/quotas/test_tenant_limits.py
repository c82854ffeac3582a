"""What tenants may have: counted by names, refused by the limit's name."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest

from goqueue.broker.quotas.tenant_limits import RECOUNT_MS, TenantLimits
from goqueue.model.caller import Caller, Door, Principal
from goqueue.model.companions import DELAYED, companion_of
from goqueue.model.errors import InvalidRequest, TooManyGroups
from goqueue.model.security.quotas import LimitReached
from goqueue.model.security.tenant_limits import TenantLimit, check_tenant_limits
from goqueue.model.security.tenants import Tenant

ACME = Caller(principal=Principal("User", "alice", "acme"), door=Door.HTTP)
OTHER = Caller(principal=Principal("User", "bob", "other"), door=Door.HTTP)
NOBODY = Caller(principal=Principal("User", "carol"), door=Door.HTTP)


class World:
    def __init__(self, **limits: float) -> None:
        self.now_ms = 0.0
        self.topics = {
            name: SimpleNamespace(name=name, id=uuid4(), partitions=[None] * partitions)
            for name, partitions in (("acme@a", 3), ("acme@b", 2), ("other@a", 7), ("plain", 1))
        }
        self.sizes = {"acme@a": 600, "acme@b": 300, "other@a": 9_000}
        self.groups = ["acme@one", "acme@two", "other@one", "mine"]
        self.queue_groups: list[str] = []
        tenants = {"acme": Tenant(name="acme", limits=limits)}
        node: Any = SimpleNamespace(
            security=SimpleNamespace(image=SimpleNamespace(tenants=tenants)),
            image=SimpleNamespace(topics=self.topics),
            groups=SimpleNamespace(room=SimpleNamespace(names=lambda: iter(self.groups))),
            queues=SimpleNamespace(registry=SimpleNamespace(queue_keys=self._queue_keys)),
        )
        self.node = node
        self.limits = TenantLimits(cast(Any, node), lambda: self.now_ms)

    def _queue_keys(self) -> list[Any]:
        return [SimpleNamespace(group=group) for group in self.queue_groups]

    @property
    def hosted(self) -> list[Any]:
        return [
            SimpleNamespace(name=SimpleNamespace(topic=topic), log=SimpleNamespace(size_bytes=size))
            for topic, size in self.sizes.items()
        ]


def test_topics_and_partitions() -> None:
    limits = World(topics=3, partitions=8).limits
    limits.check_topics(ACME, 3)
    with pytest.raises(LimitReached, match="limit partitions: tenant 'acme' has its 8"):
        limits.check_topics(ACME, 4)
    with pytest.raises(LimitReached, match="limit topics"):
        World(topics=2).limits.check_topics(ACME, 1)
    # More partitions for a topic that there is.
    World(topics=2, partitions=7).limits.check_topics(ACME, 2, topics=0)
    with pytest.raises(LimitReached):
        World(topics=2, partitions=7).limits.check_topics(ACME, 3, topics=0)


def test_others_are_not_concerned() -> None:
    limits = World(topics=0, partitions=0, storage_bytes=0, groups=0, connections=0).limits
    for caller in (OTHER, NOBODY):
        limits.check_topics(caller, 100)
        limits.check_storage(caller)
        limits.joined(caller.principal.tenant)
    limits.check_group("other@new")
    limits.check_group("new")


def test_stored_bytes_are_counted_anew_after_a_while() -> None:
    world = World(storage_bytes=1_000)
    world.node.hosted = world.hosted
    world.limits.check_storage(ACME)
    world.sizes["acme@a"] = 700
    world.node.hosted = world.hosted
    world.limits.check_storage(ACME)
    world.now_ms += RECOUNT_MS + 1
    with pytest.raises(LimitReached, match="limit storage_bytes: tenant 'acme' has its 1000"):
        world.limits.check_storage(ACME)


def test_delayed_messages_are_stored_bytes() -> None:
    world = World(storage_bytes=1_000)
    world.sizes[companion_of(DELAYED, world.topics["other@a"].id)] = 9_000
    world.node.hosted = world.hosted
    world.limits.check_storage(ACME)
    world.sizes[companion_of(DELAYED, world.topics["acme@b"].id)] = 200
    world.node.hosted = world.hosted
    world.now_ms += RECOUNT_MS + 1
    with pytest.raises(LimitReached, match="limit storage_bytes"):
        world.limits.check_storage(ACME)


def test_groups() -> None:
    world = World(groups=3)
    world.limits.check_group("acme@new")
    # One that reads a queue, and one that does so besides.
    world.queue_groups += ["acme@three", "acme@one", "other@two"]
    with pytest.raises(TooManyGroups, match="limit groups"):
        world.limits.check_group("acme@new")
    world.limits.check_group("acme@three")


def test_connections_come_and_go() -> None:
    limits = World(connections=2).limits
    limits.joined("acme")
    limits.joined("acme")
    with pytest.raises(LimitReached, match="limit connections"):
        limits.joined("acme")
    limits.left("acme")
    limits.joined("acme")
    assert limits.limit("acme", TenantLimit.CONNECTIONS) == 2


def queues(in_flight: dict[str, int]) -> Any:
    """A registry of queues with so many messages of each topic in flight."""
    keys = [SimpleNamespace(topic_id=topic, group="acme@queue") for topic in in_flight]
    machine = SimpleNamespace(
        queue_keys=keys,
        look=lambda key, _one, _two: SimpleNamespace(in_flight=in_flight[key.topic_id]),
    )
    state = SimpleNamespace(loaded_shards=lambda: [SimpleNamespace(machine=machine)])
    return SimpleNamespace(registry=SimpleNamespace(state=state, queue_keys=lambda: keys))


def test_messages_in_flight_are_counted_as_they_are_handed_out() -> None:
    world, in_flight = World(in_flight_messages=10), {"acme@a": 6, "other@a": 50}
    world.node.queues = queues(in_flight)
    world.node.image.topics_by_id = world.topics
    world.limits.check_in_flight(ACME)
    world.limits.handed_out(ACME, 4)
    with pytest.raises(LimitReached, match="limit in_flight_messages"):
        world.limits.check_in_flight(ACME)
    in_flight["acme@a"] = 2
    world.now_ms += RECOUNT_MS + 1
    world.limits.check_in_flight(ACME)


def test_limits_are_checked_when_they_are_set() -> None:
    check_tenant_limits({"topics": 0, "producer_byte_rate": 1.5})
    for wrong in (
        {"topic": 1},
        {"topics": -1},
        {"producer_byte_rate": 0},
        {"groups": float("nan")},
    ):
        with pytest.raises(InvalidRequest, match=next(iter(wrong))):
            check_tenant_limits(cast(dict[str, float], wrong))
