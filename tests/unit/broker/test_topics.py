import asyncio
import errno
import shutil
import threading
from pathlib import Path

import pytest

from goqueue.broker.node import Node
from goqueue.broker.own_grants import own_state
from goqueue.metadata import LocalStore
from goqueue.model.broker_config import broker_config
from goqueue.model.configs import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigResourceKind,
    ConfigSource,
)
from goqueue.model.errors import (
    DataDirectoryError,
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicName,
    PolicyViolation,
    TopicExists,
    UnknownTopic,
)
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.state import metadata_keys as keys
from goqueue.storage.disk import Disk
from tests.busy_machine import stretched
from tests.callers import ANYONE
from tests.loop_turns import result_and_turns
from tests.publishing import publish
from tests.unit.broker.conftest import OpenBroker


def test_a_topic_is_there_after_a_restart_with_id_partitions_and_settings(
    open_broker: OpenBroker,
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            made = await BrokerService(broker).topics.create(
                ANYONE, NewTopic(name="orders", partitions=2, config={"retention.ms": "5000"})
            )
        async with open_broker() as broker:
            assert broker.topic("orders") == made.topic
            assert broker.topic_by_id(made.topic.id).name == "orders"
            assert broker.partition("orders", 1).config.retention_ms == 5000

    asyncio.run(scenario())


def test_a_folder_from_before_there_were_clusters_opens_unchanged(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="orders", partitions=2))
            await publish(broker, "orders", [NewRecord(value=b"kept")], partition=1)
        store = await LocalStore.open(tmp_path / "data" / "metadata")
        for kv in (await store.get_prefix(keys.PARTITIONS_PREFIX)).kvs:
            earlier = b'{"leader":0,"leader_epoch":0,"replicas":[0],"isr":[0]}'
            await store.put(kv.key, earlier)
        await store.close()
        async with open_broker() as broker:
            view = broker.topic("orders").partitions[1]
            assert (view.leader, view.replicas, view.isr) == (0, (0,), (0,))
            assert broker.partition("orders", 1).high_watermark == 1

    asyncio.run(scenario())


