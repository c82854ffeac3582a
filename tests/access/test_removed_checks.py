"""Each place that asks for a right is left out in turn, and a generated test must notice.

A place is a line of the source that asks `service/security/access.py`. It is left out by allowing
what is asked from there, whatever the rules say. Run it with `make removed-checks`.
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
    "service/security/access.py",
    "service/security/rights/",
    "model/rights.py",
    "service/security/allowed_waits.py",
    "service/security/own_topics.py",
)
# Where another question for the same right comes before or after: each of them is enough.
TWICE: Final = frozenset(
    {
        "broker/stories/gathering.py <listcomp> TOPIC READ",
        "service/cluster/cluster.py partitions CLUSTER DESCRIBE",
        "service/cluster/replica_moves.py cancel CLUSTER ALTER",
        "service/cluster/replication.py check CLUSTER CLUSTER_ACTION",
        "service/cluster/replication.py fetch CLUSTER CLUSTER_ACTION",
        "service/cluster/replication.py name_of CLUSTER CLUSTER_ACTION",
        "service/groups/groups.py <dictcomp> TOPIC DESCRIBE",
        "service/groups/groups.py delete_offsets TOPIC READ",
        "service/groups/groups.py positions GROUP DESCRIBE",
        "service/groups/hosted_members.py _commit GROUP READ",
        "service/groups/share_groups.py _readable TOPIC READ",
        "service/groups/share_groups.py acknowledge GROUP READ",
        "service/groups/share_groups.py check GROUP READ",
        "service/groups/share_groups.py fetch GROUP READ",
        "service/groups/share_groups.py terms GROUP READ",
        "service/queues/policies.py apply CLUSTER ALTER",
        "service/queues/queues.py dead_letters TOPIC READ",
        "service/queues/sqs_queues.py for_receiving GROUP READ",
        "service/queues/sqs_queues.py for_receiving TOPIC READ",
        "service/queues/sqs_queues.py for_sending TOPIC WRITE",
        "service/security/rules.py check_used CLUSTER ALTER",
        "service/security/rules.py check_used CLUSTER DESCRIBE",
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
        "service/cluster/administration.py may_describe_cluster CLUSTER DESCRIBE",
        # A node of one moves nothing.
        "service/cluster/replica_moves.py <listcomp> TOPIC DESCRIBE",
        # Ids are no secret, and are told beside a refusal.
        "service/groups/share_groups.py _id_of TOPIC READ",
        # Nobody is told of tokens while security is off, as it is here; `test_delegation_tokens.py`
        # has who sees which.
        "service/security/tokens.py <listcomp> DELEGATION_TOKEN DESCRIBE",
        "service/security/tokens.py <listcomp> USER DESCRIBE_TOKENS",
        # Who leads is no secret, and is told beside a refusal.
        "service/groups/share_groups.py leaders TOPIC READ",
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
        asking, is_allowed = sys._getframe(1), super().allows(caller, resource, name, verb)
        if asking.f_code.co_name == "administers_cluster":
            # Lets nobody do anything, but have what is kept for administrators
            # (`test_tenant_shares.py`).
            return is_allowed
        place = _place(asking, resource, verb)
        self.places.add(place)
        return is_allowed or place == self.left_out


def _place(frame: FrameType | None, resource: Resource, verb: Verb) -> Place:
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(str(_SOURCE)):
            inner = str(Path(file).relative_to(_SOURCE))
            if not inner.startswith(_ASKED):
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
