"""A copy of the registry that follows its log: parts, deletions that went, other histories."""

import asyncio
from types import SimpleNamespace
from typing import cast
from uuid import uuid4

import pytest

from goqueue.broker.calls.calls import Calls
from goqueue.broker.schemas import following
from goqueue.broker.schemas.following import (
    FROM_THE_START,
    Committed,
    FollowedCatalogue,
    ReadSince,
    read_since,
)
from goqueue.model.batch import assign
from goqueue.model.errors import NotLeader
from goqueue.model.names import topic_partition
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.schemas.messages import SubjectConfig
from goqueue.model.topics import TopicView
from goqueue.service.broker_service import BrokerService
from goqueue.state.machine import StateRecord
from goqueue.state.schemas import records
from goqueue.state.schemas.machine import SchemaMachine
from tests.callers import ANYONE
from tests.unit.broker.conftest import OpenBroker
from tests.unit.broker.test_schemas import NAME, record

pytestmark = pytest.mark.anyio


def setting(subject: str) -> StateRecord:
    return records.config_record(subject, SubjectConfig(alias=f"of-{subject}"))


def unset(subject: str) -> StateRecord:
    return records.config_record(subject, None)


class ScriptedLeader:
    """Has one record in each batch, and answers with two of them at a time."""

    def __init__(self) -> None:
        self.log: dict[int, StateRecord] = {}
        self.end = 0
        self.start = 0
        self.deletions_gone_before = 0
        self.asked: list[int] = []
        self.is_there = True

    def append(self, *written: StateRecord) -> None:
        for each in written:
            self.log[self.end] = each
            self.end += 1

    def compact(self, before: int) -> None:
        """As after a long time: tombstones are gone as well."""
        last = {each.key: offset for offset, each in self.log.items()}
        self.log = {
            offset: each
            for offset, each in self.log.items()
            if offset >= before or (last[each.key] == offset and each.value is not None)
        }
        self.deletions_gone_before = before

    async def ask(
        self, _method: object, _place: object, request: ReadSince, **_times: float
    ) -> Committed:
        self.asked.append(request.offset)
        # Others run while this one is under way.
        await asyncio.sleep(0)
        if not self.is_there:
            raise NotLeader("nobody leads it")
        offset = request.offset if self.start <= request.offset <= self.end else self.start
        found = [each for each in sorted(self.log) if each >= offset][:2]
        batches = bytearray()
        for each in found:
            key, value = self.log[each]
            batch = encode_records([NewRecord(key=key, value=value)], now_ms=1)
            assign(batch, 0, each, 1)
            batches += batch
        following_offset = found[-1] + 1 if found else self.end
        gone_before = self.deletions_gone_before
        return Committed(offset, bytes(batches), following_offset, self.end, gone_before)


class Follower(FollowedCatalogue):
    def __init__(self, leader: ScriptedLeader) -> None:
        self.topic = SimpleNamespace(id=uuid4())
        super().__init__(
            topic_partition("_schemas", 0),
            cast(Calls, leader),
            lambda: cast(TopicView, self.topic),
            lambda: SchemaMachine(contexts_max=1, size_max_bytes=1_000_000),
        )

    async def subjects(self) -> set[str | None]:
        return set((await self.fresh()).configs)


@pytest.fixture
def leader() -> ScriptedLeader:
    return ScriptedLeader()


async def test_a_long_log_is_read_in_parts(leader: ScriptedLeader) -> None:
    follower = Follower(leader)
    leader.append(*(setting(f"s{n}") for n in range(7)))
    with pytest.raises(NotLeader):
        _ = follower.catalogue
    assert len(await follower.subjects()) == 7
    assert leader.asked == [FROM_THE_START, 2, 4, 6]
    leader.append(unset("s3"))
    assert len(await follower.subjects()) == 6
    assert leader.asked[4:] == [7]


async def test_two_who_read_at_once_take_nothing_twice(leader: ScriptedLeader) -> None:
    follower = Follower(leader)
    leader.append(setting("a"), unset("a"), setting("b"), setting("a"), unset("a"))
    # As the one in the background and a client's do.
    await asyncio.gather(*(follower._read_all() for _ in range(5)))
    assert await follower.subjects() == {"b"}


