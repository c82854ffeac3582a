"""Fetches what this broker follows from one leader: one connection, one session, one after another.

Copies that are added by a move, and have not caught up yet, have a fetcher of their own for each
leader: nobody waits for them, and what others wait for must not share their requests.

The leader keeps a request waiting until something was appended. What came is appended here, and the
next request says how far this broker got. If something else is to be asked meanwhile, the next
request is sent behind the waiting one, which the leader then answers at once.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from goqueue.broker.background import ended
from goqueue.broker.partitions.copied_batches import Copied
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.replication.copies import RETRY_MAX_S, RETRY_MIN_S, Copy, CopyKey, key_of
from goqueue.broker.replication.throttling import Throttles
from goqueue.client.frame_link import FrameLink
from goqueue.client.replica_fetch import (
    AnsweredPart,
    AskedPart,
    ReplicaRequest,
    read_replica_answer,
    replica_frame,
)
from goqueue.model.client_security import SecurityOf, no_security
from goqueue.model.errors import BrokerUnreachable, GoQueueError, PartitionOffline
from goqueue.model.names import NodeId
from goqueue.model.replication import Member
from goqueue.model.security.errors import AuthenticationFailed, not_let_in
from goqueue.state.replication.following import (
    Append,
    BelowStart,
    Diverging,
    EpochEnd,
    FetchQuestion,
    Halt,
    Step,
)

logger = logging.getLogger(__name__)

# On top of what the leader is asked to wait at most.
ANSWER_SECONDS: Final = 5.0
# The second is there to make the leader answer the first.
REQUESTS_IN_FLIGHT: Final = 2
FIRST_SESSION_EPOCH: Final = 0
SESSION_EPOCH_MAX: Final = 2**31 - 1

Address = tuple[str, int]


class FetchLimits(NamedTuple):
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    part_max_bytes: int


class Fetcher:
    def __init__(
        self,
        leader: NodeId,
        *,
        address: Callable[[NodeId], Address | None],
        me: Callable[[], Member | None],
        limits: FetchLimits,
        throttles: Throttles,
        caught_up: Callable[[HostedPartition], None] | None = None,
        security: SecurityOf = no_security,
    ) -> None:
        """`me` is None while this broker may not follow, `address` while the leader is away.

        `caught_up`: of a fetcher for moves; it is told which of them have all that is committed.
        """
        self._leader = leader
        self._security = security
        self._caught_up = caught_up
        self._address = address
        self._me = me
        self._limits = limits
        self._throttles = throttles
        self._copies: dict[CopyKey, Copy] = {}
        self._has_copies = asyncio.Event()
        self._session: _Session | None = None
        self._noted = ""
        self._task = asyncio.create_task(self._run(), name=f"fetch from broker {leader}")

    def __len__(self) -> int:
        return len(self._copies)

    def follow(self, partition: HostedPartition) -> None:
        """Also again, when it follows the same leader under another epoch."""
        key = key_of(partition)
        copy = self._copies.get(key)
        if copy is None or copy.partition is not partition:
            copy = self._copies[key] = Copy(partition)
            self._has_copies.set()
        if self._session is not None:
            self._session.changed(copy)

    def unfollow(self, partition: HostedPartition) -> None:
        copy = self._copies.pop(key_of(partition), None)
        if copy is not None and self._session is not None:
            self._session.forget(copy)
        if not self._copies:
            self._has_copies.clear()

    async def close(self) -> None:
        await ended(self._task)

    async def _run(self) -> None:
        failures = 0
        while True:
            await self._has_copies.wait()
            me, address = self._me(), self._address(self._leader)
            if me is not None and address is not None:
                try:
                    await self._fetch(address, me)
                    failures = 0
                    continue
                except (BrokerUnreachable, TimeoutError) as error:
                    self._note(error)
                except Exception:
                    logger.exception("fetching from broker %d failed; tried again", self._leader)
            await asyncio.sleep(min(RETRY_MAX_S, RETRY_MIN_S * 2**failures))
            failures = min(failures + 1, 8)

    async def _fetch(self, address: Address, me: Member) -> None:
        try:
            link = await FrameLink.open(*address, self._security(*address))
        except AuthenticationFailed as error:
            raise not_let_in(address, error) from error
        self._session = _Session(
            link,
            me,
            self._copies,
            self._limits,
            self._throttles,
            is_over=lambda: self._me() != me,
            caught_up=self._caught_up,
        )
        try:
            self._noted = ""
            while self._copies and await self._session.turn():
                pass
        finally:
            self._session.end()
            self._session = None
            link.close()

    def _note(self, error: Exception) -> None:
        """Once, not every half second."""
        if str(error) != self._noted:
            self._noted = str(error)
            logger.warning("nothing is copied from broker %d: %s", self._leader, error)


class _Session:
    """As long as one connection lasts."""

    def __init__(
        self,
        link: FrameLink,
        me: Member,
        copies: dict[CopyKey, Copy],
        limits: FetchLimits,
        throttles: Throttles,
        *,
        is_over: Callable[[], bool],
        caught_up: Callable[[HostedPartition], None] | None,
    ) -> None:
        """`is_over`: this broker is registered anew, and what it asks as `me` counts no more."""
        self._is_over = is_over
        self._caught_up = caught_up
        self._throttles = throttles
        self._link = link
        self._me = me
        self._copies = copies
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._id = 0
        self._epoch = FIRST_SESSION_EPOCH
        self._number = 0
        self._in_flight: deque[int] = deque()
        self._changed: dict[CopyKey, Copy] = dict(copies)
        self._forgotten: dict[CopyKey, None] = {}
        # Of partitions that the leader could not serve, when they are asked for again.
        self._retries: dict[CopyKey, asyncio.TimerHandle] = {}
        self._news = asyncio.Event()
        self._is_hurrying = False

    # --- what is followed -----------------------------------------------------------------

    def changed(self, copy: Copy) -> None:
        """It is to be asked for, or for something else than before."""
        retry = self._retries.pop(copy.key, None)
        if retry is not None:
            retry.cancel()
        self._changed[copy.key] = copy
        self._news.set()
        if self._in_flight and not self._is_hurrying:
            # All that changes in this turn of the loop goes with one request.
            self._is_hurrying = True
            self._loop.call_soon(self._hurry)

    def forget(self, copy: Copy) -> None:
        self._changed.pop(copy.key, None)
        if copy.is_asked:
            copy.take_back()
            self._forgotten[copy.key] = None

    def end(self) -> None:
        for retry in self._retries.values():
            retry.cancel()
        for copy in self._copies.values():
            copy.take_back()

    def _retry(self, copy: Copy) -> None:
        """Not now: take it out of the session, which would be answered at once for ever."""
        self.forget(copy)
        if copy.key not in self._retries:
            self._retries[copy.key] = self._loop.call_later(copy.retry_s, self._ask_again, copy)
        copy.failures += 1

    def _ask_again(self, copy: Copy) -> None:
        self._retries.pop(copy.key, None)
        if self._copies.get(copy.key) is copy:
            self.changed(copy)

    # --- asking ---------------------------------------------------------------------------

    def _hurry(self) -> None:
        self._is_hurrying = False
        if self._changed and 0 < len(self._in_flight) < REQUESTS_IN_FLIGHT and self._id:
            self._send()

    def _send(self) -> bool:
        """False if there is nothing to ask for."""
        self._news.clear()
        number = self._number + 1
        changed, self._changed = self._changed, {}
        asked = [
            part for copy in changed.values() if (part := self._asked(copy, number)) is not None
        ]
        if not asked and not any(copy.is_asked for copy in self._copies.values()):
            return False
        limits = self._limits
        request = ReplicaRequest(
            node_id=self._me.node,
            broker_epoch=self._me.broker_epoch,
            session_id=self._id,
            session_epoch=self._epoch,
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            part_max_bytes=limits.part_max_bytes,
            asked=asked,
            forgotten=list(self._forgotten) if self._id else (),
        )
        self._forgotten.clear()
        self._number = number
        self._epoch = self._epoch + 1 if self._epoch < SESSION_EPOCH_MAX else 1
        self._in_flight.append(number)
        self._link.send(replica_frame(request, number))
        return True

    def _asked(self, copy: Copy, number: int) -> AskedPart | None:
        question = copy.partition.question()
        if (
            question is None
            or question.broker_epoch != self._me.broker_epoch
            or self._throttles.holds_back(copy.partition)
            or (
                self._caught_up is not None
                and self._throttles.holds_back_move(copy.partition, is_behind=copy.is_behind)
            )
        ):
            self._retry(copy)
            return None
        if copy.is_answered_by(question):
            return None
        copy.ask(number, question)
        self._forgotten.pop(copy.key, None)
        return AskedPart(
            copy.key,
            question.leader_epoch,
            question.offset,
            question.last_epoch,
            copy.partition.log_start_offset,
        )

    # --- being answered -------------------------------------------------------------------

    async def turn(self) -> bool:
        """One answer; False if the session is over and another one is to be begun."""
        while not self._in_flight:
            if self._is_over() or not self._copies:
                return False
            if not self._send():
                await self._news.wait()
        async with asyncio.timeout(self._limits.max_wait_ms / 1_000 + ANSWER_SECONDS):
            frame = await self._link.receive()
        number = self._in_flight.popleft()
        answer = read_replica_answer(frame, number, self._link.address)
        if answer.error:
            logger.info("session with %s: %s", self._link.address, ErrorCode(answer.error).name)
            return False
        self._id = answer.session_id
        if not self._id:
            raise BrokerUnreachable(f"the broker at {self._link.address} keeps no sessions")
        slow: list[Coroutine[Any, Any, None]] = []
        for part in answer.parts:
            copy = self._copies.get(part.key)
            question = None if copy is None else copy.question_of(number)
            if copy is None or question is None:
                continue
            taking = self._take(copy, question, part)
            if copy.partition.config.fsync_policy == "always":
                slow.append(taking)
            else:
                await taking
        if slow:
            # They wait for the disk: together, and before the next request says that they have it.
            await asyncio.gather(*slow)
        return True

    async def _take(self, copy: Copy, question: FetchQuestion, part: AnsweredPart) -> None:
        try:
            step = await self._answered(copy, question, part)
        except PartitionOffline:
            # The partition has said so itself.
            self._retry(copy)
            return
        except GoQueueError as error:
            logger.warning("%s: what the leader sent is refused: %s", copy.partition.name, error)
            self._retry(copy)
            return
        if step is None or isinstance(step, Halt):
            self._retry(copy)
            return
        copy.failures = 0
        if self._caught_up is not None and isinstance(step, Append) and not copy.partition.lag:
            self._caught_up(copy.partition)
        if self._copies.get(part.key) is copy:
            self._changed[part.key] = copy

    async def _answered(
        self, copy: Copy, question: FetchQuestion, part: AnsweredPart
    ) -> Step | None:
        """None if the leader cannot serve it, at the moment or any more."""
        partition = copy.partition
        if part.error == ErrorCode.offset_out_of_range.value:
            return await partition.answered(question, BelowStart(part.log_start))
        if part.error:
            logger.debug("%s: %s", partition.name, ErrorCode(part.error).name)
            return None
        if part.diverging is not None:
            return await partition.answered(question, Diverging(EpochEnd(*part.diverging)))
        self._throttles.was_copied(partition, len(part.records))
        if self._caught_up is not None:
            size = len(part.records)
            self._throttles.was_moved(partition, size, is_behind=copy.is_behind)
        copied = Copied(part.records, part.high_watermark, part.log_start)
        step = await partition.answered(question, copied)
        if isinstance(step, Append):
            copy.begun()
        return step
