"""One group with its clients: what may happen to them, and what must hold all the time."""

from collections import Counter

from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import OffsetCommit, OffsetCommitResult, OffsetToCommit
from goqueue.state.groups.coordinator import GroupMachine
from goqueue.state.groups.topics import TopicInfo, Topics
from goqueue.state.machine import StateRecord
from tests.unit.state import durable_records
from tests.unit.state.groups.group_clients import (
    TOPICS,
    ClassicClient,
    Client,
    ConsumerClient,
    Coordinator,
    Place,
)
from tests.unit.state.groups.group_world import GroupWorld, table_of, topic_id

# Longer than any time-out here: after this, whoever is silent is out and nothing is parked.
LONG_MS = 120_000
ROUND_MS = 2_500


class Scene:
    def __init__(self, *, cooperative: bool) -> None:
        self.coordinator = Coordinator()
        self.clients = self.coordinator.clients
        self.cooperative = cooperative
        self.committed: dict[Place, int] = {}
        self.incarnations: Counter[str] = Counter()

    @property
    def world(self) -> GroupWorld:
        return self.coordinator.world

    def arrive(self, *, classic: bool) -> None:
        name = f"n{self.world.tickets}"
        if classic:
            self.clients.append(ClassicClient(self.coordinator, name, cooperative=self.cooperative))
        else:
            self.clients.append(ConsumerClient(self.coordinator, name))

    def act(self, number: int, *, lose_reply: bool = False) -> None:
        client = self.client(number)
        if client is not None and not client.silent:
            client.act(lose_reply=lose_reply)

    def reconcile(self, number: int) -> None:
        client = self.client(number)
        if isinstance(client, ConsumerClient):
            client.reconcile()

    def resubscribe(self, number: int, wants: tuple[str, ...]) -> None:
        client = self.client(number)
        if isinstance(client, ConsumerClient):
            client.wants, client.full = wants, True

    def go_silent(self, number: int) -> None:
        client = self.client(number)
        if client is not None:
            client.silent = True

    def leave(self, number: int) -> None:
        client = self.client(number)
        if client is not None:
            client.leave()

    def change_topics(self, **partition_counts: int) -> None:
        """A topic that is made again has another id, so what was held of it is void."""
        known = self.world.known.by_name
        gone = known.keys() - partition_counts.keys()
        self.committed = {p: o for p, o in self.committed.items() if p[0] not in gone}
        self.incarnations.update(partition_counts.keys() - known.keys())
        found = Topics(
            TopicInfo(name, topic_id(f"{name}{self.incarnations[name] or ''}"), count)
            for name, count in partition_counts.items()
        )
        for client in self.clients:
            client.forget(gone)
        self.world.set_topics(found)

    def commit(self, number: int, offset: int) -> None:
        client = self.client(number)
        if client is None or not client.owned:
            return
        place = min(client.owned)
        request = OffsetCommit(
            group_id="g",
            offsets=(OffsetToCommit(topic=place[0], partition=place[1], offset=offset),),
            generation_id=client.generation,
            member_id=client.member_id,
        )
        answer = self.coordinator.tell(
            lambda machine, ticket, now_ms: machine.commit_offsets(
                request, ticket=ticket, now_ms=now_ms
            )
        )
        assert isinstance(answer, OffsetCommitResult)
        if answer.partitions[0].error is GroupError.NONE:
            assert client.member_id in self.coordinator.members()
            self.committed[place] = offset

    def everybody_acts(self) -> None:
        for client in self.clients:
            if not client.silent:
                if isinstance(client, ConsumerClient):
                    client.reconcile()
                client.act(lose_reply=False)

    def client(self, number: int) -> Client | None:
        return self.clients[number % len(self.clients)] if self.clients else None

    # --- what must hold -------------------------------------------------------------------

    def check_owners(self) -> None:
        """No partition is with two members at once."""
        self.coordinator.note_zombies()
        owners: dict[Place, str] = {}
        for client in self.clients:
            if not client.zombie:
                for place in client.owned:
                    assert place not in owners, f"{place}: {owners[place]} and {client.member_id}"
                    owners[place] = client.member_id

    def check_log(self) -> None:
        """The log tells the durable state, and nothing else."""
        live = table_of(durable_records.of_groups(self.world.machine))
        assert live == table_of(self.world.log)
        copy = GroupMachine(self.world.settings, lambda: "x")
        for key, value in table_of(self.world.log).items():
            copy.replay(StateRecord(key, value))
        assert table_of(durable_records.of_groups(copy)) == live

    def check_offsets(self) -> None:
        """Offsets are those last committed."""
        table = self.world.machine._table.by_group.get("g", {})
        found = {(t, p): c.offset for t, ps in table.items() for p, c in ps.items()}
        assert found == self.committed

    def settle(self) -> None:
        """Left alone, the group settles: all is answered, and every partition is read."""
        self.clients[:] = [client for client in self.clients if not client.silent]
        self.change_topics(a=3, b=2)
        for client in self.clients:
            if isinstance(client, ConsumerClient):
                client.wants, client.full = TOPICS, True
        for _ in range(LONG_MS // ROUND_MS):
            self.everybody_acts()
            self.coordinator.advance(ROUND_MS)
        for _ in range(4):
            self.everybody_acts()
        self.check_owners()
        assert not self.coordinator.waiting
        if self.clients:
            read = set().union(*(client.owned for client in self.clients))
            assert read == {("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)}
