"""A streams group under any order of joins, heartbeats, losses, silence, topics and crashes."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.streams_messages import StreamsGroupHeartbeatResult
from goqueue.model.groups.tasks import TaskRole, Tasks, of_role
from goqueue.state.groups.settings import GroupOverrides
from tests.unit.state import durable_records
from tests.unit.state.groups.group_world import table_of, topics
from tests.unit.state.groups.streams.streams_world import WORDS, StreamsWorld, words_topics

MEMBERS = [f"m{number}" for number in range(5)]
# Two threads each, but for the last.
PROCESSES = {name: f"p{number // 2}" for number, name in enumerate(MEMBERS)}
SESSION_MS = 1_000
LIMIT = 4


@dataclass
class Client:
    """What a thread believes. It works on `owned`, and is on its way to `given`."""

    epoch: int = 0
    owned: Tasks = field(default_factory=dict)
    given: Tasks = field(default_factory=dict)
    is_in: bool = False


def listed(tasks: Tasks, role: TaskRole) -> list[tuple[str, int]]:
    return [(name, n) for name, numbers in of_role(tasks, role).items() for n in numbers]


class StreamsGroupWorld(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = StreamsWorld(
            words_topics(3), streams_session_timeout_ms=SESSION_MS, streams_max_size=LIMIT
        )
        self.count = 3
        self.standbys = 0
        self.clients = {name: Client() for name in MEMBERS}
        self.epoch = 0

    def hear(self, client: Client, answer: StreamsGroupHeartbeatResult) -> None:
        assert answer.member_epoch >= client.epoch
        client.epoch = answer.member_epoch
        if answer.tasks is not None:
            client.given = answer.tasks
            # It stops what it must at once, and begins what is new.
            client.owned = answer.tasks

    @rule(name=st.sampled_from(MEMBERS), is_lost=st.booleans())
    def join(self, name: str, is_lost: bool) -> None:
        present = {member.member_id for member in self.world.described().members}
        # Whoever joins has stopped all its tasks.
        client = self.clients[name] = Client()
        answer = self.world.join(name, WORDS, PROCESSES[name], rebalance_timeout_ms=5_000)
        if name not in present and len(present) >= LIMIT:
            assert answer.error is GroupError.GROUP_MAX_SIZE_REACHED
            return
        assert answer.error is GroupError.NONE
        if not is_lost:
            client.is_in = True
            self.hear(client, answer)

    @rule(name=st.sampled_from(MEMBERS), tells=st.booleans(), is_lost=st.booleans())
    def heartbeat(self, name: str, tells: bool, is_lost: bool) -> None:
        client = self.clients[name]
        if not client.is_in:
            return
        owned = client.owned if tells else None
        answer = self.world.beat(name, client.epoch, owned=owned)
        if answer.error is not GroupError.NONE:
            assert answer.error in (GroupError.UNKNOWN_MEMBER_ID, GroupError.FENCED_MEMBER_EPOCH)
            self.clients[name] = Client()
        elif not is_lost:
            self.hear(client, answer)

    @rule(name=st.sampled_from(MEMBERS))
    def leave(self, name: str) -> None:
        self.world.beat(name, -1)
        self.clients[name] = Client()

    @rule(by_ms=st.integers(1, SESSION_MS))
    def wait(self, by_ms: int) -> None:
        self.world.advance(by_ms)
        present = {member.member_id for member in self.world.described().members}
        for name in MEMBERS:
            if name not in present:
                # By then it has noticed, too: sessions of the client are as long.
                self.clients[name] = Client()

    @rule(count=st.integers(0, 4))
    def change_topics(self, count: int) -> None:
        self.count = count
        self.world.set_topics(words_topics(count) if count else topics())

    @rule(standbys=st.integers(0, 2))
    def configure(self, standbys: int) -> None:
        self.standbys = standbys
        self._configure()

    def _configure(self) -> None:
        own = GroupOverrides(streams_num_standby_replicas=self.standbys)
        self.world.machine.on_group_settings_changed({"g": own})

    @rule()
    def crash(self) -> None:
        self.world.crash()
        self._configure()

    @rule()
    def settle(self) -> None:
        """Once all have given up what they must, every task is with one member, evenly."""
        names = [member.member_id for member in self.world.described().members]
        for name in names:
            self.clients[name] = client = Client(is_in=True)
            answer = self.world.join(name, WORDS, PROCESSES[name], rebalance_timeout_ms=5_000)
            assert answer.error is GroupError.NONE
            self.hear(client, answer)
        for _ in range(4):
            for name in names:
                client = self.clients[name]
                answer = self.world.beat(name, client.epoch, owned=client.owned)
                assert answer.error is GroupError.NONE
                self.hear(client, answer)
        if names:
            assert self.world.described().state == ("Stable" if self.count else "NotReady")
        active = [t for name in names for t in listed(self.clients[name].owned, TaskRole.ACTIVE)]
        wanted = [(name, n) for name in ("0", "1") for n in range(self.count)] if names else []
        assert sorted(active) == wanted
        if names:
            sizes = [len(listed(self.clients[n].owned, TaskRole.ACTIVE)) for n in names]
            assert max(sizes) - min(sizes) <= 1
            others = len({PROCESSES[name] for name in names}) - 1
            standby = [t for n in names for t in listed(self.clients[n].owned, TaskRole.STANDBY)]
            assert len(standby) == min(self.standbys, others) * self.count

    @invariant()
    def nobody_works_on_a_task_of_another(self) -> None:
        active = [t for c in self.clients.values() for t in listed(c.owned, TaskRole.ACTIVE)]
        assert len(active) == len(set(active))

    @invariant()
    def a_process_has_a_task_once(self) -> None:
        seen = [
            (PROCESSES[name], task)
            for name, client in self.clients.items()
            for role in TaskRole
            for task in listed(client.owned, role)
        ]
        assert len(seen) == len(set(seen))

    @invariant()
    def epochs_only_rise(self) -> None:
        group = self.world.described()
        assert group.group_epoch >= self.epoch
        assert all(member.member_epoch <= group.group_epoch for member in group.members)
        self.epoch = group.group_epoch

    @invariant()
    def the_log_tells_everything(self) -> None:
        machine = self.world.machine
        assert table_of(durable_records.of_groups(machine)) == table_of(self.world.log)


StreamsGroupWorld.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None
)
TestStreamsGroupWorld = StreamsGroupWorld.TestCase
