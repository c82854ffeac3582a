"""Files that changed while no broker ran: what is served is what was written, or it is said."""

import asyncio
import errno
import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from goqueue.broker.node import Node
from goqueue.broker.partitions.admission import append_now
from goqueue.model.batch import iterate_batches
from goqueue.model.broker_config import broker_config
from goqueue.model.control import Marker, MarkerType
from goqueue.model.errors import CorruptBatch, DataDirectoryError, OffsetOutOfRange
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.storage.data_directory import DataDirectory
from goqueue.storage.disk import Disk
from goqueue.testing.faulty_disk import FaultyDisk
from tests.callers import ANYONE
from tests.unit.broker.conftest import OpenBroker
from tests.unit.broker.test_data import batch, fetch, produce, values

TRANSACTIONS = 6
Damaging = Callable[[Path], None]


def _flip(position: int) -> Damaging:
    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[position] ^= 0x10
        path.write_bytes(content)

    return damage


def _cut(size: int) -> Damaging:
    def damage(path: Path) -> None:
        path.write_bytes(path.read_bytes()[:size])

    return damage


class _SlowDisk(Disk):
    """Takes its time for every flush, once it is told to."""

    is_slow = False

    def fdatasync(self, fd: int) -> None:
        if self.is_slow:
            time.sleep(0.25)


async def _make_topic(broker: Node, **config: str) -> None:
    settings = {name.replace("_", "."): text for name, text in config.items()}
    await BrokerService(broker).topics.create(
        ANYONE, NewTopic(name="t", partitions=1, config=settings)
    )


def _write_transactions(broker: Node) -> None:
    """Every other one is aborted."""
    partition = broker.partition("t", 0)
    for number in range(TRANSACTIONS):
        value = b"aborted" if number % 2 else b"committed"
        append_now(
            partition,
            batch(
                value, producer_id=number, producer_epoch=0, base_sequence=0, is_transactional=True
            ),
        )
        outcome = MarkerType.ABORT if number % 2 else MarkerType.COMMIT
        partition.append_marker(
            Marker(outcome, 0), producer_id=number, producer_epoch=0, bumps_epoch=False
        )


def _aborted(broker: Node) -> list[int]:
    partition = broker.partition("t", 0)
    found = partition.aborted_between(0, partition.log_end_offset)
    return [aborted.producer_id for aborted in found]


