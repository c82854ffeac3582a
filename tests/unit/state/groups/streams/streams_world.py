"""Topologies of one letter per topic, and members of streams groups that talk to a machine."""

from collections.abc import Iterable
from typing import Any, TypeVar

from goqueue.model.groups.assignment import assignment
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.streams_messages import (
    DescribedStreamsGroup,
    StreamsGroupHeartbeat,
    StreamsGroupHeartbeatResult,
)
from goqueue.model.groups.tasks import NO_TASKS, TaskKey, TaskRole, Tasks, of_role
from goqueue.model.groups.topology import ApplicationTopic, Subtopology, Topology
from goqueue.state.groups.settings import GroupSettings
from goqueue.state.groups.topics import Topics
from goqueue.state.machine import Outcome, Ticket
from tests.unit.state.groups.group_world import GroupWorld, topics

R = TypeVar("R")

# Counts words: one subtopology sends them on by word, the other counts what comes.
WORDS = Topology(
    0,
    (
        Subtopology("0", source_topics=("in",), sink_topics=("by-word",)),
        Subtopology(
            "1",
            repartition_topics=(ApplicationTopic("by-word"),),
            changelog_topics=(ApplicationTopic("counts", config=(("cleanup.policy", "compact"),)),),
        ),
    ),
)
# Copies, without any topic of its own.
COPY = Topology(0, (Subtopology("0", source_topics=("in",)),))


def words_topics(count: int) -> Topics:
    return topics(**{"in": count, "by-word": count, "counts": count})


def tasks(active: str = "", standby: str = "") -> Tasks:
    """`0_1 1_0`: partition 1 of subtopology 0, and partition 0 of subtopology 1."""
    return assignment(
        (TaskKey(role, text.split("_")[0]), (int(text.split("_")[1]),))
        for role, texts in ((TaskRole.ACTIVE, active), (TaskRole.STANDBY, standby))
        for text in texts.split()
    )


def shown(given: Tasks | None, role: TaskRole = TaskRole.ACTIVE) -> str:
    found = of_role(given or NO_TASKS, role)
    return " ".join(f"{name}_{n}" for name in sorted(found) for n in sorted(found[name]))


class StreamsWorld(GroupWorld):
    def __init__(self, known: Topics | None = None, **settings: int) -> None:
        super().__init__(GroupSettings(**settings), known or words_topics(2))  # type: ignore[arg-type]

    def beat(self, member: str, epoch: int, **words: Any) -> StreamsGroupHeartbeatResult:
        request = StreamsGroupHeartbeat(
            **{"group_id": "g", "member_id": member, "member_epoch": epoch, **words}
        )
        return self._asked(
            self.machine.streams_heartbeat(
                request, ticket=Ticket(self._ticket()), now_ms=self.now_ms
            ),
            StreamsGroupHeartbeatResult,
        )

    def join(
        self,
        member: str,
        topology: Topology | None = WORDS,
        process: str | None = None,
        **words: Any,
    ) -> StreamsGroupHeartbeatResult:
        return self.beat(
            member,
            0,
            **{
                "topology": topology,
                "process_id": process or f"process-{member}",
                "rebalance_timeout_ms": 60_000,
                "owned": NO_TASKS,
                **words,
            },
        )

    def described(self, group_id: str = "g") -> DescribedStreamsGroup:
        outcome = self.machine.describe_streams_group(group_id, ticket=Ticket(self._ticket()))
        return self._asked(outcome, DescribedStreamsGroup)

    def settled(self, members: Iterable[str]) -> dict[str, Tasks]:
        """Everybody joins anew, gives up at once what it has to, and gets what is free."""
        names = list(members)
        epochs = {name: self.join(name).member_epoch for name in names}
        held: dict[str, Tasks] = dict.fromkeys(names, NO_TASKS)
        for _ in range(4):
            for name in names:
                answer = self.beat(name, epochs[name], owned=held[name])
                assert answer.error is GroupError.NONE, answer
                epochs[name] = answer.member_epoch
                held[name] = held[name] if answer.tasks is None else answer.tasks
        return held

    def _ticket(self) -> int:
        self.tickets += 1
        return self.tickets

    def _asked(self, outcome: Outcome, kind: type[R]) -> R:
        (reply,) = self.take(outcome)
        assert isinstance(reply.response, kind)
        return reply.response
