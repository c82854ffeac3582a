"""Each place that asks for a right is left out in turn, and a generated test must notice.

A place is a line of the source that asks `service/access.py`. It is left out by allowing what is
asked from there, whatever the rules say. Run it with `make removed-checks`.
"""

import asyncio
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import pytest

import goqueue
from goqueue.model.caller import Caller
from goqueue.model.rights import Resource, Verb
from tests.access import (
    test_kafka_exactly,
    test_kafka_nobody,
    test_web_exactly,
    test_web_nobody,
)
from tests.access.exact_rights import ExactRights
from tests.access.stage import Stage, stage

__all__ = ["stage"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7_200)]

_SOURCE: Final = Path(goqueue.__file__).parent
# These make decisions, and hand on questions.
_ASKED: Final = (
    "service/access.py",
    "model/rights.py",
    "service/allowed_waits.py",
    "service/own_topics.py",
)
# Where another question for the same right comes before or after: each of them is enough.
TWICE: Final = frozenset(
    {
        "broker/stories/gathering.py <listcomp> TOPIC READ",
        "service/cluster.py partitions CLUSTER DESCRIBE",
        "service/groups.py <dictcomp> TOPIC DESCRIBE",
        "service/groups.py delete_offsets TOPIC READ",
        "service/groups.py positions GROUP DESCRIBE",
        "service/hosted_members.py _commit GROUP READ",
        "service/queue_policies.py apply CLUSTER ALTER",
        "service/queues.py dead_letters TOPIC READ",
        "service/replica_moves.py cancel CLUSTER ALTER",
        "service/replication.py check CLUSTER CLUSTER_ACTION",
        "service/replication.py fetch CLUSTER CLUSTER_ACTION",
        "service/replication.py name_of CLUSTER CLUSTER_ACTION",
        "service/rules.py check_used CLUSTER DESCRIBE",
        "service/rules.py check_used CLUSTER ALTER",
        "service/share_groups.py _readable TOPIC READ",
        "service/share_groups.py acknowledge GROUP READ",
        "service/share_groups.py check GROUP READ",
        "service/share_groups.py fetch GROUP READ",
        "service/share_groups.py terms GROUP READ",
        "service/sqs_queues.py for_receiving GROUP READ",
        "service/sqs_queues.py for_receiving TOPIC READ",
        "service/sqs_queues.py for_sending TOPIC WRITE",
        "service/topics.py _may_inspect TOPIC DESCRIBE_CONFIGS",
        "service/topics.py _settings TOPIC DESCRIBE_CONFIGS",
        "service/topics.py name_of TOPIC DESCRIBE",
        "service/topics.py name_of TOPIC READ",
        "service/tracing.py traceparent TOPIC WRITE",
        "service/tracing.py traceparent_of_delayed TOPIC WRITE",
        "service/transactions.py _listed TRANSACTIONAL_ID DESCRIBE",
    }
)
HARMLESS: Final = frozenset(
    {
        # Each operation on the cluster is asked for then.
        "service/administration.py may_describe_cluster CLUSTER DESCRIBE",
        # A node of one moves nothing.
        "service/replica_moves.py <listcomp> TOPIC DESCRIBE",
        # Ids are no secret, and are told beside a refusal.
        "service/share_groups.py _id_of TOPIC READ",
        # Who leads is no secret, and is told beside a refusal.
        "service/share_groups.py leaders TOPIC READ",
        # There are none without log-ins; who sees which with them is asked in
        # tests/unit/doors/kafka/test_delegation_tokens.py.
        "service/tokens.py <listcomp> DELEGATION_TOKEN DESCRIBE",
        "service/tokens.py <listcomp> USER DESCRIBE_TOKENS",
    }
)


class Place(NamedTuple):
    file: str
    function: str
    line: int
    resource: Resource
    verb: Verb

    def __str__(self) -> str:
        return f"{self.file} {self.function} {self.resource.name} {self.verb.name}"


class Generated(NamedTuple):
    run: Callable[[Stage, Any], None]
    operation: Any


class LeavingOut(ExactRights):
    """Real rules, but for what one place asks."""

    def __init__(self) -> None:
        super().__init__()
        self.left_out: Place | None = None
        self.places: set[Place] = set()

    def allows(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> bool:
        place = _place(sys._getframe(1), resource, verb)
        self.places.add(place)
        is_allowed = super().allows(caller, resource, name, verb)
        return is_allowed or place == self.left_out


def _place(frame: FrameType | None, resource: Resource, verb: Verb) -> Place:
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(str(_SOURCE)):
            inner = str(Path(file).relative_to(_SOURCE))
            if inner not in _ASKED:
                return Place(inner, frame.f_code.co_name, frame.f_lineno, resource, verb)
        frame = frame.f_back
    raise AssertionError("nobody asked")


def every_test() -> Iterator[Generated]:
    for module, operations in (
        (test_kafka_exactly, test_kafka_nobody.EVERY_OPERATION),
        (test_web_exactly, test_web_nobody.EVERY_OPERATION),
    ):
        for run in (module.test_without_rules, module.test_with_all_but_one):
            for each in operations:
                yield Generated(run, each.values[0])


def test_each_place_is_noticed(stage: Stage) -> None:
    rights = LeavingOut()
    stage.rights = rights
    asked_in: dict[Place, list[Generated]] = defaultdict(list)
    for test in every_test():
        rights.places.clear()
        is_failing(stage, test)
        for place in rights.places:
            asked_in[place].append(test)
    unnoticed: set[str] = set()
    for place, tests in sorted(asked_in.items(), key=str):
        if not is_noticed(stage, rights, place, tests):
            unnoticed.add(str(place))
            print(f"not noticed: {place}", flush=True)
    print(f"{len(asked_in)} places, {len(unnoticed)} of them not noticed", flush=True)
    assert unnoticed <= TWICE | HARMLESS


def is_noticed(stage: Stage, rights: LeavingOut, place: Place, tests: list[Generated]) -> bool:
    rights.left_out = place
    try:
        return any(is_failing(stage, test) for test in tests)
    finally:
        rights.left_out = None


def is_failing(stage: Stage, test: Generated) -> bool:
    """Afterwards everything is as it was."""
    stage.prepare()
    before = stage.world.state()
    try:
        test.run(stage, test.operation)
    except (AssertionError, asyncio.IncompleteReadError):
        # A connection that is closed without an answer is noticed, too.
        return True
    finally:
        if stage.world.changes_since(before):
            stage.clear()
    return False
