"""What senders to and readers of a FIFO queue were told, and whether all of it can be true.

Each message group has numbers from 0 on, by one sender that goes on when a number is stored; it
sends a number again, under the same deduplication id, until it is. Held against the history:

- stored twice: a number has two message ids or two sequence numbers;
- sequence: a later number of a group has a lower sequence number;
- out of order: a number came while an earlier one was neither deleted, nor before it in the answer;
- returned: a number was delivered to who asked after its deletion was answered;
- lost: a number is stored, nobody deleted it, and it does not come.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Number(NamedTuple):
    group: str
    n: int


@dataclass(slots=True)
class Stored:
    message_id: str
    sequence: int


@dataclass(slots=True)
class Answer:
    """One receive: numbers in the order in which they came."""

    numbers: Sequence[Number]
    asked_at: float
    came_at: float


@dataclass(slots=True)
class Deletion:
    number: Number
    sent_at: float
    # None: nobody knows whether it took place.
    answered_at: float | None = None


@dataclass
class FifoHistory:
    name: str
    answers: list[Answer] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)
    stored: dict[Number, Stored] = field(default_factory=dict)
    # How often a number was sent again although it was stored, as the sender may not have known.
    repeated_count: int = 0
    _told: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def was_stored(self, number: Number, message_id: str, sequence: int) -> None:
        """By the answer to a send, or as it was delivered."""
        with self._lock:
            known = self.stored.setdefault(number, Stored(message_id, sequence))
            if (known.message_id, known.sequence) != (message_id, sequence):
                self._told.append(
                    f"{self.name}: {number} is stored twice, as {known} and as {message_id} "
                    f"with sequence number {sequence}"
                )

    def was_answered(self, numbers: Sequence[Number], asked_at: float, came_at: float) -> None:
        with self._lock:
            self.answers.append(Answer(numbers, asked_at, came_at))

    def deletes(self, number: Number, sent_at: float) -> Deletion:
        made = Deletion(number, sent_at)
        with self._lock:
            self.deletions.append(made)
        return made

    def refused(self, deletion: Deletion) -> None:
        with self._lock:
            self.deletions.remove(deletion)

    def open_numbers(self) -> set[Number]:
        with self._lock:
            return self.stored.keys() - {each.number for each in self.deletions}

    # --- whether it can be true -----------------------------------------------------------

    def violations(self) -> list[str]:
        lost = [f"{self.name}: {number} is lost" for number in sorted(self.open_numbers())]
        return self._told + self._sequences() + self._order() + self._returned() + lost

    def _sequences(self) -> list[str]:
        found = []
        last: dict[str, int] = {}
        for number in sorted(self.stored):
            sequence = self.stored[number].sequence
            before = last.get(number.group, -1)
            if sequence <= before:
                found.append(f"{self.name}: {number} has sequence {sequence} after {before}")
            last[number.group] = sequence
        return found

    def _order(self) -> list[str]:
        deleted_from: dict[Number, float] = {}
        for each in self.deletions:
            first = deleted_from.get(each.number, each.sent_at)
            deleted_from[each.number] = min(first, each.sent_at)
        found = []
        # Below `done`, everything was deleted before the answers that are still to be looked at.
        done: dict[str, int] = {}
        for answer in sorted(self.answers, key=lambda each: each.came_at):
            here: set[Number] = set()
            for number in answer.numbers:
                n = done.get(number.group, 0)
                while deleted_from.get(Number(number.group, n), answer.came_at) < answer.came_at:
                    n += 1
                done[number.group] = n
                for m in range(n, number.n):
                    earlier = Number(number.group, m)
                    is_deleted = deleted_from.get(earlier, answer.came_at) < answer.came_at
                    if not is_deleted and earlier not in here:
                        found.append(f"{self.name}: {number} came before {earlier} was done with")
                        break
                here.add(number)
        return found

    def _returned(self) -> list[str]:
        ended: dict[Number, float] = {}
        for each in self.deletions:
            if each.answered_at is not None:
                ended[each.number] = min(ended.get(each.number, each.answered_at), each.answered_at)
        return [
            f"{self.name}: {number} returned {answer.asked_at - ended[number]:.2f} s after its end"
            for answer in self.answers
            for number in answer.numbers
            if number in ended and answer.asked_at > ended[number]
        ]

    def figures(self) -> dict[str, object]:
        return {
            "stored": len(self.stored),
            "sent again under the same id": self.repeated_count,
            "deliveries": sum(len(each.numbers) for each in self.answers),
            "deleted": sum(each.answered_at is not None for each in self.deletions),
            "deletions without an answer": sum(e.answered_at is None for e in self.deletions),
        }
