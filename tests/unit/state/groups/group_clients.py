"""Clients of both protocols, and the coordinator they talk to, as far as a test can see them."""

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any

from goqueue.model.groups.assignment import Assignment, assignment
from goqueue.model.groups.consumer_protocol import (
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResult,
    DescribedConsumerGroup,
    DescribedGroup,
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinGroupResult,
    LeaveGroup,
    LeavingMember,
    MemberProtocol,
    SyncGroup,
    SyncGroupResult,
)
from goqueue.state.groups.coordinator import GroupMachine
from goqueue.state.groups.settings import GroupSettings
from goqueue.state.groups.topics import Topics
from goqueue.state.machine import Outcome, Reply, Ticket
from tests.unit.state.groups.group_world import GroupWorld, topics

Place = tuple[str, int]
Command = Callable[[GroupMachine, Ticket[Any], int], Outcome]
TOPICS = ("a", "b")


def to_assignment(places: set[Place], known: Topics) -> Assignment:
    return assignment((known.by_name[t].id, [p]) for t, p in places)


def from_assignment(found: Assignment, known: Topics) -> set[Place]:
    """Partitions of topics that are gone are nobody's."""
    return {
        (known.by_id[t].name, p)
        for t, numbers in found.items()
        if t in known.by_id
        for p in numbers
    }


def by_topic(places: set[Place]) -> dict[str, list[int]]:
    return {
        t: sorted(p for n, p in places if n == t) for t in TOPICS if any(n == t for n, _ in places)
    }


class Coordinator:
    """The machine behind tickets: every ticket is answered once, or lost in a crash."""

    def __init__(self) -> None:
        self.world = GroupWorld(GroupSettings(initial_rebalance_delay_ms=50), topics(a=3, b=2))
        self.clients: list[Client] = []
        self.waiting: dict[int, Client] = {}
        self.settled: set[int] = set()
        # The next command is decided, but the broker dies before anything is appended.
        self.dies_before_append = False

    def ask(self, client: "Client", outcome_of: Command, *, lose_reply: bool) -> None:
        self.world.tickets += 1
        ticket: Ticket[Any] = Ticket(self.world.tickets)
        self.waiting[ticket] = client
        client.ticket = ticket
        client.deaf_to = ticket if lose_reply else None
        outcome = outcome_of(self.world.machine, ticket, self.world.now_ms)
        if self.dies_before_append:
            self.dies_before_append = False
            self.crash()
        else:
            self.deliver(self.world.take(outcome))

    def tell(self, outcome_of: Command) -> object:
        """Ask without a client: the answer comes at once and is returned."""
        self.world.tickets += 1
        ticket: Ticket[Any] = Ticket(self.world.tickets)
        replies = self.world.take(outcome_of(self.world.machine, ticket, self.world.now_ms))
        own = [reply for reply in replies if reply.ticket == ticket]
        others = [reply for reply in replies if reply.ticket != ticket]
        if others:
            self.deliver(others)
        assert len(own) == 1
        return own[0].response

    def advance(self, by_ms: int) -> None:
        self.deliver([reply for _, reply in self.world.advance(by_ms)])

    def deliver(self, replies: list[Reply]) -> None:
        for ticket, response in replies:
            assert ticket not in self.settled, "answered twice"
            self.settled.add(ticket)
            client = self.waiting.pop(ticket)
            if client.ticket == ticket:
                client.ticket = None
                if client.deaf_to == ticket:
                    client.missed()
                else:
                    client.heard(response)
        self.note_zombies()

    def note_zombies(self) -> None:
        """A client that was put out does not know yet; what it still holds is not its own."""
        members = self.members()
        for client in self.clients:
            if client.member_id not in members:
                client.zombie, client.floor = True, 0
            if not client.owned:
                client.zombie = False

    def crash(self) -> None:
        waiting, self.waiting = self.waiting, {}
        self.world.crash()
        for ticket, client in waiting.items():
            if client.ticket == ticket:
                client.ticket = None
                client.missed()
        self.note_zombies()

    def members(self) -> set[str]:
        consumer = self.tell(lambda m, ticket, _: m.describe_consumer_group("g", ticket=ticket))
        classic = self.tell(lambda m, ticket, _: m.describe_group("g", ticket=ticket))
        assert isinstance(consumer, DescribedConsumerGroup)
        assert isinstance(classic, DescribedGroup)
        modern = {member.member_id for member in consumer.members}
        return modern | {member.member_id for member in classic.members}


