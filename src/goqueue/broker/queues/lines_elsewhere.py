"""Waiting for messages of queues that other brokers lead.

For all readers here of some queues there is one wait at their leader. It leases nothing, and is
forgotten with the last reader. The leader answers it whatever happens in these queues: it wakes the
first of its own line and every broker that waits, and each broker wakes the first of its line. So
no message depends on whether a broker that was woken comes; the price is that each broker with
waiting readers asks for it, and all but one in vain. To wake one broker after another would save
these questions, and need a time after which one that does not come is passed over.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

import msgspec

from goqueue.broker.calls.calls import CALL_TIMEOUT_S, Calls
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.queues.waiting import LedQueue, QueueLines, QueuesElsewhere
from goqueue.model.calls import Method
from goqueue.model.errors import GoQueueError
from goqueue.model.names import topic_partition
from goqueue.model.queues.messages import QueueKey
from goqueue.model.rights import ReadableGroup, ReadableTopic

# One wait of many; below the time after which a call has failed.
WAIT_S: Final = CALL_TIMEOUT_S - 10
# Until a leader is asked again that did not answer.
AGAIN_S: Final = 0.2


class WaitForMessages(msgspec.Struct, frozen=True):
    group: ReadableGroup
    topic: ReadableTopic
    indexes: list[int]


# Whether there may be something; after a while without, it is to be asked again.
WAIT: Final = Method("queues.wait", WaitForMessages, bool, waits=True)


class _Wait:
    __slots__ = ("readers", "task", "wakes")

    def __init__(self, task: "asyncio.Task[None]") -> None:
        self.task = task
        self.readers = 0
        self.wakes = 0


class LinesElsewhere:
    def __init__(self, host: QueueHost, lines: QueueLines) -> None:
        self._host = host
        self._calls: Calls = host.calls
        self._lines = lines
        self._waits: dict[QueuesElsewhere, _Wait] = {}
        self._calls.serve(WAIT, self._wait_here)

    # --- of readers here ------------------------------------------------------------------

    def join(self, queues: QueuesElsewhere) -> None:
        """Have somebody wait there from the next turn of the event loop on."""
        wait = self._waits.get(queues)
        if wait is None:
            task = asyncio.create_task(self._keep_waiting(queues))
            wait = self._waits[queues] = _Wait(task)
        wait.readers += 1

    def leave(self, all_queues: Iterable[QueuesElsewhere]) -> None:
        for queues in all_queues:
            wait = self._waits[queues]
            wait.readers -= 1
            if not wait.readers:
                del self._waits[queues]
                wait.task.cancel()

    def wakes(self, queues: QueuesElsewhere) -> int:
        """How often something happened there. While it stays, there is nothing new."""
        return self._waits[queues].wakes

    async def _keep_waiting(self, queues: QueuesElsewhere) -> None:
        place = topic_partition(queues.topic, queues.indexes[0])
        request = WaitForMessages(queues.group, queues.topic, list(queues.indexes))
        has_failed = False
        while True:
            if has_failed:
                # Nobody waited there for a while.
                self._happened(queues, to_everyone=True)
            try:
                # Sent in this turn of the loop, before those who were woken ask on the same
                # connection. Calls begin in the order in which they were sent: whatever comes
                # after the look of one of these ends this wait.
                may_be_something = await self._calls.ask(WAIT, place, request, patience_s=0)
            except GoQueueError:
                # Perhaps another one leads them now.
                has_failed = True
                self._happened(queues, to_everyone=True)
                await asyncio.sleep(AGAIN_S)
                continue
            has_failed = False
            if may_be_something:
                self._happened(queues)

    def _happened(self, queues: QueuesElsewhere, *, to_everyone: bool = False) -> None:
        self._waits[queues].wakes += 1
        (self._lines.wake_everyone if to_everyone else self._lines.wake)(queues)

    # --- of readers of other brokers ------------------------------------------------------

    async def _wait_here(self, request: WaitForMessages) -> bool:
        topic_id = self._host.topic(request.topic).id
        led: list[LedQueue] = [
            (
                QueueKey(request.group, topic_id, index),
                self._host.partition(request.topic, index),
            )
            for index in request.indexes
        ]
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + WAIT_S
        with self._lines.place(led, in_line=False) as place:
            await place.wait(WAIT_S)
        return loop.time() < give_up_at
