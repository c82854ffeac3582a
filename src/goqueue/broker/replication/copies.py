"""What a follower has asked its leader about each partition: an answer belongs to its question."""

from typing import Final

from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.state.replication.following import FetchQuestion

# A topic's id, as bytes, and an index: as requests name partitions.
CopyKey = tuple[bytes, int]

# Doubled with each failure in a row. The leader that the metadata names may not know it yet.
RETRY_MIN_S: Final = 0.05
RETRY_MAX_S: Final = 0.5


def key_of(partition: HostedPartition) -> CopyKey:
    return partition.log.topic_id.bytes, partition.name.partition


class Copy:
    """One partition that follows a leader. A second request may be on its way before the first is
    answered, so two questions are kept."""

    __slots__ = ("_asked", "_goal", "failures", "key", "partition")

    def __init__(self, partition: HostedPartition) -> None:
        self.partition = partition
        self.key = key_of(partition)
        self.failures = 0
        # Where the leader's readers were when this copy began; None until it has told.
        self._goal: int | None = None
        self._asked: tuple[tuple[int, FetchQuestion], ...] = ()

    @property
    def is_asked(self) -> bool:
        """Whether the leader's session has it."""
        return bool(self._asked)

    @property
    def is_behind(self) -> bool:
        """Whether it is not yet where its leader was when it began."""
        return self._goal is None or self.partition.log_end_offset < self._goal

    def begun(self) -> None:
        """The leader has answered, and said where it is."""
        if self._goal is None:
            self._goal = self.partition.log_end_offset + self.partition.lag

    def ask(self, number: int, question: FetchQuestion) -> None:
        self._asked = (*self._asked[-1:], (number, question))

    def is_answered_by(self, question: FetchQuestion) -> bool:
        """Whether the leader's session has just this question."""
        return bool(self._asked) and self._asked[-1][1] == question

    def question_of(self, number: int) -> FetchQuestion | None:
        """What request `number` asked, also if it did so by asking nothing new."""
        for since, question in reversed(self._asked):
            if since <= number:
                return question
        return None

    def take_back(self) -> None:
        self._asked = ()

    @property
    def retry_s(self) -> float:
        return min(RETRY_MAX_S, RETRY_MIN_S * float(2 ** min(self.failures, 8)))
