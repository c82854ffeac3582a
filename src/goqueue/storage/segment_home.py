"""What the segments of one log have in common."""

from pathlib import Path
from typing import NamedTuple

from goqueue.model.names import TopicPartition
from goqueue.storage.disk import Disk
from goqueue.storage.epochs import LeaderEpochs
from goqueue.storage.log_health import LogHealth
from goqueue.storage.open_segments import OpenSegments


class SegmentHome(NamedTuple):
    folder: Path
    name: TopicPartition
    epochs: LeaderEpochs
    disk: Disk
    health: LogHealth
    open_segments: OpenSegments