@dataclass(eq=False)
class Client:
    coordinator: Coordinator
    name: str
    member_id: str = ""
    # The generation or member epoch it has reached.
    generation: int = 0
    owned: set[Place] = field(default_factory=set)
    ticket: int | None = None
    deaf_to: int | None = None
    silent: bool = False
    zombie: bool = False
    # The highest generation it was told since it is a member; none below may follow.
    floor: int = 0

    def reached(self, generation: int) -> None:
        assert generation >= self.floor
        self.generation = self.floor = generation

    def act(self, *, lose_reply: bool) -> None:
        raise NotImplementedError

    def heard(self, response: object) -> None:
        raise NotImplementedError

    def missed(self) -> None:
        raise NotImplementedError

    def leave(self) -> None:
        raise NotImplementedError

    def forget(self, gone: Set[str]) -> None:
        self.owned = {place for place in self.owned if place[0] not in gone}


@dataclass(eq=False)
class ConsumerClient(Client):
    """Speaks KIP-848. It revokes and takes on partitions when `reconcile` is called, not before."""

    told: set[Place] = field(default_factory=set)
    wants: tuple[str, ...] = TOPICS
    full: bool = True

    def act(self, *, lose_reply: bool) -> None:
        if self.ticket is not None:
            return
        joining = self.generation == 0
        full = joining or self.full
        request = ConsumerGroupHeartbeat(
            group_id="g",
            member_id=self.name,
            member_epoch=self.generation,
            rebalance_timeout_ms=20_000 if full else -1,
            subscribed_topics=self.wants if full else None,
            owned={} if joining else to_assignment(self.owned, self.coordinator.world.known),
        )
        if joining:
            assert not self.owned
        self.member_id = self.name
        self.coordinator.ask(
            self,
            lambda machine, ticket, now_ms: machine.consumer_heartbeat(
                request, ticket=ticket, now_ms=now_ms
            ),
            lose_reply=lose_reply,
        )

    def heard(self, response: object) -> None:
        assert isinstance(response, ConsumerGroupHeartbeatResult)
        if response.error is not GroupError.NONE:
            assert response.error in (
                GroupError.FENCED_MEMBER_EPOCH,
                GroupError.UNKNOWN_MEMBER_ID,
                GroupError.GROUP_ID_NOT_FOUND,
            ), response
            self.reset()
            return
        self.reached(response.member_epoch)
        self.full = False
        if response.assignment is not None:
            self.told = from_assignment(response.assignment, self.coordinator.world.known)

    def missed(self) -> None:
        """What it was told before may be void by now, since it said it had not taken it on."""
        self.full, self.told = True, set(self.owned)

    def reconcile(self) -> None:
        self.owned = set(self.told)

    def forget(self, gone: Set[str]) -> None:
        super().forget(gone)
        self.told = {place for place in self.told if place[0] not in gone}

    def leave(self) -> None:
        if self.ticket is None and self.generation:
            request = ConsumerGroupHeartbeat(group_id="g", member_id=self.name, member_epoch=-1)
            self.reset()
            self.coordinator.tell(
                lambda machine, ticket, now_ms: machine.consumer_heartbeat(
                    request, ticket=ticket, now_ms=now_ms
                )
            )

    def reset(self) -> None:
        self.generation, self.full = 0, True
        self.owned, self.told = set(), set()