def test_defaults_apply_to_a_topic_made_without_a_word(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker(num__partitions="5") as broker:
            topic = await BrokerService(broker).topics.ensure(ANYONE, "orders")
            assert len(topic.partitions) == 5
            assert await BrokerService(broker).topics.ensure(ANYONE, "orders") == topic
        async with open_broker(auto__create__topics__enable="false") as broker:
            with pytest.raises(UnknownTopic, match=r"auto\.create\.topics\.enable"):
                await BrokerService(broker).topics.ensure(ANYONE, "other")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("new", "error", "message"),
    [
        (NewTopic(name="../x"), InvalidTopicName, "character outside"),
        (NewTopic(name=""), InvalidTopicName, "empty"),
        (NewTopic(name=".."), InvalidTopicName, "not allowed"),
        (NewTopic(name="x" * 250), InvalidTopicName, "249"),
        (NewTopic(name="a_b"), InvalidTopicName, "collides with 'a.b'"),
        (NewTopic(name="a.b"), TopicExists, "exists already"),
        (NewTopic(name="x", partitions=0), InvalidPartitions, "1 to 10000"),
        (NewTopic(name="x", partitions=10_001), InvalidPartitions, "1 to 10000"),
        (NewTopic(name="x", replication_factor=2), InvalidReplicationFactor, "1 to 1"),
        (NewTopic(name="x", assignments={0: [7]}), InvalidReplicaAssignment, "no known broker"),
        (NewTopic(name="x", assignments={1: [0]}), InvalidReplicaAssignment, "without a gap"),
        (NewTopic(name="x", assignments={0: [0, 0]}), InvalidReplicaAssignment, "twice"),
        (NewTopic(name="x", config={"retention.ms": "soon"}), InvalidConfig, "retention.ms"),
        (NewTopic(name="x", config={"no.such": "1"}), InvalidConfig, "no.such"),
        (NewTopic(name="x", config={"segment.bytes": "3"}), InvalidConfig, "minimum 14"),
    ],
)
def test_bad_topics_are_refused_by_name_and_limit(
    open_broker: OpenBroker, new: NewTopic, error: type[Exception], message: str
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a.b"))
            before = broker.image.revision
            with pytest.raises(error, match=message):
                await BrokerService(broker).topics.create(ANYONE, new)
            assert broker.image.revision == before

    asyncio.run(scenario())


def test_validate_only_answers_but_makes_nothing(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            proposed, _ = await BrokerService(broker).topics.make(
                ANYONE, NewTopic(name="orders", partitions=4), validate_only=True
            )
            assert len(proposed.partitions) == 4
            with pytest.raises(UnknownTopic):
                broker.topic("orders")

    asyncio.run(scenario())


def test_creating_one_topic_many_times_at_once_makes_it_once(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            results = await asyncio.gather(
                *(
                    BrokerService(broker).topics.create(ANYONE, NewTopic(name="orders"))
                    for _ in range(8)
                ),
                return_exceptions=True,
            )
            made = [result for result in results if not isinstance(result, BaseException)]
            assert len(made) == 1
            assert sum(isinstance(result, TopicExists) for result in results) == 7

    asyncio.run(scenario())


class HeldUnlinks(Disk):
    """Files of deleted partitions go when `may_go` is set, or not at all; notes the threads that
    remove them.
    """

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self.fails = fails
        self.may_go = threading.Event()
        self.threads: set[int] = set()

    def unlink(self, path: Path) -> None:
        if path.parent.suffix == ".deleted" and self.fails:
            raise OSError(errno.EIO, "cannot be removed")
        if path.parent.suffix == ".deleted":
            self.threads.add(threading.get_ident())
            assert self.may_go.wait(60)
        super().unlink(path)


async def marked_left(data: Path, count: int) -> None:
    async with asyncio.timeout(stretched(30)):
        while len(list((data / "logs").glob("*.deleted"))) != count:
            await asyncio.sleep(0.01)


def test_a_topic_is_deleted_before_its_files_are(tmp_path: Path) -> None:
    disk, data = HeldUnlinks(), tmp_path / "data"

    async def scenario() -> None:
        broker = await Node.open(broker_config({"data.dir": str(data)}), disk=disk)
        topics = BrokerService(broker).topics
        await topics.create(ANYONE, NewTopic(name="orders", partitions=3))
        await publish(broker, "orders", [NewRecord(value=b"old")])
        await topics.delete(ANYONE, "orders")
        assert "orders" not in broker.image.topics
        # It may be made anew, and used, while the old files are still there.
        await topics.create(ANYONE, NewTopic(name="orders", partitions=3))
        await marked_left(data, 3)
        assert broker.partition("orders", 0).high_watermark == 0
        await publish(broker, "orders", [NewRecord(value=b"new")])
        disk.may_go.set()
        await marked_left(data, 0)
        assert await broker.close()

    asyncio.run(scenario())
    assert disk.threads
    assert threading.get_ident() not in disk.threads
    assert len(list((data / "logs").glob("orders-*"))) == 3


def test_a_start_goes_on_removing_what_was_marked(tmp_path: Path) -> None:
    data = tmp_path / "data"
    config = broker_config({"data.dir": str(data)})
    stranger = data / "logs" / "notes.deleted"

    async def scenario() -> None:
        broker = await Node.open(config, disk=HeldUnlinks(fails=True))
        topics = BrokerService(broker).topics
        await topics.create(ANYONE, NewTopic(name="orders", partitions=3))
        await topics.create(ANYONE, NewTopic(name="kept", partitions=1))
        await topics.delete(ANYONE, "orders")
        await marked_left(data, 3)
        await broker.close()
        stranger.write_text("a file of somebody's")
        broker = await Node.open(config)
        await marked_left(data, 1)
        assert [str(partition.name) for partition in broker.hosted] == ["kept-0"]
        assert await broker.close()

    asyncio.run(scenario())
    assert stranger.exists()
    assert not (data / "strays").exists()


def test_a_deletion_that_a_crash_cut_short_is_finished(tmp_path: Path) -> None:
    """Of a topic with many partitions, some folders are marked then, and others are not yet."""
    data = tmp_path / "data"
    config = broker_config({"data.dir": str(data)})

    async def scenario() -> None:
        broker = await Node.open(config, disk=HeldUnlinks(fails=True))
        topics = BrokerService(broker).topics
        made = await topics.create(ANYONE, NewTopic(name="orders", partitions=3))
        await topics.delete(ANYONE, "orders")
        await marked_left(data, 3)
        await broker.close()
        logs = data / "logs"
        for index in (1, 2):
            (logs / f"{made.topic.id.hex}-{index}.deleted").rename(logs / f"orders-{index}")
        broker = await Node.open(config)
        await marked_left(data, 0)
        assert list(logs.glob("orders-*")) == []
        again = await BrokerService(broker).topics.create(
            ANYONE, NewTopic(name="orders", partitions=3)
        )
        assert again.topic.id != made.topic.id
        assert await broker.close()

    asyncio.run(scenario())
    assert not (data / "strays").exists()


class CountedSyncs(Disk):
    def __init__(self) -> None:
        super().__init__()
        self.synced: list[Path] = []

    def fsync_dir(self, path: Path) -> None:
        self.synced.append(path)
        super().fsync_dir(path)


def test_strays_cost_a_start_two_syncs_and_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data"
    config = broker_config({"data.dir": str(data)})

    async def scenario() -> None:
        broker = await Node.open(config)
        topics = BrokerService(broker).topics
        await topics.create(ANYONE, NewTopic(name="orders", partitions=20))
        shutil.copytree(data / "logs", tmp_path / "logs")
        await topics.delete(ANYONE, "orders")
        await marked_left(data, 0)
        await broker.close()
        shutil.copytree(tmp_path / "logs", data / "logs", dirs_exist_ok=True)
        disk = CountedSyncs()
        broker = await Node.open(config, disk=disk)
        assert disk.synced.count(data / "strays") == 1
        assert disk.synced.count(data / "logs") == 1
        await broker.close()

    asyncio.run(scenario())
    assert len(list((data / "strays").iterdir())) == 20
    assert caplog.text.count("the metadata does not know topic orders") == 1


def test_a_start_follows_no_link_that_is_named_as_if_it_were_deleted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    config = broker_config({"data.dir": str(data)})

    async def scenario() -> None:
        broker = await Node.open(config)
        await BrokerService(broker).topics.create(ANYONE, NewTopic(name="kept", partitions=1))
        await broker.close()
        (data / "logs" / ("0" * 32 + "-0.deleted")).symlink_to("kept-0")
        (data / "logs" / ("0" * 32 + "-1.deleted")).mkdir()
        (data / "strays").write_text("no folder")
        broker = await Node.open(config)
        await marked_left(data, 1)
        await publish(broker, "kept", [NewRecord(value=b"x")])
        await broker.close()
        assert list((data / "logs" / "kept-0").glob("*.log"))

    asyncio.run(scenario())


def test_a_partition_that_could_not_be_opened_goes_with_its_topic(tmp_path: Path) -> None:
    data = tmp_path / "data"
    config = broker_config({"data.dir": str(data)})

    async def scenario() -> None:
        broker = await Node.open(config)
        await BrokerService(broker).topics.create(ANYONE, NewTopic(name="orders", partitions=1))
        await broker.close()
        epochs = data / "logs" / "orders-0" / "leader-epochs.json"
        epochs.unlink(missing_ok=True)
        epochs.mkdir()
        broker = await Node.open(config)
        topics = BrokerService(broker).topics
        assert broker.hosted.offline
        await topics.delete(ANYONE, "orders")
        await topics.create(ANYONE, NewTopic(name="orders", partitions=1))
        assert not broker.hosted.offline
        await publish(broker, "orders", [NewRecord(value=b"new")])
        await broker.close()

    asyncio.run(scenario())


def test_a_deleted_topic_is_gone_with_its_files_and_may_be_made_anew(
    open_broker: OpenBroker,
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            first = await BrokerService(broker).topics.create(
                ANYONE, NewTopic(name="orders", partitions=1)
            )
            await publish(broker, "orders", [NewRecord(value=b"old")])
            folder = broker.partition("orders", 0).log.path
            await BrokerService(broker).topics.delete(ANYONE, "orders")
            assert not folder.exists()
            with pytest.raises(UnknownTopic):
                broker.partition("orders", 0)
            second = await BrokerService(broker).topics.create(
                ANYONE, NewTopic(name="orders", partitions=1)
            )
            assert second.topic.id != first.topic.id
            assert broker.partition("orders", 0).high_watermark == 0

    asyncio.run(scenario())


def test_partitions_are_added_and_old_ones_keep_their_data(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="orders", partitions=1))
            await publish(broker, "orders", [NewRecord(value=b"x")])
            await BrokerService(broker).topics.create_partitions(ANYONE, "orders", 3)
            await publish(broker, "orders", [NewRecord(value=b"y")], partition=2)
            with pytest.raises(InvalidPartitions, match="has 3 partitions; 3 asked"):
                await BrokerService(broker).topics.create_partitions(ANYONE, "orders", 3)
        async with open_broker() as broker:
            ends = [broker.partition("orders", index).high_watermark for index in range(3)]
            assert ends == [1, 0, 1]

    asyncio.run(scenario())


def test_settings_are_changed_in_steps_and_take_effect(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="orders", partitions=1))
            append = ConfigChange(name="cleanup.policy", op=ConfigOp.APPEND, value="compact")
            await BrokerService(broker).topics.alter(ANYONE, "orders", changes=[append])
            assert broker.partition("orders", 0).config.cleanup_policy == ("delete", "compact")
            subtract = ConfigChange(name="cleanup.policy", op=ConfigOp.SUBTRACT, value="delete")
            await BrokerService(broker).topics.alter(ANYONE, "orders", changes=[subtract])
            assert broker.partition("orders", 0).config.cleanup_policy == ("compact",)
            unset = ConfigChange(name="cleanup.policy", op=ConfigOp.DELETE)
            await BrokerService(broker).topics.alter(ANYONE, "orders", changes=[unset])
            assert broker.partition("orders", 0).config.cleanup_policy == ("delete",)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([ConfigChange(name="no.such", value="1")], InvalidConfig),
        ([ConfigChange(name="retention.ms")], InvalidConfig),
        ([ConfigChange(name="retention.ms", op=ConfigOp.APPEND, value="1")], InvalidConfig),
        ([ConfigChange(name="retention.ms", value="1")] * 2, InvalidRequest),
        (
            [
                ConfigChange(name="retention.ms", value="77"),
                ConfigChange(name="segment.ms", value="0"),
            ],
            InvalidConfig,
        ),
    ],
)
def test_one_bad_change_leaves_all_settings_as_they_were(
    open_broker: OpenBroker, changes: list[ConfigChange], error: type[Exception]
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="orders", partitions=1))
            with pytest.raises(error):
                await BrokerService(broker).topics.alter(ANYONE, "orders", changes=changes)
            assert broker.topic("orders").config == {}

    asyncio.run(scenario())


