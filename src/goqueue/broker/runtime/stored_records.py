"""Records that an earlier run wrote, on their way back into a state machine."""

from collections.abc import Iterator
from contextlib import contextmanager

from goqueue.model.errors import CorruptBatch


class Overtaken(Exception):
    """Records that come next were compacted away before they were replayed: what led from one
    state to the other is missing. Who replays them must begin with what is there."""


@contextmanager
def making_sense() -> Iterator[None]:
    """Whatever goes wrong in replaying stored records becomes `CorruptBatch`.

    Their checksums were right, so these are the bytes that were written. If they make no sense all
    the same, a newer release wrote them, or one with a fault. That costs their shard, which goes
    offline, and not the broker.
    """
    try:
        yield
    except (CorruptBatch, Overtaken):
        raise
    except Exception as error:
        raise CorruptBatch(f"a record makes no sense: {type(error).__name__}: {error}") from error
