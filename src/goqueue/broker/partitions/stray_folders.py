"""Folders that a start finds, and that this broker should not have, as far as the metadata says."""

import contextlib
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from uuid import UUID

from goqueue.model.errors import DataDirectoryError
from goqueue.model.names import NodeId
from goqueue.state.metadata_image import MetadataImage
from goqueue.storage.data_directory import DataDirectory, PartitionFolder

logger = logging.getLogger(__name__)


def set_strays_aside(directory: DataDirectory, image: MetadataImage) -> None:
    """Folders of topics that the metadata does not know.

    Either a crash cut their deletion short before any was marked, or the metadata lost them,
    or it is not theirs: nobody can tell, so they are kept. If it knows them again, they are
    back.
    """
    stored = directory.stored_partitions()
    # A broker writes its cluster's id before anything else.
    if stored and not image.cluster_id:
        raise DataDirectoryError(
            f"{directory.path} holds logs but no metadata; restore its metadata folder "
            "from a backup, or start with an empty data directory"
        )
    unknown = [each for each in stored if each.topic_id not in image.topics_by_id]
    by_topic: dict[UUID, list[PartitionFolder]] = {}
    for folder in _finish_deletions(directory, unknown):
        by_topic.setdefault(folder.topic_id, []).append(folder)
    for topic_id, folders in by_topic.items():
        _set_aside(directory, topic_id, folders)
    stored_names = {folder.tp for folder in stored}
    back = [
        stray
        for stray in directory.strays()
        if stray.topic_id in image.topics_by_id and stray.tp not in stored_names
    ]
    for stray in back:
        logger.warning("%s is back: the metadata knows %s again", stray.path, stray.tp)
        directory.take_back(stray)
    if by_topic or back:
        directory.sync_strays()


def mark_moved_away(
    directory: DataDirectory,
    node_id: NodeId,
    stored: Iterable[PartitionFolder],
    image: MetadataImage,
) -> list[Path]:
    """Copies that went to other brokers while this one was down; returns where they are now.

    One that is newer than the metadata, or cannot tell, is left alone.
    """
    marked: list[Path] = []
    for folder in stored:
        topic = image.topics_by_id.get(folder.topic_id)
        if topic is None or folder.tp.partition >= len(topic.partitions):
            continue
        view = topic.partitions[folder.tp.partition]
        if not view.is_known or node_id in view.replicas:
            continue
        newest = directory.newest_epoch(folder)
        if newest is not None and newest <= view.leader_epoch:
            path = directory.mark_moved(folder.tp, folder.topic_id)
            marked += [] if path is None else [path]
    if marked:
        directory.sync_logs()
        logger.info("%d partitions went to other brokers while this one was down", len(marked))
    return marked


def _set_aside(
    directory: DataDirectory, topic_id: UUID, folders: Sequence[PartitionFolder]
) -> None:
    """Folders of one topic."""
    topic = folders[0].tp.topic
    for folder in folders:
        try:
            target = directory.set_aside(folder)
        except OSError as error:
            raise DataDirectoryError(
                f"{folder.path} cannot be set aside, and the metadata does not know topic "
                f"{topic} with id {topic_id}: {error}; move it away"
            ) from error
    logger.warning(
        "%d folders are kept in %s, such as %s: the metadata does not know topic %s with id "
        "%s; `goqueue data remove-strays` deletes them",
        len(folders),
        target.parent,
        target.name,
        topic,
        topic_id,
    )


def _finish_deletions(
    directory: DataDirectory, unknown: Sequence[PartitionFolder]
) -> list[PartitionFolder]:
    """Mark what a crash in the middle of a deletion left; returns the others.

    Folders are marked so after the metadata has lost their topic, and nobody else does it.
    """
    ending = directory.topics_being_deleted()
    others = []
    for folder in unknown:
        marked = None
        if folder.topic_id in ending:
            # It fails where somebody put a marked folder back by a copy.
            with contextlib.suppress(OSError):
                marked = directory.mark_deleted(folder.tp, folder.topic_id)
        if marked is None:
            others.append(folder)
    if len(others) < len(unknown):
        directory.sync_logs()
    return others