def test_the_nearest_setting_holds_and_all_are_shown(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker(topic__retention__ms="4000") as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="orders", partitions=1))

            async def set_broker(node_id: int | None, value: str) -> None:
                change = ConfigChange(name="topic.retention.ms", value=value)
                await BrokerService(broker).administration.alter_config(
                    ANYONE,
                    ConfigResource(
                        ConfigResourceKind.BROKER, "" if node_id is None else str(node_id)
                    ),
                    [change],
                )

            seen = [broker.partition("orders", 0).config.retention_ms]
            await set_broker(None, "3000")
            seen.append(broker.partition("orders", 0).config.retention_ms)
            await set_broker(0, "2000")
            seen.append(broker.partition("orders", 0).config.retention_ms)
            await BrokerService(broker).topics.alter(
                ANYONE, "orders", changes=[ConfigChange(name="retention.ms", value="1000")]
            )
            seen.append(broker.partition("orders", 0).config.retention_ms)
            assert seen == [4000, 3000, 2000, 1000]
            [entry] = [
                entry
                for entry in BrokerService(broker).administration.describe_config(
                    ANYONE, ConfigResource(ConfigResourceKind.TOPIC, "orders")
                )
                if entry.name == "retention.ms"
            ]
            assert [(synonym.value, synonym.source) for synonym in entry.synonyms] == [
                ("1000", ConfigSource.TOPIC),
                ("2000", ConfigSource.DYNAMIC_BROKER),
                ("3000", ConfigSource.DYNAMIC_DEFAULT_BROKER),
                ("4000", ConfigSource.STATIC_BROKER),
                ("604800000", ConfigSource.DEFAULT),
            ]

    asyncio.run(scenario())


