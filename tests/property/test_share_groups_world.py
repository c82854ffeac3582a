"""A share group under any order of joins, heartbeats, losses, silence, new topics and crashes."""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.model.groups.assignment import Assignment
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.share_messages import (
    DescribedShareGroup,
    ShareGroupHeartbeat,
    ShareGroupHeartbeatResult,
)
from goqueue.state.groups.settings import GroupSettings
from goqueue.state.machine import Ticket
from tests.unit.state import durable_records
from tests.unit.state.groups.group_world import GroupWorld, table_of, topic_id, topics

MEMBERS = [f"m{number}" for number in range(5)]
SESSION_MS = 1_000
LIMIT = 4
names_of_topics = st.sampled_from([("a",), ("b",), ("a", "b")])


@dataclass
class Client:
    """What a member believes."""

    epoch: int = 0
    subscribed: tuple[str, ...] = ("a",)
    assigned: Assignment | None = None
    is_in: bool = False
    heard_ms: int = 0


class ShareGroupWorld(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = GroupWorld(
            GroupSettings(share_session_timeout_ms=SESSION_MS, share_max_size=LIMIT),
            topics(a=2, b=1),
        )
        self.counts = {"a": 2, "b": 1}
        self.clients = {name: Client() for name in MEMBERS}
        self.group_epoch = 0

    def beat(
        self, name: str, epoch: int, subscribed: tuple[str, ...] | None
    ) -> ShareGroupHeartbeatResult:
        self.world.tickets += 1
        request = ShareGroupHeartbeat(
            group_id="g", member_id=name, member_epoch=epoch, subscribed_topics=subscribed
        )
        (reply,) = self.world.take(
            self.world.machine.share_heartbeat(
                request, ticket=Ticket(self.world.tickets), now_ms=self.world.now_ms
            )
        )
        assert isinstance(reply.response, ShareGroupHeartbeatResult)
        return reply.response

    def described(self) -> DescribedShareGroup:
        (reply,) = self.world.take(self.world.machine.describe_share_group("g", ticket=Ticket(0)))
        assert isinstance(reply.response, DescribedShareGroup)
        return reply.response

    def hear(self, client: Client, answer: ShareGroupHeartbeatResult, *, is_lost: bool) -> None:
        client.heard_ms = self.world.now_ms
        if is_lost:
            return
        assert answer.member_epoch >= client.epoch
        client.epoch = answer.member_epoch
        if answer.assignment is not None:
            client.assigned = answer.assignment

    @rule(name=st.sampled_from(MEMBERS), subscribed=names_of_topics, is_lost=st.booleans())
    def join(self, name: str, subscribed: tuple[str, ...], is_lost: bool) -> None:
        client = self.clients[name]
        present = {member.member_id for member in self.described().members}
        answer = self.beat(name, 0, subscribed)
        if name not in present and len(present) >= LIMIT:
            assert answer.error is GroupError.GROUP_MAX_SIZE_REACHED
            return
        assert answer.error is GroupError.NONE
        assert answer.assignment is not None
        client.subscribed = subscribed
        client.is_in = not is_lost
        self.hear(client, answer, is_lost=is_lost)

    @rule(name=st.sampled_from(MEMBERS), is_lost=st.booleans())
    def heartbeat(self, name: str, is_lost: bool) -> None:
        client = self.clients[name]
        if not client.is_in:
            return
        answer = self.beat(name, client.epoch, None)
        if answer.error is not GroupError.NONE:
            # Only silence, or a second answer that was lost, may cost a member its place.
            silent_ms = self.world.now_ms - client.heard_ms
            assert (answer.error is GroupError.UNKNOWN_MEMBER_ID and silent_ms >= SESSION_MS) or (
                answer.error is GroupError.FENCED_MEMBER_EPOCH
            )
            client.is_in = False
            client.epoch = 0
            return
        self.hear(client, answer, is_lost=is_lost)

    @rule(name=st.sampled_from(MEMBERS))
    def leave(self, name: str) -> None:
        present = {member.member_id for member in self.described().members}
        answer = self.beat(name, -1, None)
        if name in present:
            assert answer.error is GroupError.NONE
        else:
            assert answer.error in (GroupError.UNKNOWN_MEMBER_ID, GroupError.GROUP_ID_NOT_FOUND)
        self.clients[name] = Client()

    @rule(by_ms=st.integers(1, SESSION_MS))
    def wait(self, by_ms: int) -> None:
        self.world.advance(by_ms)

    @rule(name=st.sampled_from(["a", "b"]), count=st.integers(0, 4))
    def change_topic(self, name: str, count: int) -> None:
        self.counts[name] = count
        self.world.set_topics(topics(**{n: c for n, c in self.counts.items() if c}))

    @rule()
    def crash(self) -> None:
        # Sessions of those who are still in begin anew: nobody goes earlier for it.
        self.world.crash()

    @rule()
    def settle(self) -> None:
        """Once all that are there have asked, everybody reads and everything is read."""
        for _ in range(2):
            for member in self.described().members:
                client = self.clients[member.member_id]
                answer = self.beat(member.member_id, 0, member.subscribed_topics)
                assert answer.error is GroupError.NONE
                client.is_in, client.subscribed = True, member.subscribed_topics
                self.hear(client, answer, is_lost=False)
        group = self.described()
        assert group.group_epoch == group.assignment_epoch or not group.members
        wanted = {name for member in group.members for name in member.subscribed_topics}
        read = set()
        for member in group.members:
            assert member.member_epoch == group.group_epoch
            client = self.clients[member.member_id]
            assert client.assigned == member.assignment
            held = {(topic, n) for topic, numbers in member.assignment.items() for n in numbers}
            available = sum(self.counts[name] for name in member.subscribed_topics)
            assert bool(held) == bool(available)
            read |= held
        assert read == {(topic_id(n), i) for n in wanted for i in range(self.counts[n])}

    @invariant()
    def epochs_only_rise(self) -> None:
        group = self.described()
        assert group.group_epoch >= self.group_epoch
        assert group.assignment_epoch <= group.group_epoch
        assert all(member.member_epoch <= group.group_epoch for member in group.members)
        self.group_epoch = group.group_epoch

    @invariant()
    def the_log_tells_everything(self) -> None:
        assert table_of(durable_records.of_groups(self.world.machine)) == table_of(self.world.log)


ShareGroupWorld.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestShareGroupWorld = ShareGroupWorld.TestCase
