"""Receiving from a topic whose partitions are led by several brokers.

What is led here is looked at first, then the other leaders are asked in turn; the first that has
something ends it. While there is nothing, the reader waits at all of them (`QueueLines`,
`LinesElsewhere`) and asks those where something happened. A partition without a leader is left out:
it is looked for again from time to time, but nobody waits for it alone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

import msgspec

from goqueue.broker.calls.calls import LATE_MAX_S, LEADER_PATIENCE_S, Untouched
from goqueue.broker.calls.passing import PASSING
from goqueue.broker.queues.host import QueueHost
from goqueue.broker.queues.lines_elsewhere import LinesElsewhere
from goqueue.broker.queues.receiving import QueueReceiving, Sweep, Work
from goqueue.broker.queues.registry import QueueRegistry
from goqueue.broker.queues.waiting import LedQueue, LineKey, QueueLines, QueuesElsewhere, Watched
from goqueue.eager import to_the_end
from goqueue.model.calls import Method
from goqueue.model.errors import (
    GoQueueError,
    NotLeader,
    RequestTimedOut,
    TooManyInFlight,
)
from goqueue.model.names import NO_LEADER, NodeId, topic_partition
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.messages import QueueKey
from goqueue.model.queues.receiving import Receive
from goqueue.model.rights import ReadableGroup, ReadableTopic

# What a leader gets at least to answer, also after another one took the reader's time.
ANSWER_MIN_S: Final = 1.0
# How long others are waited for while some partitions have no leader that can be asked.
LOOK_AGAIN_S: Final = 0.2
# One receive of so many asks the others first: what they lead would otherwise wait for as long as
# there is something here.
OTHERS_FIRST_EVERY: Final = 4


class ReceiveMessages(msgspec.Struct, frozen=True):
    """What a reader asks for; of the queues of these partitions, as far as they are led there."""

    group: ReadableGroup
    topic: ReadableTopic
    indexes: list[int]
    request: Receive


class Received(msgspec.Struct, frozen=True):
    found: list[Delivery]
    # The reader has all it may have of some of these queues: others may get more of them.
    is_full: bool = False
    # It came to the end of what one receive may do.
    is_done: bool = False
    # How many messages are in flight, if nobody gets more because of it.
    full_at: int | None = None
    # How many partitions could not be looked into.
    left_out: int = 0


RECEIVE: Final = Method("queues.receive", ReceiveMessages, Received)

Release = Callable[[ReadableGroup, ReadableTopic, Sequence[Delivery]], Awaitable[object]]


class _Places(NamedTuple):
    """Who leads the partitions of a topic, and why some of them cannot be asked."""

    group: ReadableGroup
    topic: ReadableTopic
    here: list[LedQueue]
    elsewhere: list[QueuesElsewhere]
    failure: GoQueueError | None

    @property
    def watched(self) -> Watched:
        if not self.elsewhere:
            return self.here
        return [*self.here, *((queues, None) for queues in self.elsewhere)]


class _Look:
    """What a look at all leaders brought."""

    __slots__ = ("failed", "failure", "found", "full", "full_at", "idle", "is_done", "looked")

    def __init__(self, failure: GoQueueError | None) -> None:
        self.found: list[Delivery] = []
        # Nothing was there for anybody; the reader has as much as it may have. As in `Sweep`.
        self.idle: set[LineKey] = set()
        self.full: set[LineKey] = set()
        self.is_done = False
        # How many partitions could be looked into, and why others could not.
        self.looked = 0
        self.failure = failure
        self.failed: set[LineKey] = set()
        # What other leaders said of it; see `Received`.
        self.full_at: list[int | None] = []

    @property
    def is_over(self) -> bool:
        return bool(self.found) or self.is_done

    def take(self, sweep: Sweep) -> None:
        self.found = sweep.found
        self.idle |= sweep.idle
        self.full |= sweep.full
        self.looked += sweep.looked
        self.is_done = self.is_done or sweep.work.is_done
        self.failure = sweep.failure or self.failure
        self.failed |= sweep.failed


class _Reader:
    """Where one reader stands in line elsewhere, and what it knows of these places.

    `answer_by` is when it must be answered, in seconds of the event loop.
    """

    def __init__(self, lines: LinesElsewhere, answer_by: float) -> None:
        self._lines = lines
        self.answer_by = answer_by
        # Leaders that did not answer in time, and how often something had happened there by then.
        self._silent: dict[QueuesElsewhere, tuple[int, RequestTimedOut]] = {}
        # How often something had happened there when its leader was last asked.
        self._asked: dict[QueuesElsewhere, int] = {}
        self._is_gone = False

    async def join(self, elsewhere: Sequence[QueuesElsewhere]) -> None:
        if self._is_gone:
            return
        new = [queues for queues in elsewhere if queues not in self._asked]
        for queues in new:
            self._lines.join(queues)
            self._asked[queues] = -1
        if new:
            # The waits go out before this one asks; see `LinesElsewhere`.
            await asyncio.sleep(0)

    def wakes(self, queues: QueuesElsewhere) -> int:
        return self._lines.wakes(queues) if queues in self._asked else -1

    def knows(self, queues: QueuesElsewhere) -> bool:
        """Nothing has happened there since it was asked."""
        return queues in self._asked and self._asked[queues] == self._lines.wakes(queues)

    def asked(self, queues: QueuesElsewhere, wakes: int) -> None:
        if queues in self._asked:
            self._asked[queues] = wakes

    def silent(self, queues: QueuesElsewhere, wakes: int, error: RequestTimedOut) -> None:
        """It is not asked again before something is heard of it: others may have messages."""
        self._silent[queues] = (wakes, error)

    def silence_of(self, queues: QueuesElsewhere) -> RequestTimedOut | None:
        wakes, error = self._silent.get(queues, (0, None))
        return error if error is not None and wakes == self.wakes(queues) else None

    def leave(self) -> None:
        self._is_gone = True
        self._lines.leave(self._asked)
        self._asked.clear()


class ReceivingAnywhere:
    def __init__(
        self,
        host: QueueHost,
        registry: QueueRegistry,
        receiving: QueueReceiving,
        lines: QueueLines,
        release: Release,
    ) -> None:
        """`release` gives messages back that nobody gets."""
        self._host = host
        self._registry = registry
        self._receiving = receiving
        self._lines = lines
        self._release = release
        self._elsewhere = LinesElsewhere(host, lines)
        self._turn = 0
        self._others_turn = 0
        host.calls.serve(RECEIVE, self._receive_here)

    async def receive(
        self, group: ReadableGroup, topic: ReadableTopic, request: Receive
    ) -> list[Delivery]:
        """Lease messages of any partition and read them; waits until there is at least one."""
        if request.start is not None and not self._host.is_alone:
            await self._registry.open_elsewhere(
                group,
                topic,
                start=request.start,
                administers_cluster=request.administers_cluster,
            )
        now = asyncio.get_running_loop().time()
        reader = _Reader(self._elsewhere, now + request.wait_ms / 1000 + LATE_MAX_S)
        try:
            return await self._receive(group, topic, request, reader)
        finally:
            reader.leave()

    async def _receive(
        self, group: ReadableGroup, topic: ReadableTopic, request: Receive, reader: _Reader
    ) -> list[Delivery]:
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        give_up_at = began_at + request.wait_ms / 1000
        work = Work(request, loop.time)
        while True:
            places = await self._open_places(group, topic, request)
            watched = places.watched
            with self._lines.place(watched) as place:
                look = await self._look_to_the_end(places, work, request, reader)
                place.looked(_seen(watched, look), full=look.full)
                if look.is_over:
                    return look.found
                now = loop.time()
                wait_s = give_up_at - now
                if look.failure is not None:
                    may_pass = self._may_pass(look.failure)
                    if look.failed and not may_pass:
                        raise look.failure
                    if not look.looked or request.until_empty:
                        # An empty answer would not be true.
                        wait_s = max(wait_s, began_at + LEADER_PATIENCE_S - now)
                        if not may_pass or wait_s <= 0:
                            raise look.failure
                    if may_pass:
                        wait_s = min(wait_s, LOOK_AGAIN_S)
                        # Others could not look there either.
                        look.idle |= look.failed
                        place.looked(_seen(watched, look), full=look.full)
                if wait_s <= 0:
                    if request.refuses_when_full:
                        await self._refuse_if_full(places, look)
                    return []
                await place.wait(wait_s)
                work.begin()

    def _may_pass(self, failure: GoQueueError) -> bool:
        """Where others may lead, or this node alone soon enough."""
        return isinstance(failure, PASSING) and not self._host.is_alone

    async def _refuse_if_full(self, places: _Places, look: _Look) -> None:
        limits = look.full_at
        if places.here:
            limits = [*limits, await self._registry.full_at([key for key, _ in places.here])]
        known = [limit for limit in limits if limit is not None]
        if look.failure is None and len(known) == len(limits):
            raise TooManyInFlight(
                f"The maximum number of in flight messages is reached: {sum(known)}."
            )

    # --- looking --------------------------------------------------------------------------

    async def _open_places(
        self, group: ReadableGroup, topic: ReadableTopic, request: Receive
    ) -> _Places:
        try:
            await self._registry.open_as_asked(
                group,
                topic,
                start=request.start,
                administers_cluster=request.administers_cluster,
            )
        except GoQueueError as error:
            if not self._may_pass(error):
                raise
            places = self._places(group, topic)
            here = [queue for queue in places.here if self._registry.is_open(queue[0])]
            return places._replace(here=here, failure=error)
        return self._places(group, topic)

    def _places(self, group: ReadableGroup, topic: ReadableTopic) -> _Places:
        view = self._host.topic(topic)
        here: list[LedQueue] = []
        by_leader: dict[NodeId, list[int]] = {}
        failure: GoQueueError | None = None
        for part in view.partitions:
            leader = part.leader
            if leader == self._host.node_id:
                try:
                    partition = self._host.partition(topic, part.index)
                    partition.check_online()
                    here.append((QueueKey(group, view.id, part.index), partition))
                except GoQueueError as error:
                    failure = error
            elif leader == NO_LEADER:
                failure = NotLeader(f"{topic}-{part.index} has no leader just now")
            else:
                by_leader.setdefault(leader, []).append(part.index)
        elsewhere = [
            QueuesElsewhere(group, topic, leader, tuple(indexes))
            for leader, indexes in by_leader.items()
        ]
        return _Places(group, topic, here, elsewhere, failure)

    async def _look_to_the_end(
        self, places: _Places, work: Work, request: Receive, reader: _Reader
    ) -> _Look:
        """A lease takes time, where others must have it or a message is read from disk: what it
        brings for a reader that has gone meanwhile is given back."""
        return await to_the_end(
            self._look(places, work, request, reader),
            lambda looking: self._registry.spawn(self._give_back(places, looking)),
        )

    async def _give_back(self, places: _Places, looking: "asyncio.Task[_Look]") -> None:
        with suppress(GoQueueError):
            look = await looking
            if look.found:
                await self._release(places.group, places.topic, look.found)

    async def _look(self, places: _Places, work: Work, request: Receive, reader: _Reader) -> _Look:
        look = _Look(places.failure)
        self._turn += 1
        others_first = bool(places.elsewhere) and self._turn % OTHERS_FIRST_EVERY == 0
        if places.here and not others_first:
            look.take(await self._sweep(places.here, work, request))
        if places.elsewhere and not look.is_over:
            await self._ask_others(places.elsewhere, look, request, reader)
        if places.here and others_first and not look.is_over:
            look.take(await self._sweep(places.here, work, request))
        return look

    async def _sweep(self, queues: Sequence[LedQueue], work: Work, request: Receive) -> Sweep:
        """What is led here, until there is something or nothing is left to be passed over."""
        while True:
            sweep = await self._receiving.sweep(queues, work, request)
            if sweep.found or work.is_done or not sweep.has_passed_over:
                return sweep

    async def _ask_others(
        self,
        elsewhere: Sequence[QueuesElsewhere],
        look: _Look,
        request: Receive,
        reader: _Reader,
    ) -> None:
        """One after another, for each may lease something; beginning with another one each time."""
        if request.wait_ms:
            await reader.join(elsewhere)
        self._others_turn += 1
        first = self._others_turn % len(elsewhere)
        for queues in (*elsewhere[first:], *elsewhere[:first]):
            if reader.knows(queues):
                look.looked += len(queues.indexes)
                look.idle.add(queues)
                continue
            wakes = reader.wakes(queues)
            try:
                silence = reader.silence_of(queues)
                if silence is not None:
                    raise silence.with_traceback(None)
                received = await self._ask(queues, request, reader.answer_by)
            except GoQueueError as error:
                if isinstance(error, RequestTimedOut):
                    reader.silent(queues, wakes, error)
                look.failure = error
                look.failed.add(queues)
                continue
            look.looked += len(queues.indexes) - received.left_out
            if received.left_out:
                look.failure = NotLeader(
                    f"{received.left_out} partitions of {queues.topic} have no leader just now"
                )
            else:
                reader.asked(queues, wakes)
            look.found = received.found
            if look.found:
                return
            look.full_at.append(received.full_at)
            look.is_done = look.is_done or received.is_done
            (look.full if received.is_full else look.idle).add(queues)

    async def _ask(self, queues: QueuesElsewhere, request: Receive, answer_by: float) -> Received:
        left_s = answer_by - asyncio.get_running_loop().time()
        asked = ReceiveMessages(
            queues.group, queues.topic, list(queues.indexes), replace(request, wait_ms=0)
        )
        return await self._host.calls.ask(
            RECEIVE,
            topic_partition(queues.topic, queues.indexes[0]),
            asked,
            timeout_s=min(max(left_s, ANSWER_MIN_S), LATE_MAX_S),
            patience_s=0,
        )

    # --- at another leader ----------------------------------------------------------------

    async def _receive_here(self, asked: ReceiveMessages) -> Received:
        group, topic, request = asked.group, asked.topic, asked.request
        places = await self._open_places(group, topic, request)
        wanted = set(asked.indexes)
        here = [(key, partition) for key, partition in places.here if key.partition in wanted]
        if not here:
            raise Untouched(places.failure or NotLeader(f"{topic} is not led by this broker"))
        work = Work(request, asyncio.get_running_loop().time)
        with self._lines.place(here) as place:
            sweep = await self._sweep(here, work, request)
            place.looked([key for key, _ in here if key not in sweep.idle], full=sweep.full)
        if sweep.failure is not None and not sweep.found and not self._may_pass(sweep.failure):
            raise sweep.failure
        full_at = None
        if request.refuses_when_full and not sweep.found:
            full_at = await self._registry.full_at([key for key, _ in here])
        return Received(
            sweep.found,
            is_full=bool(sweep.full),
            is_done=work.is_done,
            full_at=full_at,
            left_out=0 if sweep.found else len(wanted) - sweep.looked,
        )


def _seen(watched: Watched, look: _Look) -> list[LineKey]:
    """Where there is something for somebody, or nobody looked."""
    return [key for key, _ in watched if key not in look.idle]
