"""A follower of one partition under one epoch: what to ask, and what to do with an answer.

A follower asks for the offset at its end and names the epoch of its last record. A leader that has
another history there answers where the two part, and the follower cuts its log (KIP-595). It cuts
on the word of the leader of the current epoch only, and never by the high watermark: what lies
above it may be committed already, and the leader may not have said so yet.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from goqueue.model.names import NodeId

NO_EPOCH = -1


class EpochEnd(NamedTuple):
    """Where a leader's records end; `epoch` is the last one not above the one asked for."""

    epoch: int
    end_offset: int


class History(Protocol):
    """Which epochs wrote a log. `storage` keeps it beside the log, the simulator in memory."""

    @property
    def latest(self) -> int: ...

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int]: ...


class FetchQuestion(NamedTuple):
    leader_epoch: int
    broker_epoch: int
    offset: int
    last_epoch: int


class Diverging(NamedTuple):
    """The histories part: the leader's largest epoch not above the asker's last, and its end."""

    end: EpochEnd


class BelowStart(NamedTuple):
    """The leader's log starts after what was asked for."""

    log_start: int


class Records(NamedTuple):
    """Batches from the offset that was asked for on; `next_offset` is where they end."""

    next_offset: int
    high_watermark: int


FetchAnswer = Diverging | BelowStart | Records


@dataclass(frozen=True, slots=True)
class Append:
    """Append what came, as it is; then note the high watermark."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut the log, its epochs and everything that was noted of it by offset, then ask again."""

    to_offset: int


@dataclass(frozen=True, slots=True)
class StartAt:
    """Throw the log away and go on at `log_start`."""

    log_start: int


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop and alarm: cutting at `at_offset` would throw away what was committed."""

    at_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Ignore:
    """An answer to a question that would not be asked any more."""


Step = Append | Truncate | StartAt | Halt | Ignore


def diverging(question: FetchQuestion, history: History, log_end: int) -> Diverging | None:
    """What a leader answers to a question whose history is not its own; None where it is."""
    if question.last_epoch == NO_EPOCH:
        return None
    epoch, end = history.end_offset_for(question.last_epoch, log_end)
    if epoch == question.last_epoch and end >= question.offset:
        return None
    return Diverging(EpochEnd(epoch, end))


class Following:
    def __init__(self, leader: NodeId, leader_epoch: int, broker_epoch: int, high_watermark: int):
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.broker_epoch = broker_epoch
        self.high_watermark = high_watermark

    def question(self, history: History, durable_end: int) -> FetchQuestion:
        """Ask for the durable end: the leader takes it as a promise."""
        return FetchQuestion(self.leader_epoch, self.broker_epoch, durable_end, history.latest)

    def is_asking(self, question: FetchQuestion, history: History, log_end: int) -> bool:
        """Whether the question would still be asked.

        The last epoch and the end stand for the whole log: a late answer to a question that would
        be another one today speaks of another log, also under the same leader.
        """
        return (
            question.offset == log_end
            and question.leader_epoch == self.leader_epoch
            and question.broker_epoch == self.broker_epoch
            and question.last_epoch == history.latest
        )

    def answered(
        self, question: FetchQuestion, answer: FetchAnswer, history: History, log_end: int
    ) -> Step:
        if not self.is_asking(question, history, log_end):
            return Ignore()
        match answer:
            case Diverging(end):
                return self._cut(end, history, log_end)
            case BelowStart(log_start):
                return StartAt(log_start)
            case Records(next_offset, leader_watermark):
                self.high_watermark = max(self.high_watermark, min(leader_watermark, next_offset))
                return Append(self.high_watermark)

    def _cut(self, end: EpochEnd, history: History, log_end: int) -> Step:
        if end.epoch == NO_EPOCH:
            return Halt(
                0,
                f"this log has epoch {history.latest}, which the leader of epoch "
                f"{self.leader_epoch} does not know",
            )
        known, own_end = history.end_offset_for(end.epoch, log_end)
        # Both logs are equal up to where the shorter one's part of a common epoch ends. At the end
        # there is nothing to cut but epochs under which nothing was written.
        target = min(end.end_offset, own_end if known != NO_EPOCH else log_end, log_end)
        if target < self.high_watermark:
            return Halt(
                target,
                f"the leader of epoch {self.leader_epoch} asks to cut at {target}, below the "
                f"high watermark {self.high_watermark}",
            )
        return Truncate(target)
