"""Stores the partitions of a topic in steps that are small enough for every metadata store.

The topic's own key comes last, in the step that makes everything true: partitions that no topic
speaks of are nobody's. Steps of two writers must not mix, so that whoever needs several first puts
its mark on the topic's name, and each step compares it. A later writer takes the mark over, and the
earlier one is refused: so the mark of a broker that died stops nobody.
"""

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from goqueue.metadata.store import (
    Compare,
    CompareOp,
    CompareTarget,
    Delete,
    Get,
    MetadataStore,
    Op,
    Put,
    TxnResult,
)
from goqueue.model.errors import GoQueueError
from goqueue.model.topics import PartitionView
from goqueue.state import metadata_keys as keys

# etcd takes 128 operations in a transaction, and as many comparisons.
STEP_OPERATIONS_MAX: Final = 120

T = TypeVar("T")


class ChangedPartition(NamedTuple):
    """A partition of this topic as it is to be; `view` has the revision that it was found at."""

    topic: str
    view: PartitionView


async def store_topic(
    store: MetadataStore,
    topic: str,
    partitions: Sequence[keys.Entry],
    value: keys.TopicValue,
    *,
    topic_is: Compare,
    also: Sequence[Compare] = (),
    level: Sequence[keys.Entry] = (),
) -> TxnResult:
    """Put `partitions` and then the topic, if `topic_is` holds all the time and `also` at the end.
    With the topic comes the feature level that it needs, if that rises.

    If not, the answer has the topic as it is instead.
    """
    puts: list[Op] = [Put(*entry) for entry in partitions]
    last = [Put(*keys.topic_entry(topic, value)), *(Put(*entry) for entry in level)]
    found = [Get(last[0].key)]
    if len(puts) < STEP_OPERATIONS_MAX:
        return await store.transact([topic_is, *also], [*puts, *last], found)
    mark = Put(keys.topic_writer_key(topic), uuid.uuid4().bytes)
    mine = Compare(mark.key, CompareTarget.VALUE, CompareOp.EQUAL, mark.value)
    done = await store.transact([topic_is], [mark], found)
    try:
        for step in _steps(puts):
            if not done.succeeded:
                return done
            done = await store.transact([topic_is, mine], step, found)
        if done.succeeded:
            ops: list[Op] = [*last, Delete(mark.key)]
            done = await store.transact([topic_is, mine, *also], ops, found)
        return done
    except BaseException:
        done = done._replace(succeeded=False)
        raise
    finally:
        if not done.succeeded:
            await _clean_up(store, [topic_is, mine], puts)


async def store_settings(
    store: MetadataStore,
    topic: str,
    value: keys.TopicValue,
    revision: int,
    changed: Sequence[ChangedPartition],
    *,
    also: Sequence[Compare],
    level: Sequence[keys.Entry] = (),
) -> TxnResult:
    """Put the states of partitions that follow from a topic's settings, and then the settings, with
    the feature level that they need, if that rises.

    Not done if the topic is not at `revision` any more, or one of the partitions not at its own, or
    `also` does not hold. Settings come last: no broker acts on them before every partition says
    what holds.
    """
    topic_is = Compare.unchanged(keys.topic_key(topic), revision)
    last = [Put(*keys.topic_entry(topic, value)), *(Put(*entry) for entry in level)]
    steps = list(_steps(changed)) or [()]
    for step in steps:
        puts = [Put(*keys.partition_entry(name, view.index, view.state)) for name, view in step]
        compares = [
            Compare.unchanged(put.key, view.revision)
            for put, (_, view) in zip(puts, step, strict=True)
        ]
        ops = [*puts, *last] if step is steps[-1] else puts
        done = await store.transact([topic_is, *also, *compares], ops)
        if not done.succeeded:
            break
    return done


async def _clean_up(store: MetadataStore, compares: Sequence[Compare], puts: Sequence[Op]) -> None:
    """Take back what was put, unless the topic or another writer speaks of it by now."""
    deletes: list[Op] = [Delete(op.key) for op in puts if isinstance(op, Put)]
    mark = compares[-1].key
    # Where the store is away, this stays until the topic is made again or deleted.
    with contextlib.suppress(GoQueueError):
        for step in _steps(deletes):
            await store.transact(compares, step)
        await store.transact(compares[-1:], [Delete(mark)])


def _steps(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), STEP_OPERATIONS_MAX):
        yield items[start : start + STEP_OPERATIONS_MAX]
