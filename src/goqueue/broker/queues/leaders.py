"""Asking all leaders of a topic, each for the partitions that it leads."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from goqueue.broker.calls.calls import GATHER_TIMEOUT_S, LEADER_PATIENCE_S
from goqueue.broker.calls.passing import PASSING
from goqueue.broker.queues.host import QueueHost
from goqueue.model.calls import Method
from goqueue.model.errors import (
    GoQueueError,
    NotLeader,
)
from goqueue.model.names import NO_LEADER, NodeId, topic_partition

Q = TypeVar("Q")
R = TypeVar("R")

# Between two looks for leaders, where nothing is heard of any.
LOOK_S: Final = 0.1


async def ask_leaders(
    host: QueueHost,
    method: Method[Q, list[R]],
    topic: str,
    request: Callable[[list[int]], Q],
    *,
    index_of: Callable[[R], int],
) -> dict[int, R]:
    """What each partition's leader says of it, by partition; an error if one cannot be asked.

    A leader may answer for less than it was asked for: the rest is looked for again, for as long as
    a leader is waited for. So `method` must be one that may be repeated.
    """
    found: dict[int, R] = {}
    wanted = [part.index for part in host.topic(topic).partitions]
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + LEADER_PATIENCE_S
    while True:
        by_leader = _by_leader(host, topic, (index for index in wanted if index not in found))
        if not by_leader:
            return {index: found[index] for index in wanted}
        failure: GoQueueError = NotLeader(f"{topic} has partitions without a leader just now")
        asked = [
            host.calls.ask(
                method,
                topic_partition(topic, indexes[0]),
                request(indexes),
                timeout_s=GATHER_TIMEOUT_S,
                patience_s=0,
            )
            for leader, indexes in by_leader.items()
            if leader != NO_LEADER
        ]
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, PASSING):
                failure = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found.update((index_of(each), each) for each in answer)
        if len(found) < len(wanted):
            if loop.time() >= give_up_at:
                raise failure
            await host.calls.until_changed(LOOK_S)


def _by_leader(host: QueueHost, topic: str, indexes: Iterable[int]) -> dict[NodeId, list[int]]:
    partitions = host.topic(topic).partitions
    by_leader: dict[NodeId, list[int]] = {}
    for index in indexes:
        by_leader.setdefault(partitions[index].leader, []).append(index)
    return by_leader
