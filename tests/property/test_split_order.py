"""Topics are split while producers send and members of both protocols come, go and crash.

Whatever happens, each key's messages are first seen by a group in the order sent, and in the end
all of them are.
"""

import random
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

sys.path.insert(0, str(Path(__file__).parents[2]))

from goqueue.model.groups.messages import OffsetCommit, OffsetCommitResult, OffsetToCommit
from goqueue.model.layouts import Split
from goqueue.state.groups.settings import GroupSettings
from goqueue.state.groups.topics import TopicInfo, Topics
from goqueue.state.layouts import ordered_split, with_ends
from tests.unit.state.groups.group_clients import (
    ClassicClient,
    Client,
    ConsumerClient,
    Coordinator,
)
from tests.unit.state.groups.group_world import GroupWorld, topic_id

CLIENTS_MAX = 4
PRODUCERS = 2
KEYS = 7
SPLITS_MAX = 3
NEVER_MS = 10**12
SETTLING_ROUNDS = 60

Numbers = st.integers(0, CLIENTS_MAX - 1)


@dataclass
class Message:
    producer: int
    key: int
    number: int


@dataclass
class Producer:
    """Knows as many partitions as it last heard of; what it sent may be on its way for long."""

    known: int
    sent: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    on_its_way: dict[int, list[Message]] = field(default_factory=lambda: defaultdict(list))


