"""Make a backup: take the cut, copy what the store lacks, write the manifest last."""

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import msgspec

from goqueue.backup.catalogue import Catalogue
from goqueue.backup.chunks import FullChunk, Gatherer, chunk_bytes
from goqueue.backup.errors import BackupFailed
from goqueue.backup.manifest import (
    OBJECT_BYTES_MAX,
    Chunk,
    Manifest,
    PartitionCopy,
    Place,
    StoredObject,
    TopicCopy,
)
from goqueue.backup.planning import PartitionPlan, later_start, plan
from goqueue.backup.progress import Progress
from goqueue.backup.rate import Rate
from goqueue.backup.running import Marked, Work, marked, wait_for_prunes
from goqueue.backup.sources import Cut, LogReader, Source
from goqueue.backup.work import Crew
from goqueue.client.errors import RequestRefused
from goqueue.model.errors import OffsetOutOfRange, UnknownTopic, UnknownTopicId
from goqueue.state import metadata_keys as keys

# Retention that overtakes a copy this often deletes faster than the copy reads.
_BEGIN_AGAIN_MAX: Final = 20


def new_backup_id(now: datetime) -> str:
    """Sorted by time, milliseconds in the first three digits after it; two of the same differ."""
    return f"{now:%Y%m%dT%H%M%SZ}-{now.microsecond // 1000:03x}{secrets.token_hex(3)[1:]}"


def create(
    catalogue: Catalogue,
    source: Source,
    *,
    jobs: int,
    rate: Rate,
    progress: Progress,
    tell: Callable[[str], None],
) -> Manifest:
    """The source is closed in any case."""
    began = time.monotonic()
    backup = new_backup_id(datetime.now(UTC))
    with closing(source), marked(catalogue.store, backup, Work.CREATE) as mark:
        wait_for_prunes(catalogue.store, tell)
        cut = source.cut()
        copying = _Copying(catalogue, source, mark, jobs=jobs, rate=rate, progress=progress)
        manifest = copying.run(backup, cut, began)
        mark.check()
        catalogue.write(manifest)
    return manifest


