"""Read everything that a backup consists of, and hold it against its manifest."""

from typing import NamedTuple

from goqueue.backup.catalogue import Catalogue
from goqueue.backup.chunks import checked_batches
from goqueue.backup.errors import BackupDamaged
from goqueue.backup.manifest import Manifest, PartitionCopy, Place
from goqueue.backup.progress import Progress
from goqueue.backup.rate import Rate
from goqueue.backup.stored_metadata import read_metadata
from goqueue.backup.work import Crew


class Problem(NamedTuple):
    place: str
    problem: str


class Verified(NamedTuple):
    batches: int
    records: int
    bytes: int
    problems: list[Problem]


class _Counts(NamedTuple):
    batches: int = 0
    records: int = 0
    bytes: int = 0
    problems: tuple[Problem, ...] = ()


def verify(
    catalogue: Catalogue, manifest: Manifest, *, jobs: int, rate: Rate, progress: Progress
) -> Verified:
    """All that is wrong, not only the first."""
    problems: list[Problem] = []
    try:
        read_metadata(catalogue, manifest)
    except BackupDamaged as error:
        problems.append(Problem("metadata", error.message))
    pieces = [
        (Place(topic.name, index), partition)
        for topic in manifest.topics
        for index, partition in enumerate(topic.partitions)
    ]

    def check(piece: tuple[Place, PartitionCopy]) -> _Counts:
        return _check_partition(catalogue, *piece, rate=rate, progress=progress)

    progress.begin("verified", manifest.size_bytes)
    try:
        counts = Crew(jobs, check).run(pieces)
    finally:
        progress.end()
    for each in counts:
        problems += each.problems
    return Verified(
        batches=sum(each.batches for each in counts),
        records=sum(each.records for each in counts),
        bytes=sum(each.bytes for each in counts) + manifest.metadata.size,
        problems=problems,
    )


def _check_partition(
    catalogue: Catalogue, place: Place, partition: PartitionCopy, *, rate: Rate, progress: Progress
) -> _Counts:
    batches = records = size = 0
    problems: list[Problem] = []
    reached = partition.start
    for chunk in partition.chunks:
        rate.take(chunk.size)
        try:
            content = catalogue.get(chunk.sha, chunk.size)
            for _, header, _ in checked_batches(content, chunk, reached):
                batches += 1
                records += header.record_count
        except BackupDamaged as error:
            problems.append(Problem(str(place), error.message))
        size += chunk.size
        progress.add(chunk.size)
        reached = chunk.next
    return _Counts(batches, records, size, tuple(problems))