class SplitsInAWorld(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.coordinator = Coordinator()
        self.logs: list[list[Message]] = []
        self.splits: tuple[Split, ...] = ()
        self.producers: list[Producer] = []
        # By client and partition: the next offset that it reads.
        self.positions: dict[tuple[int, int], int] = {}
        # By producer and key: how many were seen, in order.
        self.seen: dict[tuple[int, int], int] = defaultdict(int)

    @initialize(partitions=st.integers(1, 2))
    def start(self, partitions: int) -> None:
        self.logs = [[] for _ in range(partitions)]
        self.producers = [Producer(partitions) for _ in range(PRODUCERS)]
        kept = GroupSettings(initial_rebalance_delay_ms=50, uncommitted_gate_ms=NEVER_MS)
        self.coordinator.world = GroupWorld(kept, self.topics())
        # Clients begin with the newest, where nothing is committed: the first partitions are read
        # from their start because it is, and all that is split off because it should be.
        self.ask_to_commit(dict.fromkeys(range(partitions), 0), generation_id=-1, member_id="")

    def topics(self) -> Topics:
        return Topics([TopicInfo("a", topic_id("a"), len(self.logs), splits=self.splits)])

    # --- producers ------------------------------------------------------------------------

    @rule(who=st.integers(0, PRODUCERS - 1), key=st.integers(0, KEYS - 1))
    def send(self, who: int, key: int) -> None:
        producer = self.producers[who]
        message = Message(who, key, producer.sent[key])
        producer.sent[key] += 1
        producer.on_its_way[key % producer.known].append(message)

    @rule(who=st.integers(0, PRODUCERS - 1), seed=st.integers(0, 99))
    def arrive(self, who: int, seed: int) -> None:
        """In the order sent to one partition; partitions overtake each other."""
        waiting = [p for p, messages in self.producers[who].on_its_way.items() if messages]
        if waiting:
            partition = random.Random(seed).choice(waiting)
            self.logs[partition].append(self.producers[who].on_its_way[partition].pop(0))

    @rule(who=st.integers(0, PRODUCERS - 1))
    def learn(self, who: int) -> None:
        self.producers[who].known = len(self.logs)

    # --- splits ---------------------------------------------------------------------------

    @precondition(lambda self: len(self.splits) < SPLITS_MAX and not self.is_draining)
    @rule(times=st.integers(2, 3))
    def split(self, times: int) -> None:
        current = len(self.logs)
        self.splits = ordered_split(
            "a", self.splits, current=current, total=times * current, now_ms=0, drain_ms=0
        )
        self.logs += [[] for _ in range(times * current - current)]
        self.coordinator.world.set_topics(self.topics())

    @property
    def is_draining(self) -> bool:
        return bool(self.splits) and self.splits[-1].is_draining

    @precondition(lambda self: self.is_draining)
    @rule(in_two=st.booleans())
    def the_time_is_over(self, in_two: bool) -> None:
        """All producers have learnt of it, and what they sent before has arrived."""
        for producer in self.producers:
            producer.known = len(self.logs)
            for partition, messages in producer.on_its_way.items():
                self.logs[partition] += messages
                messages.clear()
        last = self.splits[-1]
        ends = {parent: len(self.logs[parent]) for parent in range(last.parents)}
        first = dict(list(ends.items())[: len(ends) // 2]) if in_two else {}
        for told in (first, ends):
            self.splits = with_ends(self.splits, last.epoch, told)
            self.coordinator.world.set_topics(self.topics())

    # --- members --------------------------------------------------------------------------

    @precondition(lambda self: len(self.coordinator.clients) < CLIENTS_MAX)
    @rule(kind=st.sampled_from(["consumer", "range"]))
    def come(self, kind: str) -> None:
        name = f"n{self.coordinator.world.tickets}"
        made: Client
        if kind == "consumer":
            made = ConsumerClient(self.coordinator, name, wants=("a",))
        else:
            # All members of the classic protocol must have one strategy in common.
            made = ClassicClient(self.coordinator, name, cooperative=False, strategy="range")
        self.coordinator.clients.append(made)

    @rule(number=Numbers)
    def leave(self, number: int) -> None:
        client = self.client(number)
        if client is not None:
            client.leave()

    @rule(rounds=st.integers(1, 4))
    def all_act(self, rounds: int) -> None:
        for _ in range(rounds):
            for client in self.coordinator.clients:
                if isinstance(client, ConsumerClient):
                    client.reconcile()
                client.act(lose_reply=False)
            self.coordinator.advance(500)

    @rule()
    def crash(self) -> None:
        self.coordinator.crash()

    @rule(number=Numbers, messages=st.integers(1, 4))
    def read(self, number: int, messages: int) -> None:
        client = self.client(number)
        if client is None or client.zombie:
            return
        for _, partition in sorted(client.owned):
            for _ in range(messages):
                self.read_one(client, partition)

    def read_one(self, client: Client, partition: int) -> None:
        place = (id(client), partition)
        position = self.positions.setdefault(place, self.committed(partition))
        if position >= len(self.logs[partition]):
            return
        message = self.logs[partition][position]
        self.positions[place] += 1
        key = (message.producer, message.key)
        assert message.number <= self.seen[key], (
            f"{message} of partition {partition} came before number {self.seen[key]}"
        )
        self.seen[key] = max(self.seen[key], message.number + 1)

    @rule(number=Numbers)
    def commit(self, number: int) -> None:
        client = self.client(number)
        if client is None or client.zombie:
            return
        read = {p: self.positions.get((id(client), p)) for _, p in client.owned}
        known = {partition: offset for partition, offset in read.items() if offset is not None}
        if known:
            self.ask_to_commit(known, client.generation, client.member_id)

    def ask_to_commit(self, read: dict[int, int], generation_id: int, member_id: str) -> None:
        request = OffsetCommit(
            group_id="g",
            offsets=tuple(
                OffsetToCommit(topic="a", partition=partition, offset=offset)
                for partition, offset in read.items()
            ),
            generation_id=generation_id,
            member_id=member_id,
        )
        answer = self.coordinator.tell(
            lambda machine, ticket, now_ms: machine.commit_offsets(
                request, ticket=ticket, now_ms=now_ms
            )
        )
        assert isinstance(answer, OffsetCommitResult)

    def client(self, number: int) -> Client | None:
        clients = self.coordinator.clients
        return clients[number % len(clients)] if clients else None

    def committed(self, partition: int) -> int:
        found = self.coordinator.world.machine._table.get("g", "a", partition)
        return len(self.logs[partition]) if found is None else found.offset

    @invariant()
    def who_gives_a_partition_up_forgets_where_it_was(self) -> None:
        self.coordinator.note_zombies()
        held = {
            (id(client), partition)
            for client in self.coordinator.clients
            if not client.zombie
            for _, partition in client.owned
        }
        self.positions = {place: at for place, at in self.positions.items() if place in held}

    def teardown(self) -> None:
        """Left alone, the group reads everything."""
        if not self.logs:
            return
        if self.is_draining:
            self.the_time_is_over(in_two=False)
        for producer in self.producers:
            for partition, messages in producer.on_its_way.items():
                self.logs[partition] += messages
                messages.clear()
        if not self.coordinator.clients:
            self.come("consumer")
        for _ in range(SETTLING_ROUNDS):
            self.all_act(2)
            self.who_gives_a_partition_up_forgets_where_it_was()
            for number in range(len(self.coordinator.clients)):
                self.read(number, 50)
                self.commit(number)
        sent = {
            (who, key): count
            for who, producer in enumerate(self.producers)
            for key, count in producer.sent.items()
        }
        assert {place: count for place, count in self.seen.items() if count} == sent


TestSplitsInAWorld = SplitsInAWorld.TestCase
TestSplitsInAWorld.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
