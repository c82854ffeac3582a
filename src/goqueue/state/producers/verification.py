"""Guards against hanging transactions (KIP-890, part 1).

Before the first transactional batch of a producer, the partition asks the coordinator whether it
is part of the transaction. A marker may be written while the answer is on its way; the guard given
out with the question is then gone, and the late batch is refused instead of opening a transaction
that nobody would ever end.
"""

from typing import Final

# The producer's transaction is open here already: no question to the coordinator is needed.
ALREADY_ONGOING: Final = 0


class Verification:
    __slots__ = ("bumps_epoch", "epoch", "guard", "lowest_sequence", "started_ms")

    def __init__(
        self, *, guard: int, epoch: int, sequence: int, bumps_epoch: bool, now_ms: int
    ) -> None:
        self.guard = guard
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.bumps_epoch = bumps_epoch
        self.started_ms = now_ms


class Verifications:
    """The open questions of one partition, by producer id."""

    __slots__ = ("_by_producer", "_last_guard")

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}
        self._last_guard = ALREADY_ONGOING

    def __len__(self) -> int:
        return len(self._by_producer)

    def get(self, producer_id: int) -> Verification | None:
        return self._by_producer.get(producer_id)

    def start(
        self, producer_id: int, *, epoch: int, sequence: int, bumps_epoch: bool, now_ms: int
    ) -> int:
        """Return the guard for this producer's first batch; concurrent askers share one."""
        open_one = self._by_producer.get(producer_id)
        if open_one is None or epoch > open_one.epoch:
            guard = open_one.guard if open_one is not None else self._new_guard()
            self._by_producer[producer_id] = Verification(
                guard=guard, epoch=epoch, sequence=sequence, bumps_epoch=bumps_epoch, now_ms=now_ms
            )
            return guard
        if epoch == open_one.epoch:
            # The lowest sequence asked for is the one that must be written first.
            open_one.lowest_sequence = min(open_one.lowest_sequence, sequence)
        return open_one.guard

    def _new_guard(self) -> int:
        self._last_guard += 1
        return self._last_guard

    def end(self, producer_id: int) -> None:
        self._by_producer.pop(producer_id, None)

    def clear(self) -> None:
        self._by_producer.clear()

    def expire(self, started_before_ms: int) -> None:
        stale = [p for p, v in self._by_producer.items() if v.started_ms <= started_before_ms]
        for producer_id in stale:
            del self._by_producer[producer_id]