class _Copying:
    def __init__(
        self,
        catalogue: Catalogue,
        source: Source,
        mark: Marked,
        *,
        jobs: int,
        rate: Rate,
        progress: Progress,
    ) -> None:
        self._catalogue = catalogue
        self._source = source
        self._mark = mark
        self._rate = rate
        self._progress = progress
        self._crew: Crew[PartitionPlan, PartitionCopy] = Crew(jobs, self._copy)
        self._own = threading.local()
        self._readers: list[LogReader] = []
        self._lock = threading.Lock()
        # What the store has, and how much of it is new.
        self._known: dict[str, int] = {}
        self._new_bytes = 0

    def run(self, backup: str, cut: Cut, began: float) -> Manifest:
        self._known = self._catalogue.objects()
        plans = plan(cut.partitions, self._catalogue.newest_of(cut.cluster_id))
        reused = sum(chunk.size for each in plans for chunk in each.reusable)
        total = sum(each.cut.size_bytes for each in plans)
        self._progress.begin("copied", max(0, total - reused))
        try:
            # The largest first, so that no thread is left with it at the end.
            largest_first = sorted(plans, key=lambda each: -each.cut.size_bytes)
            copies = self._crew.run(largest_first)
        finally:
            for reader in self._readers:
                reader.close()
            self._progress.end()
        self._source.check()
        by_place = {each.place: copy for each, copy in zip(largest_first, copies, strict=True)}
        content = msgspec.json.encode(cut.metadata)
        metadata = StoredObject(hashlib.sha256(content).hexdigest(), len(content))
        self._store(metadata.sha, content)
        return Manifest(
            id=backup,
            cluster_id=cut.cluster_id,
            is_cluster=cut.is_cluster,
            taken_at_ms=cut.taken_at_ms,
            seconds=round(time.monotonic() - began, 3),
            new_bytes=self._new_bytes,
            metadata=metadata,
            topics=tuple(_topics(cut, by_place)),
        )

    # --- one partition --------------------------------------------------------------------

    def _copy(self, found: PartitionPlan) -> PartitionCopy:
        reader = self._reader()
        for _ in range(_BEGIN_AGAIN_MAX):
            try:
                return self._copy_from_start(found, reader)
            except OffsetOutOfRange:
                # Retention deletes it in the backup, too.
                found = later_start(found, reader.start_of(found.cut))
            except (UnknownTopic, UnknownTopicId) as error:
                raise BackupFailed(
                    f"topic {found.cut.topic!r} was deleted while it was copied; run the command "
                    "again: what was stored is not stored again"
                ) from error
            except RequestRefused as error:
                raise BackupFailed(
                    f"{error.message}; if it is damaged, see `goqueue data check`"
                ) from error
        raise BackupFailed(
            f"retention deletes {found.place} faster than it is copied; raise --rate, or keep more "
            "of it"
        )

    def _copy_from_start(self, found: PartitionPlan, reader: LogReader) -> PartitionCopy:
        cut = found.cut
        if cut.start >= cut.end:
            return PartitionCopy(cut.start, cut.end)
        chunks = self._still_there(found, reader)
        begin = max(cut.start, chunks[-1].next) if chunks else cut.start
        gatherer = Gatherer(chunk_bytes(cut.segment_bytes), found.borders)
        if begin < cut.end:
            for batch, header in reader.batches(cut, begin):
                if header.next_offset > cut.end:
                    raise BackupFailed(
                        f"{found.place} has a batch with offsets {header.base_offset} to "
                        f"{header.last_offset}, and the cut lies within it, at {cut.end}"
                    )
                self._rate.take(len(batch))
                self._progress.add(len(batch))
                full = gatherer.add(batch, header)
                if full is not None:
                    chunks.append(self._store_chunk(full))
        rest = gatherer.finish()
        if rest is not None:
            chunks.append(self._store_chunk(rest))
        return PartitionCopy(cut.start, cut.end, tuple(chunks))

    def _still_there(self, found: PartitionPlan, reader: LogReader) -> list[Chunk]:
        """The reusable chunks that the store has and that are of this log's history.

        A log with the same batch at the same offset is the same up to there. If it is another one
        (restored from an older backup, or a power cut took its end), fewer chunks are, or none.
        """
        chunks: list[Chunk] = []
        for chunk in found.reusable:
            if self._known.get(chunk.sha) != chunk.size:
                break
            chunks.append(chunk)
        while chunks and not self._has_last(found, chunks[-1], reader):
            # Few are ever wrong at the end; halving would save nothing.
            chunks.pop()
        return chunks

    def _has_last(self, found: PartitionPlan, chunk: Chunk, reader: LogReader) -> bool:
        up_to_there = replace(found.cut, end=chunk.next)
        begin = max(chunk.last, found.cut.start)
        seen = [header for _, header in reader.batches(up_to_there, begin)]
        return [(each.base_offset, each.crc) for each in seen] == [(chunk.last, chunk.last_crc)]

    def _reader(self) -> LogReader:
        reader: LogReader | None = getattr(self._own, "reader", None)
        if reader is None:
            reader = self._own.reader = self._source.reader()
            with self._lock:
                self._readers.append(reader)
        return reader

    # --- objects --------------------------------------------------------------------------

    def _store_chunk(self, full: FullChunk) -> Chunk:
        self._crew.check()
        self._mark.check()
        self._source.check()
        if full.chunk.size > OBJECT_BYTES_MAX:
            raise BackupFailed(f"a batch of {full.chunk.size} bytes is too large for a backup")
        self._store(full.chunk.sha, full.content)
        return full.chunk

    def _store(self, sha: str, content: bytes) -> None:
        if self._known.get(sha) == len(content):
            return
        self._catalogue.put(sha, content)
        with self._lock:
            self._known[sha] = len(content)
            self._new_bytes += len(content)


def _topics(cut: Cut, copies: dict[Place, PartitionCopy]) -> list[TopicCopy]:
    """Every topic that the metadata know. A partition that was made after the cut is empty."""
    topics = []
    for key, value in cut.metadata.items():
        match keys.parse_key(key):
            case keys.TopicKey(name):
                known = keys.decode_value(key, value.encode(), keys.TopicValue)
                empty = PartitionCopy(0, 0)
                partitions = tuple(
                    copies.get(Place(name, index), empty) for index in range(known.partitions)
                )
                topics.append(TopicCopy(name=name, id=known.id, partitions=partitions))
    return sorted(topics, key=lambda each: each.name)
