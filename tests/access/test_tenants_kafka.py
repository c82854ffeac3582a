"""Every version of every Kafka operation, by users of two tenants that have the same names
everywhere, and by one without a tenant.

Whoever may do everything in its tenant gets what it would get without one: the same codes, the same
names. Nothing that it gets has an inner name in it, or anything of another tenant, and nothing of
another tenant is changed by it.
"""

from typing import Any, Final

import pytest
from kio.serial import entity_reader

from goqueue.doors.kafka.handlers import OPERATIONS
from goqueue.doors.kafka.operation import Operation
from tests.access.canaries import World
from tests.access.kafka_requests import Variant, request, variants
from tests.access.tenant_scene import (
    Untouched,
    Worlds,
    check_stays_within,
    ends_last,
    is_of_cluster,
    names_in,
    worlds,
)
from tests.access.tenant_worlds import ACME, NOBODYS, coming_from
from tests.access.test_kafka_nobody import Answer, schema_name
from tests.unit.doors.kafka.wire_client import WireClient

__all__ = ["worlds"]


def _producer(world: World) -> dict[str, Any]:
    """The world's own, in all requests that name one."""
    known = {"producer_id": world.producer["producerId"], "producer_epoch": world.producer["epoch"]}
    within = ("", "transactions.", "v3_and_below_")
    return {f"{prefix}{name}": value for prefix in within for name, value in known.items()}


async def _call(
    worlds: Worlds, tenant: str, operation: Operation, version: int, variant: Variant
) -> Answer:
    world = worlds.of[tenant]
    with coming_from(tenant):
        client = await WireClient.connect(*worlds.doors.kafka.address)
        try:
            for name, words in variant.before:
                earlier = next(each for each in OPERATIONS.values() if each.name == name)
                message = request(earlier, earlier.max_version, words, world)
                await client.call(schema_name(earlier), earlier.max_version, **message)
            message = request(operation, version, {**_producer(world), **variant.words}, world)
            _, kind = client.send(schema_name(operation), version, **message)
            frame = await client.receive_frame()
        finally:
            client.close()
    position = 4 if kind.__header_schema__.__version__ == 0 else 5
    answer, _ = entity_reader(kind)(memoryview(frame), position)
    return Answer(repr(message).encode(), frame, answer, has_changed_anything=False)


KAFKA: Final = sorted(OPERATIONS.values(), key=lambda each: ends_last(each.needs or ()))


@pytest.mark.parametrize("operation", [pytest.param(each, id=each.name) for each in KAFKA])
def test_kafka_stays_within_the_tenant(worlds: Worlds, operation: Operation) -> None:
    for version in range(operation.min_version, operation.max_version + 1):
        for variant in variants(operation, version):
            others = Untouched(worlds)
            got = worlds.run(_call(worlds, ACME, operation, version, variant))
            others.check()
            usual = worlds.run(_call(worlds, NOBODYS, operation, version, variant))
            check_stays_within(worlds, ACME, got.frame)
            check_stays_within(worlds, NOBODYS, usual.frame)
            if is_of_cluster(operation.needs or ()):
                continue
            assert got.codes == usual.codes, (version, got.message, usual.message)
            told, expected = repr(got.message).encode(), repr(usual.message).encode()
            assert names_in(told) == names_in(expected), (version, got.message, usual.message)
