"""What readers of a queue were told, and whether all of it can be true together.

Values are unique. Times are of one clock. Held against the history at its end:

- unknown: a value was delivered that nobody sent;
- returned: a value was delivered to who asked after its acknowledgement was answered;
- acknowledged twice: two deliveries of a value were both taken as done;
- doubled: a value was sent once and is there at two places;
- lost: a value is stored by word of the broker, nobody acknowledged it, and it does not come.
"""

import threading
from collections import Counter
from collections.abc import Callable, Set
from dataclasses import dataclass, field


@dataclass(slots=True)
class Delivery:
    value: str
    # How often the value has been delivered by now, by word of the broker.
    count: int
    asked_at: float
    came_at: float
    place: object


@dataclass(slots=True)
class Acknowledgement:
    value: str
    # Of the delivery that it is about.
    count: int
    sent_at: float
    # None: nobody knows whether it counted.
    answered_at: float | None = None


Returns = Callable[[int, int], bool]
"""Whether a delivery count shows that a message came back after the acknowledged one."""


def always(acknowledged: int, delivered: int) -> bool:
    """An acknowledgement that is answered holds, and nothing is buffered by the client."""
    return True


def not_older(acknowledged: int, delivered: int) -> bool:
    """The client has buffers: what was delivered before may be shown later."""
    return delivered > acknowledged


def the_next(acknowledged: int, delivered: int) -> bool:
    """SQS: deleting with a receipt that is not the last one succeeds and deletes nothing."""
    return delivered == acknowledged + 1


@dataclass
class QueueHistory:
    """Of one group that reads one queue."""

    name: str
    returns: Returns = always
    deliveries: list[Delivery] = field(default_factory=list)
    acknowledgements: list[Acknowledgement] = field(default_factory=list)
    sent: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    # By value: acknowledgements that count, or may.
    _settled: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def was_stored(self, value: str) -> None:
        with self._lock:
            self.stored.add(value)

    def was_delivered(
        self, value: str, count: int, asked_at: float, came_at: float, place: object = None
    ) -> None:
        with self._lock:
            self.deliveries.append(Delivery(value, count, asked_at, came_at, place))

    def acknowledges(self, value: str, count: int, sent_at: float) -> Acknowledgement:
        """Before it is sent. `refused` and `answered_at` say what became of it."""
        made = Acknowledgement(value, count, sent_at)
        with self._lock:
            self.acknowledgements.append(made)
            self._settled[value] += 1
        return made

    def refused(self, acknowledgement: Acknowledgement) -> None:
        """It changed nothing: the value is to come again."""
        with self._lock:
            self.acknowledgements.remove(acknowledgement)
            self._settled[acknowledgement.value] -= 1

    def open_values(self) -> set[str]:
        """What is stored and must still come."""
        with self._lock:
            return {value for value in self.stored if not self._settled[value]}

    # --- whether it can be true -----------------------------------------------------------

    def violations(self, copied: Set[str] = frozenset()) -> list[str]:
        """`copied`: values that something else than their sender may have stored again."""
        found = self._unknown() + self._returned(copied) + self._lost()
        if self.returns is not the_next:
            found += self._acknowledged_twice(copied)
        return found + self._doubled(copied)

    def _unknown(self) -> list[str]:
        strange = {each.value for each in self.deliveries} - self.sent
        return [f"{self.name}: {value!r} was delivered, and never sent" for value in strange]

    def _returned(self, copied: Set[str]) -> list[str]:
        done: dict[str, Acknowledgement] = {}
        for each in self.acknowledgements:
            if each.answered_at is not None:
                done.setdefault(each.value, each)
        found = []
        for delivery in self.deliveries:
            end = done.get(delivery.value)
            if end is None or delivery.value in copied:
                continue
            assert end.answered_at is not None
            if delivery.asked_at > end.answered_at and self.returns(end.count, delivery.count):
                found.append(
                    f"{self.name}: {delivery.value!r} returned (delivery {delivery.count} after "
                    f"delivery {end.count} was acknowledged), at {delivery.place}: "
                    f"{self.story_of(delivery.value)}"
                )
        return found

    def _acknowledged_twice(self, copied: Set[str]) -> list[str]:
        counts: dict[str, set[int]] = {}
        for each in self.acknowledgements:
            if each.answered_at is not None:
                counts.setdefault(each.value, set()).add(each.count)
        return [
            f"{self.name}: {value!r} was acknowledged twice, by deliveries {sorted(found)}"
            for value, found in counts.items()
            if len(found) > 1 and value not in copied
        ]

    def _doubled(self, copied: Set[str]) -> list[str]:
        places: dict[str, set[object]] = {}
        for each in self.deliveries:
            if each.place is not None:
                places.setdefault(each.value, set()).add(each.place)
        return [
            f"{self.name}: {value!r} was sent once and is at {sorted(map(str, found))}"
            for value, found in places.items()
            if len(found) > 1 and value not in copied
        ]

    def _lost(self) -> list[str]:
        seen = {each.value for each in self.deliveries}
        return [
            f"{self.name}: {value!r} is lost: stored, not acknowledged, "
            + ("delivered before and not again" if value in seen else "never delivered")
            for value in sorted(self.open_values())
        ]

    def story_of(self, value: str) -> str:
        events = [
            (each.came_at, f"delivery {each.count}, asked for at {each.asked_at:.2f}")
            for each in self.deliveries
            if each.value == value
        ]
        for each in self.acknowledgements:
            if each.value == value:
                is_known = each.answered_at is not None
                how = "acknowledged" if is_known else "acknowledged, maybe"
                events.append((each.answered_at or each.sent_at, f"delivery {each.count} {how}"))
        return "; ".join(f"{at:.2f} {what}" for at, what in sorted(events))

    def figures(self) -> dict[str, object]:
        answered = [each for each in self.acknowledgements if each.answered_at is not None]
        return {
            "sent": len(self.sent),
            "stored": len(self.stored),
            "deliveries": len(self.deliveries),
            "delivered again": sum(each.count > 1 for each in self.deliveries),
            "acknowledged": len({each.value for each in answered}),
            "acknowledgements without an answer": len(self.acknowledgements) - len(answered),
        }