def test_internal_topics_are_not_for_users(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            internal = NewTopic(name="__consumer_offsets", partitions=1)
            with pytest.raises(PolicyViolation):
                await BrokerService(broker).topics.create(ANYONE, internal)
            await broker.topics.ensure_internal(
                own_state("__consumer_offsets"), partitions=1, config={}
            )
            with pytest.raises(PolicyViolation):
                await BrokerService(broker).topics.delete(ANYONE, "__consumer_offsets")
            with pytest.raises(PolicyViolation):
                await publish(broker, "__consumer_offsets", [NewRecord(value=b"x", key=b"k")])
            log = BrokerService(broker).log
            with pytest.raises(PolicyViolation):
                await log.delete_records(ANYONE, "__consumer_offsets", 0, 0)

    asyncio.run(scenario())


def test_logs_without_metadata_are_not_taken_for_deleted_topics(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="orders", partitions=1))
            await publish(broker, "orders", [NewRecord(value=b"x")])
            log = broker.partition("orders", 0).log.path
        shutil.rmtree(tmp_path / "data" / "metadata")
        with pytest.raises(DataDirectoryError, match="holds logs but no metadata"):
            async with open_broker():
                pass
        assert list(log.glob("*.log"))

    asyncio.run(scenario())


def test_a_folder_of_a_deleted_topic_that_survived_a_crash_is_removed(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="orders", partitions=1))
            folder = broker.partition("orders", 0).log.path
            shutil.copytree(folder, tmp_path / "copy")
            await BrokerService(broker).topics.delete(ANYONE, "orders")
            assert not folder.exists()
        shutil.copytree(tmp_path / "copy", folder)
        async with open_broker():
            assert not folder.exists()

    asyncio.run(scenario())


def test_others_get_their_turn_while_very_many_topics_are_listed(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.pace.SLICE_SECONDS", 0.0)

    async def scenario() -> None:
        async with open_broker() as broker:
            topics = BrokerService(broker).topics
            for number in range(20):
                await topics.create(ANYONE, NewTopic(name=f"t{number}", partitions=1))

            listed, turns = await result_and_turns(topics.sizes(ANYONE))
            assert len(listed.topics) == 20
            assert turns > 20

    asyncio.run(scenario())