@pytest.mark.parametrize(
    "damage",
    [_flip(3), _flip(40), _flip(35), _flip(105), _cut(36), _cut(50), _cut(0), Path.unlink],
    ids=["first", "second", "checksum", "last", "at an entry", "in an entry", "empty", "gone"],
)
@pytest.mark.parametrize("is_clean", [True, False])
def test_aborted_transactions_are_read_from_the_log_again_on_any_doubt(
    open_broker: OpenBroker, tmp_path: Path, damage: Damaging, is_clean: bool
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await _make_topic(broker)
            _write_transactions(broker)
            assert _aborted(broker) == [1, 3, 5]
        damage(tmp_path / "data" / "logs" / "t-0" / "aborted.transactions")
        if not is_clean:
            (tmp_path / "data" / "clean-shutdown").unlink()
        for _ in range(2):
            async with open_broker() as broker:
                assert _aborted(broker) == [1, 3, 5]
                assert len(broker.partition("t", 0).ledger.aborted) == 3

    asyncio.run(scenario())


def test_no_descriptor_stays_open_for_a_deleted_partition(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    logs = str(tmp_path / "data" / "logs")

    def open_files() -> list[str]:
        links = (str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.exists())
        below = [link.removeprefix(logs) for link in links if link.startswith(logs)]
        return [path for path in below if "t-0" in path]

    async def scenario() -> None:
        async with open_broker() as broker:
            await _make_topic(broker)
            _write_transactions(broker)
            partition = broker.partition("t", 0)
            assert _aborted(broker) == [1, 3, 5]
            await BrokerService(broker).topics.delete(ANYONE, "t")
            assert partition.offline_reason is not None
            assert not [path for path in open_files() if not path.endswith(".log (deleted)")]
            del partition
            assert not open_files()

    asyncio.run(scenario())


def _last_log(folder: Path) -> Path:
    return max(path for path in folder.iterdir() if path.suffix == ".log" and path.stat().st_size)


def _cut_last_batch(folder: Path) -> None:
    path = _last_log(folder)
    data = path.read_bytes()
    positions = [position for position, _ in iterate_batches(data)]
    path.write_bytes(data[: positions[-1]])


def _cut_to_nothing(folder: Path) -> None:
    _last_log(folder).write_bytes(b"")


def _remove_last(folder: Path) -> None:
    _last_log(folder).unlink()


@pytest.mark.parametrize("damage", [_cut_last_batch, _cut_to_nothing, _remove_last])
def test_a_log_that_lost_its_end_says_so_and_gives_no_offset_twice(
    open_broker: OpenBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Damaging
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await _make_topic(broker, segment_bytes="1000")
            for number in range(30):
                await produce(broker, batch(b"%02d" % number))
            assert broker.partition("t", 0).log.segment_count > 2
        damage(tmp_path / "data" / "logs" / "t-0")
        with caplog.at_level(logging.ERROR):
            async with open_broker() as broker:
                assert await produce(broker, batch(b"new")) == 30
                [lost] = broker.partition("t", 0).log.damage
        assert f"offsets {lost.offset} to 29 are damaged" in caplog.text
        async with open_broker() as broker:
            assert values(await fetch(broker, 0))[0] == b"00"
            assert isinstance((await fetch(broker, 29)).error, CorruptBatch)
            assert values(await fetch(broker, 30)) == [b"new"]

    asyncio.run(scenario())


def test_a_log_that_is_gone_begins_where_it_ended(
    open_broker: OpenBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await _make_topic(broker)
            for _ in range(3):
                await produce(broker, batch(b"x"))
        for path in (tmp_path / "data" / "logs" / "t-0").iterdir():
            path.unlink()
        async with open_broker() as broker:
            assert isinstance((await fetch(broker, 0)).error, OffsetOutOfRange)
            assert await produce(broker, batch(b"new")) == 3
        assert "offsets 0 to 2 were there when the broker stopped, and are gone" in caplog.text

    asyncio.run(scenario())


def test_after_a_kill_a_log_without_segments_is_not_taken_for_a_new_one(
    open_broker: OpenBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await _make_topic(broker)
            await produce(broker, batch(b"x"))
        (tmp_path / "data" / "clean-shutdown").unlink()
        folder = tmp_path / "data" / "logs" / "t-0"
        for path in folder.glob("0*"):
            path.unlink()
        caplog.clear()
        async with open_broker():
            assert "t-0: its folder is there without a segment" in caplog.text
        caplog.clear()
        async with open_broker():
            assert not caplog.records

    asyncio.run(scenario())


def test_records_that_were_deleted_do_not_come_back(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await _make_topic(broker)
            for _ in range(3):
                await produce(broker, batch(b"x"))
            await broker.partition("t", 0).delete_records(2)
        (tmp_path / "data" / "logs" / "t-0" / "checkpoint.json").unlink()
        for _ in range(2):
            async with open_broker() as broker:
                assert broker.partition("t", 0).log_start_offset == 2

    asyncio.run(scenario())


def test_metadata_that_lost_its_end_is_refused_and_no_log_removed(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="u", partitions=1))
        # A start writes what it finds as a whole, and the log of this run is what comes after it.
        async with open_broker() as broker:
            await _make_topic(broker)
            await produce(broker, batch(b"x"))
        [log] = (tmp_path / "data" / "metadata").glob("log-*")
        # Nothing but the header: cut where a frame begins.
        log.write_bytes(log.read_bytes()[:28])
        for _ in range(2):
            with pytest.raises(DataDirectoryError, match="ends at revision"):
                async with open_broker():
                    pass
        assert (tmp_path / "data" / "logs" / "t-0").exists()

    asyncio.run(scenario())


def test_a_folder_that_an_earlier_release_closed_opens_as_before(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await _make_topic(broker)
            _write_transactions(broker)
        # What it wrote: no ends, and producer snapshots without a seal.
        body = b"{}\n"
        (tmp_path / "data" / "clean-shutdown").write_bytes(b"%08x\n" % crc32c(body) + body)
        for path in (tmp_path / "data" / "logs" / "t-0").glob("*.producers"):
            path.write_bytes(path.read_bytes()[18:])
        async with open_broker() as broker:
            assert _aborted(broker) == [1, 3, 5]
            assert broker.partition("t", 0).log_end_offset == 2 * TRANSACTIONS

    asyncio.run(scenario())


@pytest.mark.parametrize("policy", ["never", "always"])
def test_a_stop_takes_seconds_however_many_partitions_wait_for_the_disk(
    tmp_path: Path, policy: str
) -> None:
    """With `always`, flushes of all of them have begun or wait for a thread."""
    partitions = 600  # about ten seconds of flushes, sixteen at a time

    async def scenario() -> None:
        disk = _SlowDisk()
        config = broker_config({"data.dir": str(tmp_path / "data")})
        broker = await Node.open(config, disk=disk)
        new = NewTopic(name="t", partitions=partitions, config={"fsync.policy": policy})
        await BrokerService(broker).topics.create(ANYONE, new)
        disk.is_slow = True
        for index in range(partitions):
            append_now(broker.partition("t", index), batch(b"x"))
        started = time.monotonic()
        await broker.close()
        assert time.monotonic() - started < 10  # the bound is 3, with room for a busy machine
        disk.is_slow = False
        # Those that were closed are known, the others are recovered as after a kill.
        directory = DataDirectory.open(tmp_path / "data")
        stop = directory.last_stop
        assert stop is not None
        assert stop.logs is not None
        assert 0 < len(stop.logs) < partitions
        directory.close(stop)
        broker = await Node.open(config, disk=disk)
        assert all(broker.partition("t", index).log_end_offset == 1 for index in range(partitions))
        await broker.close()

    asyncio.run(scenario())


@pytest.mark.anyio
async def test_folders_that_the_metadata_forgot_are_kept_and_taken_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = broker_config({"data.dir": str(tmp_path / "data")})
    broker = await Node.open(config)
    earlier = shutil.copytree(tmp_path / "data" / "metadata", tmp_path / "earlier")
    await _make_topic(broker)
    await produce(broker, batch(b"kept"))
    later = shutil.copytree(tmp_path / "data" / "metadata", tmp_path / "later")
    await broker.close()
    (tmp_path / "data" / "clean-shutdown").unlink()

    _put_back(earlier, tmp_path / "data" / "metadata")
    broker = await Node.open(config)
    assert "t" not in broker.image.topics
    await broker.close()
    assert "the metadata does not know topic t" in caplog.text
    [stray] = (tmp_path / "data" / "strays").iterdir()
    assert (stray / "00000000000000000000.log").stat().st_size > 0

    _put_back(later, tmp_path / "data" / "metadata")
    (tmp_path / "data" / "clean-shutdown").unlink()
    broker = await Node.open(config)
    assert values(await fetch(broker, 0)) == [b"kept"]
    await broker.close()
    assert list((tmp_path / "data" / "strays").iterdir()) == []


def _put_back(copy: Path, metadata: Path) -> None:
    shutil.rmtree(metadata)
    shutil.copytree(copy, metadata)


@pytest.mark.anyio
async def test_a_stop_says_whether_all_was_in_order(tmp_path: Path) -> None:
    disk = FaultyDisk()
    config = broker_config({"data.dir": str(tmp_path / "data")})
    broker = await Node.open(config, disk=disk)
    await _make_topic(broker)
    await produce(broker, batch(b"x"))
    disk.inject("fdatasync", errno.ENOSPC, path_contains="/t-0/")
    assert not await broker.close()

    broker = await Node.open(config, disk=disk)
    disk.heal()
    disk.inject("open", errno.ENOSPC, path_contains="clean-shutdown")
    assert not await broker.close()

    disk.heal()
    broker = await Node.open(config, disk=disk)
    assert await broker.close()
