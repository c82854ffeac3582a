"""The partitions that lie on this node, led here or not: opened, looked after, deleted.

Operations that a caller asked for find their partition in `LedPartitions`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from goqueue.broker.partitions.closing import close_partitions
from goqueue.broker.partitions.decoding import BatchDecoder
from goqueue.broker.partitions.flushing import Flusher
from goqueue.broker.partitions.holding import Holding
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.partitions.lane_ledger import LaneLedger
from goqueue.broker.partitions.producer_ledger import ProducerLedger
from goqueue.broker.partitions.removing import FolderRemoval
from goqueue.broker.partitions.stray_folders import mark_moved_away, set_strays_aside
from goqueue.broker.tracing.partition import PartitionTrace
from goqueue.model.errors import GoQueueError, PartitionOffline
from goqueue.model.measuring.histograms import Histogram
from goqueue.model.names import NodeId, TopicPartition, topic_partition
from goqueue.model.topic_config import TopicConfig
from goqueue.model.topics import PartitionView, TopicView
from goqueue.pace import Pace
from goqueue.state.metadata_image import MetadataImage
from goqueue.storage.clean_stop import LogEnd
from goqueue.storage.data_directory import DataDirectory, PartitionFolder
from goqueue.storage.disk import Disk
from goqueue.storage.high_watermarks import (
    load_high_watermarks,
    save_high_watermarks,
    watermark_key,
)
from goqueue.storage.log import PartitionLog
from goqueue.storage.log_health import can_pass
from goqueue.storage.open_segments import OpenSegments

logger = logging.getLogger(__name__)

# Cold reads block a thread each; more than a few only make one disk's head or queue busier.
READER_THREADS: Final = 4
# A kill costs what followers learned since: their leader tells it anew. Kafka has the same pause.
WATERMARKS_INTERVAL_SECONDS: Final = 5.0
# How soon a partition is there once the disk has space again.
REOPEN_INTERVAL_SECONDS: Final = 1.0

OpenedLog = tuple[PartitionLog, ProducerLedger, LaneLedger]
MakeTrace = Callable[[TopicView, HostedPartition, TopicConfig], PartitionTrace | None]


class _Mark(NamedTuple):
    """How folders are marked that are to be removed: of logs that are open, and of others."""

    log: Callable[[PartitionLog], Path]
    folder: Callable[[DataDirectory, TopicPartition, UUID], Path | None]


_DELETED: Final = _Mark(PartitionLog.mark_deleted, DataDirectory.mark_deleted)
_MOVED: Final = _Mark(PartitionLog.mark_moved, DataDirectory.mark_moved)


class HostedPartitions:
    def __init__(
        self,
        directory: DataDirectory,
        *,
        node_id: NodeId,
        disk: Disk,
        clock_ms: Callable[[], int],
        topic_config: Callable[[TopicView], TopicConfig],
        producer_expiration_ms: int,
        max_producers: int,
        max_open_log_files: int,
        make_trace: MakeTrace,
        replica_lag_max_ms: int,
        is_alone: bool = True,
    ) -> None:
        """`is_alone`: a node of one, which leads what it hosts. Else the partitions stand by until
        somebody gives them their roles."""
        self.readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="goqueue-read")
        self.decoder = BatchDecoder(self.readers)
        self.open_segments = OpenSegments(max_open_log_files)
        self._dropping: set[str] = set()
        self._directory = directory
        self._node_id = node_id
        self._disk = disk
        self._clock_ms = clock_ms
        self._topic_config = topic_config
        self._producer_expiration_ms = producer_expiration_ms
        self._max_producers = max_producers
        self._make_trace = make_trace
        self._is_alone = is_alone
        self._replica_lag_max_ms = replica_lag_max_ms
        # How far partitions were committed, as it was noted last.
        self._watermarks: dict[str, int] = {}
        # Called when a partition is led here, or not any more.
        self.role_listeners: list[Callable[[HostedPartition], None]] = []
        # Called when the disk failed under a log.
        self.failure_listeners: list[Callable[[], None]] = []
        self._flusher = Flusher()
        # What backups keep from being compacted away while they copy it.
        self.holding = Holding()
        self.removal = FolderRemoval(disk)
        self._partitions: dict[tuple[str, int], HostedPartition] = {}
        self._unopened: dict[tuple[str, int], PartitionOffline] = {}
        # Held while partitions are opened and deleted.
        self._changing = asyncio.Lock()

    def __iter__(self) -> Iterator[HostedPartition]:
        return iter(tuple(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def offline(self) -> dict[TopicPartition, str]:
        """Why each offline partition is."""
        reasons = {topic_partition(*key): str(error) for key, error in self._unopened.items()}
        for partition in self._partitions.values():
            if partition.offline_error is not None:
                reasons[partition.name] = str(partition.offline_error)
        return reasons

    @property
    def flush_latencies(self) -> Histogram:
        return self._flusher.latencies

    def get(self, topic: str, index: int) -> HostedPartition | None:
        return self._partitions.get((topic, index))

    def trace_of(self, topic: str, index: int) -> PartitionTrace | None:
        partition = self._partitions.get((topic, index))
        return None if partition is None else partition.trace

    def check_opened(self, topic: str, index: int) -> None:
        """Raise why a partition that should lie here does not, if its log could not be opened."""
        if (topic, index) in self._unopened:
            raise self._unopened[topic, index]

    # --- following the metadata -----------------------------------------------------------

    def load(self, image: MetadataImage) -> None:
        """Open everything this node should host; called once, before any door is open."""
        if not self._is_alone:
            self._watermarks = load_high_watermarks(self._disk, self._directory.path)
        set_strays_aside(self._directory, image)
        self.removal.add(self._directory.deleted_partitions())
        stored = [(topic, view) for topic in image.topics.values() for view in self._hosted(topic)]
        stop = self._directory.last_stop
        were_closed = stop is not None and all(
            stop.has(str(topic_partition(topic.name, view.index))) for topic, view in stored
        )
        # One that was not closed in order waits for the disk several times: some do at once.
        each = map if were_closed else self.readers.map
        for (topic, view), opened in zip(
            stored, each(lambda place: self._open_stored(*place), stored), strict=True
        ):
            self._add(topic, view, opened)

    async def host(self, topic: TopicView) -> None:
        """Open the partitions of a new or grown topic, off the event loop."""
        async with self._changing:
            new = [
                view
                for view in self._hosted(topic)
                if (topic.name, view.index) not in self._partitions
                and (topic.name, view.index) not in self._unopened
            ]
            for start in range(0, len(new), READER_THREADS):
                # They wait for the disk: some do at once.
                await asyncio.gather(
                    *(
                        self._open_later(topic, view, clean=True)
                        for view in new[start : start + READER_THREADS]
                    )
                )

    async def reopen_forever(self, image: Callable[[], MetadataImage]) -> None:
        """Try again to open what a full disk kept from being opened."""
        while True:
            await asyncio.sleep(REOPEN_INTERVAL_SECONDS)
            for name, index in tuple(self._unopened):
                async with self._changing:
                    # A topic that was deleted meanwhile took its entry along.
                    error = self._unopened.get((name, index))
                    topic = image().topics.get(name)
                    if topic is not None and error is not None and can_pass(error.__cause__):
                        view = topic.partitions[index]
                        # What it was like before, nobody knows any more: it is verified.
                        await self._open_later(topic, view, clean=False)

    async def note_watermarks_forever(self) -> None:
        """Where there are other replicas: a node of one has committed what is in its logs."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(WATERMARKS_INTERVAL_SECONDS)
            await loop.run_in_executor(self.readers, self._save_watermarks, self._reached())

    def _reached(self) -> dict[str, int]:
        return {
            partition.watermark_key: partition.high_watermark
            for partition in self._partitions.values()
        }

    def _save_watermarks(self, watermarks: dict[str, int]) -> None:
        """Blocking."""
        if watermarks == self._watermarks:
            return
        try:
            save_high_watermarks(self._disk, self._directory.path, watermarks)
            self._watermarks = watermarks
        except OSError as error:
            logger.warning("how far partitions are committed was not noted: %s", error)

    async def _open_later(self, topic: TopicView, view: PartitionView, *, clean: bool) -> None:
        loop = asyncio.get_running_loop()
        opening = self._open_log
        opened = await loop.run_in_executor(self.readers, opening, topic, view, clean, None)
        self._add(topic, view, opened)

    def reconfigure(self, topic: TopicView) -> None:
        config = self._topic_config(topic)
        for view in self._hosted(topic):
            partition = self._partitions.get((topic.name, view.index))
            if partition is not None:
                partition.reconfigure(config, self._make_trace(topic, partition, config))

    def use_producer_expiration(self, expiration_ms: int) -> None:
        if expiration_ms == self._producer_expiration_ms:
            return
        self._producer_expiration_ms = expiration_ms
        for partition in self:
            partition.ledger.use_expiration(expiration_ms)

    async def drop(self, topic: TopicView) -> None:
        """Before the image loses the topic; `dropped` when it has.

        Its folders are marked, which is quick; removing them is not.
        """
        self._dropping.add(topic.name)
        await self._remove(topic, topic.partitions, _DELETED)

    async def follow_moves(self, changed: Iterable[TopicPartition], image: MetadataImage) -> None:
        """Before an image is seen: open logs of what is to be copied here, and let go of copies
        that went elsewhere. Whoever used these as a leader's is told who leads now."""
        leaving: dict[str, list[PartitionView]] = {}
        arriving: set[str] = set()
        for name in changed:
            view = image.topics[name.topic].partitions[name.partition]
            key = (str(name.topic), int(name.partition))
            is_here = key in self._partitions or key in self._unopened
            if is_here and view.is_known and self._node_id not in view.replicas:
                leaving.setdefault(name.topic, []).append(view)
            elif not is_here and self._node_id in view.replicas:
                arriving.add(name.topic)
        for topic in arriving:
            await self.host(image.topics[topic])
        for topic, views in leaving.items():
            for view in views:
                partition = self._partitions.get((topic, view.index))
                if partition is not None:
                    await partition.move_away(view.state)
            logger.info("%d partitions of %s went to other brokers", len(views), topic)
            await self._remove(image.topics[topic], views, _MOVED)

    async def _remove(
        self,
        topic: TopicView,
        views: Sequence[PartitionView],
        mark: _Mark,
    ) -> None:
        async with self._changing:
            hosted: list[HostedPartition] = []
            unopened: list[TopicPartition] = []
            pace = Pace()
            for view in views:
                key = (topic.name, view.index)
                if self._unopened.pop(key, None) is not None:
                    unopened.append(topic_partition(*key))
                partition = self._partitions.pop(key, None)
                if partition is not None:
                    partition.stop_taking()
                    hosted.append(partition)
                if pace.is_over:
                    await pace.rest()
            for partition in hosted:
                await partition.retire()
                if pace.is_over:
                    await pace.rest()
            loop = asyncio.get_running_loop()
            marked = await loop.run_in_executor(
                self.readers, self._marked, topic, hosted, unopened, mark
            )
        for partition in hosted:
            partition.dissolve()
        self.removal.add(marked)

    def _marked(
        self,
        topic: TopicView,
        retired: Sequence[HostedPartition],
        unopened: Sequence[TopicPartition],
        mark: _Mark,
    ) -> list[Path]:
        """Blocking."""
        marked = []
        for partition in retired:
            try:
                marked.append(mark.log(partition.log))
            except GoQueueError as error:
                logger.error("files of partition %s stay: %s", partition.name, error)
        try:
            found = (mark.folder(self._directory, name, topic.id) for name in unopened)
            marked += [folder for folder in found if folder is not None]
            self._directory.sync_logs()
        except OSError as error:
            logger.error("some files of topic %s stay: %s", topic.name, error)
        return marked

    def remove_moved(self, stored: Iterable[PartitionFolder], image: MetadataImage) -> None:
        """At a start: copies that went to other brokers while this one was down."""
        self.removal.add(mark_moved_away(self._directory, self._node_id, stored, image))

    def dropped(self, topic: TopicView) -> None:
        self._dropping.discard(topic.name)

    def is_dropping(self, topic: str) -> bool:
        """Whether it is being deleted although the image still has it."""
        return topic in self._dropping

    async def close(self) -> dict[str, LogEnd]:
        """Flush and close all; returns where those ended that are on disk, by folder."""
        ended = await close_partitions(self._partitions.values())
        if not self._is_alone:
            self._save_watermarks(self._reached())
        self._flusher.close()
        self.removal.close()
        self.open_segments.close()
        self.readers.shutdown(wait=True)
        return ended

    def _hosted(self, topic: TopicView) -> Iterator[PartitionView]:
        return (view for view in topic.partitions if self._node_id in view.replicas)

    def _open_stored(self, topic: TopicView, view: PartitionView) -> OpenedLog | PartitionOffline:
        """Open a log of an earlier run, as the last stop left it."""
        folder = str(topic_partition(topic.name, view.index))
        stop = self._directory.last_stop
        clean = stop is not None and stop.has(folder)
        return self._open_log(topic, view, clean, None if stop is None else stop.end_of(folder))

    def _open_log(
        self, topic: TopicView, view: PartitionView, clean: bool, closed: LogEnd | None
    ) -> OpenedLog | PartitionOffline:
        name = topic_partition(topic.name, view.index)
        try:
            log = PartitionLog.open(
                self._directory.partition_path(name),
                name=name,
                topic_id=topic.id,
                config=self._topic_config(topic),
                disk=self._disk,
                clean=clean,
                closed=closed,
                now_ms=self._clock_ms(),
                epoch_max=view.leader_epoch,
                open_segments=self.open_segments,
            )
            if not clean:
                # What was found again counts as committed from now on: it must be on the disk.
                log.flush()
            expiration_ms = self._producer_expiration_ms
            return (
                log,
                ProducerLedger.recover(
                    self._disk, log, expiration_ms=expiration_ms, max_producers=self._max_producers
                ),
                LaneLedger.recover(log),
            )
        except PartitionOffline as error:
            return error
        except (OSError, GoQueueError) as error:
            return _offline(name, "what is known of its messages cannot be read", error)

    def _add(
        self, topic: TopicView, view: PartitionView, opened: OpenedLog | PartitionOffline
    ) -> None:
        key = (str(topic.name), int(view.index))
        if not isinstance(opened, PartitionOffline):
            self._partitions[key] = self._take_in(topic, view, opened)
            if self._unopened.pop(key, None) is not None:
                logger.warning("partition %s-%s is online again", topic.name, view.index)
            return
        if str(self._unopened.get(key)) != str(opened):
            logger.error("partition %s-%s is offline: %s", topic.name, view.index, opened)
        self._unopened[key] = opened

    def _take_in(self, topic: TopicView, view: PartitionView, opened: OpenedLog) -> HostedPartition:
        partition = HostedPartition(
            *opened,
            flusher=self._flusher,
            readers=self.readers,
            decoder=self.decoder,
            clock_ms=self._clock_ms,
            lag_max_ms=self._replica_lag_max_ms,
            role_changed=self._role_changed,
            log_failed=self._log_failed,
            high_watermark=self._watermarks.get(watermark_key(topic.id, view.index), 0),
        )
        partition.trace = self._make_trace(topic, partition, partition.config)
        if self._is_alone and view.leader == self._node_id:
            partition.lead_alone(view.leader_epoch)
        return partition

    def _role_changed(self, partition: HostedPartition) -> None:
        for listener in tuple(self.role_listeners):
            listener(partition)

    def _log_failed(self) -> None:
        for listener in tuple(self.failure_listeners):
            listener()


def _offline(name: TopicPartition, what: str, cause: Exception) -> PartitionOffline:
    error = PartitionOffline(f"{name}: {what}: {cause}")
    error.__cause__ = cause
    return error