@dataclass(eq=False)
class ClassicClient(Client):
    """Speaks the classic protocol, eager or cooperative, and assigns when it leads."""

    cooperative: bool = False
    # As it is called; what it does is always the same.
    strategy: str = "p"
    step: str = "join"
    leads: bool = False
    others: dict[str, set[Place]] = field(default_factory=dict)
    assigned_over: set[Place] = field(default_factory=set)

    def act(self, *, lose_reply: bool) -> None:
        if self.step == "join":
            self.join(lose_reply=lose_reply)
        elif self.ticket is not None:
            return
        elif self.step == "sync":
            self.sync(lose_reply=lose_reply)
        elif self.leads and self.assigned_over != self.all_places():
            # The leader saw new partitions.
            self.step = "join"
            self.join(lose_reply=lose_reply)
        else:
            self.heartbeat(lose_reply=lose_reply)

    def all_places(self) -> set[Place]:
        known = self.coordinator.world.known.by_name
        return {(t, p) for t in TOPICS if t in known for p in range(known[t].partition_count)}

    def join(self, *, lose_reply: bool) -> None:
        if self.ticket is not None and not lose_reply:
            return
        if not self.cooperative:
            self.owned = set()
        metadata = write_subscription(1, TOPICS, by_topic(self.owned))
        request = JoinGroup(
            group_id="g",
            session_timeout_ms=15_000,
            rebalance_timeout_ms=20_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=(MemberProtocol(name=self.strategy, metadata=metadata),),
        )
        self.coordinator.ask(
            self,
            lambda machine, ticket, now_ms: machine.join(request, ticket=ticket, now_ms=now_ms),
            lose_reply=lose_reply,
        )

    def sync(self, *, lose_reply: bool) -> None:
        assignments = {m: write_assignment(1, by_topic(p)) for m, p in self.decide().items()}
        request = SyncGroup(
            group_id="g",
            generation_id=self.generation,
            member_id=self.member_id,
            assignments=assignments if self.leads else {},
        )
        self.coordinator.ask(
            self,
            lambda machine, ticket, now_ms: machine.sync(request, ticket=ticket, now_ms=now_ms),
            lose_reply=lose_reply,
        )

    def decide(self) -> dict[str, set[Place]]:
        """Round robin; a cooperative leader leaves out what somebody else still has."""
        members = sorted(self.others)
        if not self.leads or not members:
            return {}
        self.assigned_over = self.all_places()
        given: dict[str, set[Place]] = {m: set() for m in members}
        for number, place in enumerate(sorted(self.assigned_over)):
            chosen = members[number % len(members)]
            holders = [m for m in members if place in self.others[m]]
            if not self.cooperative or holders in ([], [chosen]):
                given[chosen].add(place)
        return given

    def heartbeat(self, *, lose_reply: bool) -> None:
        request = Heartbeat(group_id="g", generation_id=self.generation, member_id=self.member_id)
        self.coordinator.ask(
            self,
            lambda machine, ticket, now_ms: machine.heartbeat(
                request, ticket=ticket, now_ms=now_ms
            ),
            lose_reply=lose_reply,
        )

    def heard(self, response: object) -> None:
        error = response.error  # type: ignore[attr-defined]
        if error is GroupError.UNKNOWN_MEMBER_ID:
            self.owned, self.member_id, self.step, self.generation = set(), "", "join", 0
        elif error is GroupError.MEMBER_ID_REQUIRED:
            assert isinstance(response, JoinGroupResult)
            self.member_id = response.member_id
        elif error is GroupError.ILLEGAL_GENERATION:
            self.owned, self.step = set(), "join"
        elif error is GroupError.REBALANCE_IN_PROGRESS:
            self.step = "join"
        else:
            assert error is GroupError.NONE, response
            self.went_well(response)

    def went_well(self, response: object) -> None:
        if isinstance(response, JoinGroupResult):
            self.reached(response.generation_id)
            self.step = "sync"
            self.member_id = response.member_id
            self.leads = response.leader == self.member_id
            self.others = {}
            for member in response.members:
                claims = read_subscription(member.metadata).owned
                self.others[member.member_id] = {(t, p) for t, ps in claims.items() for p in ps}
        elif isinstance(response, SyncGroupResult):
            found = read_assignment(response.assignment).partitions
            places = {(t, p) for t, ps in found.items() for p in ps}
            gave_up = self.owned - places
            self.owned, self.zombie = places, False
            # A cooperative member that gave something up rejoins, so that others can have it.
            self.step = "join" if gave_up and self.cooperative else "stable"
        else:
            assert isinstance(response, HeartbeatResult)

    def forget(self, gone: Set[str]) -> None:
        super().forget(gone)
        if gone:
            # A leader sees that its topics changed, even if they look the same again.
            self.assigned_over = set()

    def missed(self) -> None:
        if self.step == "sync":
            # It cannot know its assignment, so it starts again.
            self.step = "join"

    def leave(self) -> None:
        if self.ticket is None and self.member_id:
            request = LeaveGroup(group_id="g", members=(LeavingMember(member_id=self.member_id),))
            self.owned, self.member_id, self.step, self.generation = set(), "", "join", 0
            self.coordinator.tell(
                lambda machine, ticket, now_ms: machine.leave(request, ticket=ticket, now_ms=now_ms)
            )
