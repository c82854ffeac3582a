"""What can be asked about topics."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    start_offset: int | None
    end_offset: int | None
    size_bytes: int | None
    """None where the broker could not say, such as for a partition that is offline."""

    @property
    def offsets(self) -> int | None:
        """How many it holds: messages, and in between markers of transactions and what is gone."""
        if self.start_offset is None or self.end_offset is None:
            return None
        return self.end_offset - self.start_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    name: str
    id: str
    is_internal: bool
    partitions: tuple[PartitionFacts, ...]

    @property
    def offsets(self) -> int:
        return sum(partition.offsets or 0 for partition in self.partitions)

    @property
    def size_bytes(self) -> int:
        return sum(partition.size_bytes or 0 for partition in self.partitions)

    @property
    def replication_factor(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSetting:
    name: str
    value: str
    is_default: bool
    """Neither the topic nor its broker says otherwise."""
    is_own: bool
    """Set on the topic itself."""