async def test_of_a_batch_only_what_is_new_is_taken(leader: ScriptedLeader) -> None:
    follower = Follower(leader)
    leader.append(setting("a"), unset("a"))
    await follower.subjects()
    read = follower._read
    assert read is not None
    # Batches of another leader may be cut otherwise.
    old = [NewRecord(key=key, value=value) for key, value in (setting("a"), setting("b"))]
    batch = encode_records(old, now_ms=1)
    assign(batch, 0, 1, 1)
    read.take(Committed(1, bytes(batch), 3, 3, 0))
    assert set(read.machine.catalogue.configs) == {"b"}
    assert read.next_offset == 3


async def test_deletions_that_went_before_they_were_read(leader: ScriptedLeader) -> None:
    follower = Follower(leader)
    leader.append(setting("a"), setting("b"))
    assert await follower.subjects() == {"a", "b"}
    leader.append(unset("a"), setting("c"), setting("d"))
    leader.compact(before=4)
    assert await follower.subjects() == {"b", "c", "d"}
    assert FROM_THE_START in leader.asked[1:]


async def test_deletions_that_go_while_the_log_is_read(leader: ScriptedLeader) -> None:
    follower = Follower(leader)
    leader.append(setting("a"), setting("b"), setting("c"), unset("a"), setting("d"), setting("e"))
    reading = asyncio.create_task(follower.subjects())
    while len(leader.asked) < 2:
        await asyncio.sleep(0)
    leader.compact(before=5)
    assert await reading == {"b", "c", "d", "e"}


async def test_deletions_that_were_gone_before_the_reading_began(leader: ScriptedLeader) -> None:
    leader.append(setting("a"), setting("b"), unset("a"), setting("c"), setting("d"), setting("e"))
    leader.compact(before=5)
    follower = Follower(leader)
    assert await follower.subjects() == {"b", "c", "d", "e"}
    assert leader.asked.count(FROM_THE_START) == 1


async def test_a_log_that_lost_its_end_is_read_anew(leader: ScriptedLeader) -> None:
    follower = Follower(leader)
    leader.append(setting("a"), setting("b"), setting("c"))
    follower.told(3)
    await follower.subjects()
    leader.log, leader.end = {0: setting("a")}, 1
    assert await follower.subjects() == {"a"}
    # What was told of is lost, and not waited for.
    leader.is_there = False
    assert await follower.subjects() == {"a"}


async def test_another_topic_of_the_name_is_another_registry(leader: ScriptedLeader) -> None:
    follower = Follower(leader)
    leader.append(setting("a"))
    follower.told(1)
    await follower.subjects()
    leader.log, leader.end = {}, 0
    leader.append(setting("b"))
    follower.topic.id = uuid4()
    assert await follower.subjects() == {"b"}


async def test_who_waits_shares_the_failure(leader: ScriptedLeader) -> None:
    follower = Follower(leader)
    leader.append(setting("a"))
    await follower.subjects()
    leader.is_there = False
    leader.asked.clear()
    found = await asyncio.gather(*(follower.subjects() for _ in range(50)))
    assert found == [{"a"}] * 50
    assert len(leader.asked) <= 2
    follower.told(2)
    with pytest.raises(NotLeader):
        await follower.subjects()


# --- the leader's part --------------------------------------------------------------------


async def test_the_leader_sends_those_to_the_start_who_have_another_history(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "READ_BYTES", 1)
    async with open_broker() as broker:
        schemas = BrokerService(broker).schemas
        for name in ("a", "b"):
            await schemas.register(ANYONE, name, record(NAME, name=name))
        partition = broker.partition("_schemas", 0)
        end, epoch = partition.high_watermark, partition.leader_epoch
        first = await read_since(partition, ReadSince(FROM_THE_START, -1, 0.0))
        assert (first.offset, first.end) == (0, end)
        assert 0 < first.next_offset < end
        for has, starts_at in (
            (ReadSince(first.next_offset, epoch, 0.0), first.next_offset),
            (ReadSince(end, epoch, 0.0), end),
            (ReadSince(end + 1, epoch, 0.0), 0),
            (ReadSince(end, epoch + 1, 0.0), 0),
        ):
            assert (await read_since(partition, has)).offset == starts_at
        waiting = asyncio.create_task(read_since(partition, ReadSince(end, epoch, 30.0)))
        await asyncio.sleep(0)
        assert not waiting.done()
        await schemas.register(ANYONE, "c", record(NAME, name="c"))
        answer = await waiting
        assert answer.offset == end
        assert answer.batches
        # Who waited for nothing is told so.
        end = partition.high_watermark
        assert (await read_since(partition, ReadSince(end, epoch, 0.01))).next_offset == end
