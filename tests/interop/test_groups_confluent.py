"""Groups with confluent-kafka (librdkafka): both protocols, all assignors, and its admin client."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    IsolationLevel,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka import admin as admin_module
from confluent_kafka.admin import AdminClient

from tests.interop.servers import KEEPS_OLD_MESSAGES, NewServer, Server

# Its names are re-exports that the type checker does not see.
admin_api: Any = admin_module

WAIT_SECONDS = 60.0
PARTITIONS = 4

PROTOCOLS: dict[str, dict[str, Any]] = {
    "range": {"partition.assignment.strategy": "range"},
    "roundrobin": {"partition.assignment.strategy": "roundrobin"},
    "cooperative-sticky": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer-uniform": {"group.protocol": "consumer", "group.remote.assignor": "uniform"},
    "consumer-range": {"group.protocol": "consumer", "group.remote.assignor": "range"},
}
every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS.keys())
CLASSIC_AND_NEW = [PROTOCOLS["cooperative-sticky"], PROTOCOLS["consumer-uniform"]]
both_protocols = pytest.mark.parametrize("protocol", CLASSIC_AND_NEW, ids=["classic", "consumer"])


@pytest.fixture(scope="module")
def server(new_server: NewServer, data_dir: Path) -> Iterator[Server]:
    quick = "group.consumer.heartbeat.interval.ms=100"
    with new_server(data_dir, "--set", quick, *KEEPS_OLD_MESSAGES) as running:
        yield running


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex[:8]}"


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def filled(admin: AdminClient, bootstrap: str, topic: str) -> str:
    """A topic with 100 messages in each partition, to which others can be added at once."""
    plain = {"partition.growth": "plain"}
    new = admin_api.NewTopic(topic, num_partitions=PARTITIONS, config=plain)
    admin.create_topics([new])[topic].result(WAIT_SECONDS)
    fill(bootstrap, topic)
    return topic


def fill(bootstrap: str, topic: str, partitions: int = PARTITIONS, count: int = 100) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        for partition in range(partitions):
            producer.produce(topic, b"%d" % number, partition=partition, timestamp=1_000 + number)
    assert producer.flush(WAIT_SECONDS) == 0


def new_consumer(bootstrap: str, group: str, **settings: Any) -> Consumer:
    defaults = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 100,
        "topic.metadata.refresh.interval.ms": 500,
    }
    if "group.protocol" not in settings:
        # Members learn of a rebalance by their next heartbeat; the broker sets the new protocol's.
        defaults["heartbeat.interval.ms"] = 100
    return Consumer({**defaults, **settings})


@contextmanager
def member(bootstrap: str, group: str, *topics: str, **settings: Any) -> Iterator[Consumer]:
    consumer = new_consumer(bootstrap, group, **settings)
    consumer.subscribe(list(topics))
    try:
        yield consumer
    finally:
        consumer.close()


def read(consumer: Consumer, count: int) -> list[tuple[int, int]]:
    """Partition and offset of so many messages."""
    found: list[tuple[int, int]] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is None:
            continue
        assert message.error() is None, message.error()
        found.append((message.partition() or 0, message.offset() or 0))
    return found


class PollingMember(threading.Thread):
    """A member in a thread of its own, so that several take part at once."""

    def __init__(self, bootstrap: str, group: str, topic: str, **settings: Any) -> None:
        super().__init__(daemon=True)
        self.consumer = new_consumer(bootstrap, group, **settings)
        self.consumer.subscribe([topic])
        self.seen: Counter[tuple[str, int, int]] = Counter()
        self.owned: frozenset[tuple[str, int]] = frozenset()
        self.failure: Exception | None = None
        self._stopping = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                message = self.consumer.poll(0.1)
                self.owned = frozenset((p.topic, p.partition) for p in self.consumer.assignment())
                if message is None:
                    continue
                assert message.error() is None, message.error()
                place = message.topic() or "", message.partition() or 0, message.offset() or 0
                self.seen[place] += 1
        except Exception as failure:
            self.failure = failure
        self.consumer.close()

    def stop(self) -> None:
        self._stopping.set()
        self.join(WAIT_SECONDS)
        assert self.failure is None
        assert not self.is_alive()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come within {WAIT_SECONDS} s"
        threading.Event().wait(0.02)


def wait_for_shares(members: list[PollingMember], *shares: int) -> None:
    def shared() -> bool:
        owned = [m.owned for m in members]
        return sorted(map(len, owned)) == sorted(shares) and len(frozenset().union(*owned)) == sum(
            shares
        )

    wait_for(shared, f"shares of {shares}")


def committed(consumer: Consumer, topic: str) -> list[int]:
    wanted = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    return [part.offset for part in consumer.committed(wanted, timeout=WAIT_SECONDS)]


# --- membership -------------------------------------------------------------------------------


@every_protocol
def test_members_share_and_nothing_is_lost_or_read_twice(
    bootstrap: str, filled: str, group: str, protocol: dict[str, Any]
) -> None:
    def everything(count: int) -> set[tuple[str, int, int]]:
        return {(filled, p, o) for p in range(PARTITIONS) for o in range(count)}

    first = PollingMember(bootstrap, group, filled, **protocol)
    # All is read before anybody comes or goes: librdkafka loses count of what it has handed out
    # when it stops and resumes its fetchers in between.
    wait_for(lambda: set(first.seen) == everything(100), "every message")
    second = PollingMember(bootstrap, group, filled, **protocol)
    wait_for_shares([first, second], 2, 2)
    third = PollingMember(bootstrap, group, filled, **protocol)
    wait_for_shares([first, second, third], 1, 1, 2)
    second.stop()
    wait_for_shares([first, third], 2, 2)
    fill(bootstrap, filled)
    wait_for(
        lambda: set(first.seen) | set(second.seen) | set(third.seen) == everything(200), "the rest"
    )
    first.stop()
    third.stop()
    assert set((first.seen + second.seen + third.seen).values()) == {1}


@both_protocols
def test_partitions_added_while_running_are_taken_up(
    bootstrap: str, admin: AdminClient, filled: str, group: str, protocol: dict[str, Any]
) -> None:
    members = [PollingMember(bootstrap, group, filled, **protocol) for _ in range(2)]
    wait_for_shares(members, 2, 2)
    admin.create_partitions([admin_api.NewPartitions(filled, 6)])[filled].result(WAIT_SECONDS)
    wait_for_shares(members, 3, 3)
    for one in members:
        one.stop()


@both_protocols
def test_topics_are_subscribed_by_pattern(
    bootstrap: str, admin: AdminClient, topic: str, group: str, protocol: dict[str, Any]
) -> None:
    def create(name: str) -> None:
        admin.create_topics([admin_api.NewTopic(name, 1)])[name].result(WAIT_SECONDS)
        fill(bootstrap, name, partitions=1, count=3)

    create(f"{topic}-a")
    create(f"other-{topic}")
    reader = PollingMember(bootstrap, group, f"^{topic}-.*", **protocol)
    wait_for(lambda: len(reader.seen) == 3, "the first topic")
    create(f"{topic}-b")
    wait_for(lambda: len(reader.seen) == 6, "the second topic")
    reader.stop()
    assert {place[0] for place in reader.seen} == {f"{topic}-a", f"{topic}-b"}


@both_protocols
def test_a_static_member_comes_back_to_its_partitions(
    bootstrap: str, filled: str, group: str, protocol: dict[str, Any]
) -> None:
    members = [
        PollingMember(bootstrap, group, filled, **protocol, **{"group.instance.id": f"i{n}"})
        for n in range(2)
    ]
    wait_for_shares(members, 2, 2)
    before = members[1].owned
    # Closing a static member does not give up its partitions.
    members[1].stop()
    members[1] = PollingMember(bootstrap, group, filled, **protocol, **{"group.instance.id": "i1"})
    wait_for_shares(members, 2, 2)
    assert members[1].owned == before
    for one in members:
        one.stop()


def test_the_same_instance_twice_is_fenced(bootstrap: str, filled: str, group: str) -> None:
    settings = {"group.instance.id": "i"}
    first = PollingMember(bootstrap, group, filled, **settings)
    wait_for_shares([first], 4)
    second = PollingMember(bootstrap, group, filled, **settings)
    wait_for_shares([second], 4)
    wait_for(lambda: first.failure is not None, "the first one's end")
    assert "fenced" in str(first.failure).lower()
    second.stop()


def test_a_group_moves_to_the_new_protocol_while_running(
    bootstrap: str, filled: str, group: str
) -> None:
    """KIP-848: a rolling upgrade, member by member."""
    old = PollingMember(bootstrap, group, filled, **PROTOCOLS["cooperative-sticky"])
    wait_for_shares([old], 4)
    new = PollingMember(bootstrap, group, filled, **PROTOCOLS["consumer-uniform"])
    wait_for_shares([old, new], 2, 2)
    old.stop()
    wait_for_shares([new], 4)
    new.stop()


# --- offsets ----------------------------------------------------------------------------------


@both_protocols
def test_offsets_are_committed_by_hand_and_read_on_from(
    bootstrap: str, filled: str, group: str, protocol: dict[str, Any]
) -> None:
    settings = {**protocol, "enable.auto.commit": False}
    with member(bootstrap, group, filled, **settings) as consumer:
        assert len(read(consumer, 400)) == 400
        assert committed(consumer, filled) == [-1001] * 4
        consumer.commit(offsets=[TopicPartition(filled, 1, 40)], asynchronous=False)
        assert committed(consumer, filled) == [-1001, 40, -1001, -1001]
    with member(bootstrap, group, filled, **settings) as consumer:
        assert len(read(consumer, 360)) == 360
        consumer.commit(asynchronous=False)
        assert committed(consumer, filled) == [100] * 4
        low, high = consumer.get_watermark_offsets(TopicPartition(filled, 0), timeout=WAIT_SECONDS)
        assert (low, high) == (0, 100), "no lag"


@both_protocols
def test_offsets_are_committed_automatically(
    bootstrap: str, filled: str, group: str, protocol: dict[str, Any]
) -> None:
    settings = {**protocol, "auto.commit.interval.ms": 100}
    with member(bootstrap, group, filled, **settings) as consumer:
        assert len(read(consumer, 400)) == 400

        def all_committed() -> bool:
            consumer.poll(0)
            return committed(consumer, filled) == [100] * 4

        wait_for(all_committed, "the commit")


def test_seeking_and_offsets_by_time(bootstrap: str, filled: str, group: str) -> None:
    with member(bootstrap, group, filled) as consumer:
        assert len(read(consumer, 400)) == 400
        consumer.seek(TopicPartition(filled, 2, 95))
        assert read(consumer, 5) == [(2, offset) for offset in range(95, 100)]
        asked = [TopicPartition(filled, 0, 1_050), TopicPartition(filled, 1, 9_999)]
        found = consumer.offsets_for_times(asked, timeout=WAIT_SECONDS)
        assert [part.offset for part in found] == [50, OFFSET_END]
        consumer.seek(TopicPartition(filled, 3, OFFSET_BEGINNING))
        assert read(consumer, 1) == [(3, 0)]


def test_an_outsider_cannot_commit_for_a_group_with_members(
    bootstrap: str, filled: str, group: str
) -> None:
    inside = PollingMember(bootstrap, group, filled)
    wait_for_shares([inside], 4)
    outside = new_consumer(bootstrap, group)
    outside.assign([TopicPartition(filled, 0)])
    with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
        outside.commit(offsets=[TopicPartition(filled, 0, 3)], asynchronous=False)
    outside.close()
    inside.stop()


# --- the admin client -------------------------------------------------------------------------


@both_protocols
def test_groups_are_listed_and_described(
    bootstrap: str, admin: AdminClient, filled: str, group: str, protocol: dict[str, Any]
) -> None:
    is_new = "group.protocol" in protocol
    kind = ConsumerGroupType.CONSUMER if is_new else ConsumerGroupType.CLASSIC
    other = ConsumerGroupType.CLASSIC if is_new else ConsumerGroupType.CONSUMER
    reader = PollingMember(bootstrap, group, filled, **protocol, **{"client.id": "describes"})
    wait_for_shares([reader], 4)

    def listed(**filters: Any) -> dict[str, Any]:
        result = admin.list_consumer_groups(request_timeout=WAIT_SECONDS, **filters).result()
        assert not result.errors
        return {found.group_id: found for found in result.valid}

    assert listed()[group].state is ConsumerGroupState.STABLE
    assert listed()[group].type is kind
    assert group in listed(types={kind})
    assert group not in listed(types={other})
    assert group in listed(states={ConsumerGroupState.STABLE})
    assert group not in listed(states={ConsumerGroupState.EMPTY})
    described = admin.describe_consumer_groups([group], include_authorized_operations=True)[
        group
    ].result(WAIT_SECONDS)
    assert (described.state, described.type) == (ConsumerGroupState.STABLE, kind)
    assert described.authorized_operations
    (one,) = described.members
    assert one.client_id == "describes"
    assigned = {(p.topic, p.partition) for p in one.assignment.topic_partitions}
    assert assigned == {(filled, partition) for partition in range(PARTITIONS)}
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups([group])[group].result(WAIT_SECONDS)
    reader.stop()
    assert listed()[group].state is ConsumerGroupState.EMPTY
    admin.delete_consumer_groups([group])[group].result(WAIT_SECONDS)
    assert group not in listed()


def test_offsets_are_altered_and_listed_by_the_admin(
    admin: AdminClient, filled: str, group: str
) -> None:
    wanted = [TopicPartition(filled, 0, 11), TopicPartition(filled, 3, 22)]
    request = ConsumerGroupTopicPartitions(group, wanted)
    altered = admin.alter_consumer_group_offsets([request])[group].result(WAIT_SECONDS)
    assert [part.error for part in altered.topic_partitions] == [None, None]
    asked = ConsumerGroupTopicPartitions(group)
    listed = admin.list_consumer_group_offsets([asked])[group].result(WAIT_SECONDS)
    assert {(p.partition, p.offset) for p in listed.topic_partitions} == {(0, 11), (3, 22)}


def test_log_offsets_and_record_deletion_by_the_admin(admin: AdminClient, filled: str) -> None:
    deleted = admin.delete_records([TopicPartition(filled, 0, 30)])
    (result,) = (future.result(WAIT_SECONDS) for future in deleted.values())
    assert result.low_watermark == 30
    specs = {
        TopicPartition(filled, 0): admin_api.OffsetSpec.earliest(),
        TopicPartition(filled, 1): admin_api.OffsetSpec.latest(),
        TopicPartition(filled, 2): admin_api.OffsetSpec.for_timestamp(1_040),
        TopicPartition(filled, 3): admin_api.OffsetSpec.max_timestamp(),
    }
    found = admin.list_offsets(specs, isolation_level=IsolationLevel.READ_COMMITTED)
    offsets = {part.partition: future.result(WAIT_SECONDS).offset for part, future in found.items()}
    assert offsets == {0: 30, 1: 100, 2: 40, 3: 99}
