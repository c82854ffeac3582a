"""Every version of every Kafka operation, by a caller who may do nothing, or all but one thing.

The requests are made from the table of operations and their needs. What comes back is a refusal or
an empty list, holds nothing of what is stored, and nothing is changed by it.
"""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from goqueue.doors.kafka.handlers import OPERATIONS
from goqueue.doors.kafka.operation import Operation
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need, Refused
from tests.access.canaries import NAMES, TOPIC, Doors, World
from tests.access.conftest import Scene
from tests.access.kafka_requests import Variant, is_named_in, request, variants
from tests.access.rule_sets import alternatives
from tests.unit.doors.kafka.wire_client import WireClient

DENIED = {
    Resource.TOPIC: ErrorCode.topic_authorization_failed,
    Resource.GROUP: ErrorCode.group_authorization_failed,
    Resource.CLUSTER: ErrorCode.cluster_authorization_failed,
    Resource.TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
    Resource.USER: ErrorCode.delegation_token_authorization_failed,
}

EVERY_OPERATION = [pytest.param(each, id=each.name) for each in OPERATIONS.values()]


def schema_name(operation: Operation) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in operation.name).lstrip("_")


@dataclasses.dataclass(frozen=True)
class Answer:
    asked: bytes
    frame: bytes
    message: Any
    has_changed_anything: bool

    @property
    def codes(self) -> set[ErrorCode]:
        return set(_codes(self.message))


def _codes(value: Any) -> Iterator[ErrorCode]:
    if isinstance(value, ErrorCode):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _codes(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _codes(getattr(value, field.name))


async def call(
    world: World,
    doors: Doors,
    everything_allowed: Callable[[], AbstractContextManager[None]],
    operation: Operation,
    version: int,
    variant: Variant,
) -> Answer:
    client = await WireClient.connect(*doors.kafka.address)
    try:
        with everything_allowed():
            for name, words in variant.before:
                earlier = next(each for each in OPERATIONS.values() if each.name == name)
                message = request(earlier, earlier.max_version, words, world)
                await client.call(schema_name(earlier), earlier.max_version, **message)
        before = world.state()
        message = request(operation, version, variant.words, world)
        _, kind = client.send(schema_name(operation), version, **message)
        frame = await client.receive_frame()
        position = 4 if kind.__header_schema__.__version__ == 0 else 5
        answer, _ = entity_reader(kind)(memoryview(frame), position)
        return Answer(
            asked=repr(message).encode(),
            frame=frame,
            message=answer,
            has_changed_anything=world.state() != before,
        )
    finally:
        client.close()


async def _call(
    scene: Scene, doors: Doors, operation: Operation, version: int, variant: Variant
) -> Answer:
    return await call(scene.world, doors, scene.but_one.nothing_denied, operation, version, variant)


def check_tells_nothing(world: World, answer: Answer) -> None:
    for secret in world.secrets:
        assert secret not in answer.frame, answer.message
    for name in NAMES.values():
        assert name.encode() in answer.asked or name.encode() not in answer.frame, answer.message


def is_refused_by_name(world: World, need: Need, answer: Answer) -> bool:
    """Whether a refusal is due; of lists, what the caller may not see is left out."""
    if need.refused is Refused.LEFT_OUT:
        return False
    asked_id = str(world.topic_id).encode()
    return not need.names or b"canary" in answer.asked or asked_id in answer.asked


def check_refused(world: World, need: Need, answer: Answer) -> None:
    if is_refused_by_name(world, need, answer):
        # Also of a topic that is asked for by its id, as in Kafka.
        assert DENIED[need.resource] in answer.codes, (need, answer.message)
        assert not answer.has_changed_anything, (need, answer.message)
    if need.resource in NAMES:
        # Who asks by an id is refused without being told whose it is.
        name = NAMES[need.resource].encode()
        assert name in answer.asked or name not in answer.frame, (need, answer.message)


@pytest.mark.parametrize("operation", EVERY_OPERATION)
def test_nobody_learns_or_changes_anything(scene: Scene, operation: Operation) -> None:
    assert operation.needs is not None
    declared = {(need.resource, need.verb) for need in operation.needs}
    declared |= {each for need in operation.needs for each in alternatives(need)}
    for version in range(operation.min_version, operation.max_version + 1):
        for variant in variants(operation, version):
            scene.nobody.asked.clear()
            answer = scene.run(_call(scene, scene.closed, operation, version, variant))
            check_tells_nothing(scene.world, answer)
            assert not answer.has_changed_anything, (version, variant)
            assert scene.nobody.asked <= declared, (version, variant)
            if any(is_refused_by_name(scene.world, need, answer) for need in operation.needs):
                assert answer.codes & {*DENIED.values()}, (version, answer.message)


@pytest.mark.parametrize("operation", EVERY_OPERATION)
def test_each_need_is_asked_for_and_refused(scene: Scene, operation: Operation) -> None:
    for need in operation.needs or ():
        asked_in = [
            version
            for version in range(operation.min_version, operation.max_version + 1)
            if _is_asked_for(scene, operation, version, need)
        ]
        named_in = [
            version
            for version in range(operation.min_version, operation.max_version + 1)
            if is_named_in(operation, version, need)
        ]
        # Kinds of resources may have come with later versions; from then on all ask.
        assert asked_in, f"{operation.name} never asks for {need}"
        assert set(named_in) - set(asked_in) <= set(range(asked_in[0])), (need, asked_in)


def _is_asked_for(scene: Scene, operation: Operation, version: int, need: Need) -> bool:
    was_asked = False
    for variant in variants(operation, version):
        scene.but_one.deny(need)
        answer = scene.run(_call(scene, scene.nearly_open, operation, version, variant))
        if (need.resource, need.verb) in scene.but_one.asked:
            was_asked = True
            check_refused(scene.world, need, answer)
    return was_asked


LOOKING = {Verb.DESCRIBE, Verb.DESCRIBE_CONFIGS}
# Others would have their effects, as nothing but topics is refused here; and whoever may look at
# the whole cluster sees its topics.
EVERY_LOOK = [
    pytest.param(each, id=each.name)
    for each in OPERATIONS.values()
    if {need.verb for need in each.needs or ()} <= LOOKING
    and Resource.CLUSTER not in {need.resource for need in each.needs or ()}
]


@pytest.mark.parametrize("operation", EVERY_LOOK)
def test_whoever_may_see_no_topic_is_told_of_none(scene: Scene, operation: Operation) -> None:
    """Whatever an operation declares: what it tells of groups and transactions may name topics."""
    for variant in variants(operation, operation.max_version):
        scene.but_one.denied = {(Resource.TOPIC, verb) for verb in Verb}
        answer = scene.run(
            _call(scene, scene.nearly_open, operation, operation.max_version, variant)
        )
        name = TOPIC.encode()
        assert name in answer.asked or name not in answer.frame, answer.message
