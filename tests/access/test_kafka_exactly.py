"""Every version of every Kafka operation with the real rules: with what it declares it works, with
any one of that taken away it does not, and without rules nobody learns or changes anything.
"""

import pytest

from goqueue.doors.kafka.operation import Operation
from goqueue.model.rights import Verb
from goqueue.service.needs import Need
from tests.access import test_kafka_nobody as kafka
from tests.access.exact_rights import NOTHING, AllBut, all_but, needed
from tests.access.kafka_requests import Variant, is_named_in, variants
from tests.access.stage import Stage, stage

__all__ = ["stage"]


def _call(
    stage: Stage, given: AllBut, operation: Operation, version: int, variant: Variant
) -> kafka.Answer:
    return stage.run(
        kafka.call(
            stage.world,
            stage.doors,
            lambda: stage.everything_allowed(given),
            operation,
            version,
            variant,
        )
    )


def versions(operation: Operation) -> range:
    return range(operation.min_version, operation.max_version + 1)


@pytest.mark.parametrize("operation", kafka.EVERY_OPERATION)
def test_without_rules(stage: Stage, operation: Operation) -> None:
    stage.prepare()
    for version in versions(operation):
        for variant in variants(operation, version):
            answer = _call(stage, NOTHING, operation, version, variant)
            kafka.check_tells_nothing(stage.world, answer)
            assert not answer.has_changed_anything, (version, variant)
            if any(kafka.is_refused_by_name(stage.world, need, answer) for need in operation.needs):
                assert answer.codes & {*kafka.DENIED.values()}, (version, answer.message)


@pytest.mark.parametrize("operation", kafka.EVERY_OPERATION)
def test_with_all_but_one(stage: Stage, operation: Operation) -> None:
    stage.prepare()
    for removed in operation.needs:
        asked_in = [
            version
            for version in versions(operation)
            if _is_refused(stage, operation, version, removed)
        ]
        named_in = {each for each in versions(operation) if is_named_in(operation, each, removed)}
        assert asked_in, f"{operation.name} never asks for {removed}"
        assert named_in - set(asked_in) <= set(range(asked_in[0])), (removed, asked_in)


def _is_refused(stage: Stage, operation: Operation, version: int, removed: Need) -> bool:
    given = all_but(operation.needs, removed)
    was_asked = False
    topics = set(stage.world.node.image.topics)
    for variant in variants(operation, version):
        answer = _call(stage, given, operation, version, variant)
        if (removed.resource, removed.verb) in stage.rights.asked:
            was_asked = True
            kafka.check_refused(stage.world, removed, answer)
        if removed.verb is Verb.CREATE:
            assert stage.world.node.image.topics.keys() <= topics, (removed, answer.message)
    return was_asked


@pytest.mark.parametrize("operation", kafka.EVERY_OPERATION)
def test_with_exactly_its_needs(stage: Stage, operation: Operation) -> None:
    stage.prepare()
    given = AllBut(needed(operation.needs), set())
    for version in versions(operation):
        for variant in variants(operation, version):
            answer = _call(stage, given, operation, version, variant)
            assert not answer.codes & {*kafka.DENIED.values()}, (version, answer.message)
    stage.used_for(operation.needs)
