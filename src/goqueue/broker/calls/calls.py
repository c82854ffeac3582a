"""Decides where something is done: here, or at the broker that leads what it is about.

Rooms say once what they can do for a partition (`serve`), and ask for it wherever it is led
(`ask`). A call goes one hop: a broker that does not lead the partition under the epoch that it is
asked with refuses, and has done nothing. Only then is another one asked. Whatever else goes wrong,
the call may have been carried out, so it is not repeated here, unless its method says that this
does no harm.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

import msgspec

from goqueue.broker.calls.counting import Asking, CallCounts, Serving
from goqueue.broker.calls.failures import error_of, failure_of
from goqueue.broker.calls.links import Links
from goqueue.broker.calls.passing import NOT_LED_YET, UNTIL_LED
from goqueue.broker.partitions.leading import LedPartitions
from goqueue.broker.tracing.recorder import CALLER
from goqueue.model.calls import Answer, Call, Failure, Method, Travels, Unanswered
from goqueue.model.client_security import SecurityOf, no_security
from goqueue.model.errors import (
    BrokerUnreachable,
    GoQueueError,
    InvalidRequest,
    NotLeader,
    Overloaded,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.model.measuring.figures import CallFigures
from goqueue.model.names import NO_LEADER, NodeId, TopicPartition, topic_partition
from goqueue.model.rights import ActingCluster
from goqueue.state.metadata_image import ImageChanges, MetadataImage

logger = logging.getLogger(__name__)

Q = TypeVar("Q")
R = TypeVar("R")
Run = Callable[[Q], Awaitable[R]]

# Longer than a leader waits for a commit.
CALL_TIMEOUT_S: Final = 35.0
# A leader that was killed is replaced within a second, one that hangs in four or five.
LEADER_PATIENCE_S: Final = 6.0
# For what waits on behalf of a client: the answer may come so much later than the client's time.
# Also the leader may have to wait, for a follower that hangs.
LATE_MAX_S: Final = 6.0
# Lists and figures leave out whoever takes longer.
GATHER_TIMEOUT_S: Final = 5.0
# Brokers hear of changes within some ms of each other, and need a second where those are large.
BEHIND_MAX_S: Final = 3.0
# Between two looks for a leader, where nothing is heard of one.
LOOK_S: Final = 0.1


def _packed(part: Any) -> Any:
    if isinstance(part, Travels):
        return part.packed()
    raise TypeError(f"{type(part).__name__} cannot be sent to another broker")


def _unpacked(kind: type, data: Any) -> Any:
    if issubclass(kind, Travels):
        return kind.unpacked(msgspec.convert(data, kind.form))
    raise TypeError(f"{kind.__name__} cannot come from another broker")


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_packed)
_CALL: Final = msgspec.msgpack.Decoder(Call)
_ANSWER: Final = msgspec.msgpack.Decoder(Answer)
_NOTHING: Final = msgspec.Raw(_ENCODER.encode(None))
# What decoding raises over bytes that are something else; for text that is not UTF-8, and for what
# is nested without end, msgspec has no error of its own.
_BAD_BYTES: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
# Of a call that is for the broker itself.
_NOWHERE: Final = topic_partition("", 0)


class Untouched(Exception):
    """Nothing was done, for this reason: another broker may be asked, or the same later.

    What runs for a call may raise it, too, while it has changed nothing.
    """

    def __init__(self, reason: GoQueueError) -> None:
        super().__init__(reason.message)
        self.reason = reason


@contextlib.contextmanager
def before_anything_is_done() -> Iterator[None]:
    """For a room that looks for what it needs: if it is not here now, the call is repeated."""
    try:
        yield
    except NOT_LED_YET as error:
        raise Untouched(error) from None


class Gathered(NamedTuple, Generic[R]):
    """What brokers answered, and why some did not. `missed` are down, and so many partitions wait
    for them: lists are without these."""

    answers: dict[NodeId, R]
    failures: dict[NodeId, GoQueueError]
    missed: Mapping[NodeId, int] = MappingProxyType({})

    @property
    def unanswered(self) -> list[Unanswered]:
        """As clients are told of them."""
        reasons = {node: error.message for node, error in self.failures.items()}
        for node, count in self.missed.items():
            reasons[node] = f"it is down, and nobody leads in its place: {count} partitions"
        return [Unanswered(node, reasons[node]) for node in sorted(reasons)]


class _Served(NamedTuple):
    method: Method[Any, Any]
    run: Run[Any, Any]
    decoder: msgspec.msgpack.Decoder[Any]


class ReadCall(NamedTuple):
    """A call that came in. `run` never fails: what goes wrong is part of the answer."""

    waits: bool
    run: Callable[[], Awaitable[bytes]]


class Calls:
    def __init__(
        self,
        node_id: NodeId,
        image: Callable[[], MetadataImage],
        led: LedPartitions,
        applied: Callable[[int], Awaitable[None]],
        security: SecurityOf = no_security,
    ) -> None:
        """`applied` waits until this broker acts on the metadata up to a revision."""
        self._node_id = node_id
        self._image = image
        self._led = led
        self._applied = applied
        self._served: dict[str, _Served] = {}
        self._answers: dict[str, msgspec.msgpack.Decoder[Any]] = {}
        self._links = Links(image, security)
        self._changed: asyncio.Event | None = None
        self._is_closed = False
        self.counts = CallCounts()

    def serve(self, method: Method[Q, R], run: Run[Q, R]) -> None:
        """What this broker does for partitions that it leads, whoever asks."""
        decoder: msgspec.msgpack.Decoder[Q] = msgspec.msgpack.Decoder(
            method.request, dec_hook=_unpacked
        )
        self._served[method.name] = _Served(method, run, decoder)

    # --- where ----------------------------------------------------------------------------

    def leader_of(self, place: TopicPartition) -> NodeId:
        """`NO_LEADER` while there is none."""
        return self._state(place)[0]

    def is_here(self, place: TopicPartition) -> bool:
        return self.leader_of(place) == self._node_id

    def others(self) -> list[NodeId]:
        """The other brokers that are there."""
        return sorted(self._image().admitted().keys() - {self._node_id})

    def absent(self) -> list[NodeId]:
        """Brokers of the cluster that are not there."""
        image = self._image()
        return sorted(image.nodes.keys() - image.admitted().keys() - {self._node_id})

    def _state(self, place: TopicPartition) -> tuple[NodeId, int]:
        topic = self._image().topics.get(place.topic)
        if topic is None:
            raise UnknownTopic(f"there is no topic {place.topic!r}")
        if not 0 <= place.partition < len(topic.partitions):
            raise UnknownPartition(
                f"topic {place.topic!r} has {len(topic.partitions)} partitions, no partition "
                f"{place.partition}"
            )
        partition = topic.partitions[place.partition]
        return partition.leader, partition.leader_epoch

    # --- asking ---------------------------------------------------------------------------

    async def ask(
        self,
        method: Method[Q, R],
        place: TopicPartition,
        request: Q,
        *,
        timeout_s: float = CALL_TIMEOUT_S,
        patience_s: float = LEADER_PATIENCE_S,
    ) -> R:
        """Have it done where the partition is led. Waits so long for a leader."""
        give_up_at: float | None = None
        while True:
            try:
                return await self._ask_leader(method, place, request, timeout_s)
            except Untouched as refusal:
                now = asyncio.get_running_loop().time()
                if give_up_at is None:
                    give_up_at = now + patience_s
                if now >= give_up_at or self._is_closed:
                    raise refusal.reason from None
                await self.until_changed(min(LOOK_S, give_up_at - now))

    async def _ask_leader(
        self,
        method: Method[Q, R],
        place: TopicPartition,
        request: Q,
        timeout_s: float,
    ) -> R:
        leader, epoch = self._state(place)
        if leader == NO_LEADER:
            raise Untouched(NotLeader(f"{place.topic}-{place.partition} has no leader just now"))
        try:
            if leader != self._node_id:
                return await self._call(leader, method, place, epoch, request, timeout_s)
            self._check_led(place, epoch)
            return cast(R, await self._served[method.name].run(request))
        except UNTIL_LED as error:
            if method.is_repeatable:
                raise Untouched(error) from None
            raise

    async def ask_broker(
        self,
        method: Method[Q, R],
        node_id: NodeId,
        request: Q,
        *,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> R:
        """Have a broker do what has no leader."""
        try:
            if node_id == self._node_id:
                return cast(R, await self._served[method.name].run(request))
            return await self._call(node_id, method, _NOWHERE, -1, request, timeout_s)
        except Untouched as refusal:
            raise refusal.reason from None

    async def gather(
        self,
        method: Method[Q, R],
        request: Q,
        *,
        timeout_s: float = GATHER_TIMEOUT_S,
        without: Collection[NodeId] = (),
    ) -> Gathered[R]:
        """Ask every broker, this one too; who does not answer is told with the reason. Those in
        `without` need not be asked."""
        return await self.collect(
            lambda node: self.ask_broker(method, node, request, timeout_s=timeout_s),
            without=without,
        )

    async def collect(
        self, ask: Callable[[NodeId], Awaitable[R]], *, without: Collection[NodeId] = ()
    ) -> Gathered[R]:
        """As `gather`, of brokers that are asked more than once."""
        nodes = [node for node in (self._node_id, *self.others()) if node not in without]
        found = await asyncio.gather(*map(ask, nodes), return_exceptions=True)
        gathered: Gathered[R] = Gathered({}, {}, self._led_by_nobody())
        for node, answer in zip(nodes, found, strict=True):
            if isinstance(answer, GoQueueError):
                gathered.failures[node] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                gathered.answers[node] = answer
        self.counts.unanswered.update({*gathered.failures, *gathered.missed})
        return gathered

    def _led_by_nobody(self) -> Counter[NodeId]:
        """Brokers that are down, with the partitions that wait for them."""
        missing: Counter[NodeId] = Counter()
        absent = set(self.absent())
        if absent:
            for topic in self._image().topics.values():
                for part in topic.partitions:
                    if part.leader == NO_LEADER:
                        missing.update(absent.intersection((*part.isr, *part.eligible)))
        return missing

    async def _call(
        self,
        node_id: NodeId,
        method: Method[Q, R],
        place: TopicPartition,
        epoch: int,
        request: Q,
        timeout_s: float,
    ) -> R:
        raw = msgspec.Raw(_ENCODER.encode(request))
        revision = self._image().revision
        call = _ENCODER.encode(Call(method.name, *place, epoch, CALLER.get(), raw, revision))
        asked, link = self.counts.asked, None
        try:
            with Asking(self.counts, method.name):
                link = await self._links.to(node_id, timeout_s)
                asked.request_bytes += len(call)
                body = await link.call(call, timeout_s=timeout_s, waits=method.waits)
                asked.answer_bytes += len(body)
        except BrokerUnreachable as error:
            if link is None:
                raise Untouched(error) from None
            raise
        except Overloaded as error:
            # Of the link: it was not sent.
            raise Untouched(error) from None
        try:
            return self._answered(method, body)
        except _BAD_BYTES as error:
            # Of another release, perhaps: whoever asks several goes on with what the others say.
            raise GoQueueError(
                f"broker {node_id} answered to {method.name} what cannot be read here: {error}"
            ) from error

    def _answered(self, method: Method[Q, R], body: bytes) -> R:
        answer = _ANSWER.decode(body)
        if answer.failure is not None:
            told = error_of(answer.failure)
            if not answer.failure.is_untouched:
                raise told
            self.counts.refused(method.name)
            raise Untouched(told)
        decoder = self._answers.get(method.name)
        if decoder is None:
            decoder = self._answers[method.name] = msgspec.msgpack.Decoder(method.answer)
        return cast(R, decoder.decode(answer.answer))

    async def until_changed(self, seconds: float | None = None) -> None:
        """Until the metadata change, or some time has passed."""
        if self._changed is None:
            self._changed = asyncio.Event()
        changing = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait((changing,), timeout=seconds)
        finally:
            changing.cancel()

    def image_changed(self, changes: ImageChanges) -> None:
        """Nobody waits any longer for a broker that is gone, or for a leader that is there now."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None
        self._links.image_changed(changes)

    def figures(self) -> CallFigures:
        return self.counts.figures((*self.others(), *self.absent()), self._links.open_count)

    def close(self) -> None:
        self._is_closed = True
        self._links.close()

    # --- answering ------------------------------------------------------------------------

    def read(self, _right: ActingCluster, body: bytes) -> ReadCall:
        """What another broker asks for."""
        try:
            call = _CALL.decode(body)
        except _BAD_BYTES as error:
            return _refused(InvalidRequest(f"this is no call of a broker: {error}"))
        served = self._served.get(call.method)
        if served is None:
            return _refused(InvalidRequest(f"this broker knows no call {call.method!r}"))
        self.counts.served.request_bytes += len(body)
        return ReadCall(served.method.waits, lambda: self._serve(call, served))

    def refusal(self, reason: GoQueueError) -> bytes:
        """An answer to a call with which nothing was done."""
        return _failed(reason, is_untouched=True)

    async def _serve(self, call: Call, served: _Served) -> bytes:
        with Serving(self.counts, call.method):
            answer = await self._run(call, served)
        self.counts.served.answer_bytes += len(answer)
        return answer

    async def _run(self, call: Call, served: _Served) -> bytes:
        CALLER.set(call.client)
        if call.revision > self._image().revision:
            await self._catch_up(call.revision)
        try:
            if call.topic != _NOWHERE.topic:
                self._check_led(topic_partition(call.topic, call.partition), call.leader_epoch)
            request = served.decoder.decode(call.request)
        except Untouched as refusal:
            return _failed(refusal.reason, is_untouched=True)
        except GoQueueError as error:
            return _failed(error)
        except _BAD_BYTES as error:
            return _failed(InvalidRequest(f"{call.method}: {error}"))
        try:
            answer = await served.run(request)
        except Untouched as refusal:
            return _failed(refusal.reason, is_untouched=True)
        except GoQueueError as error:
            return _failed(error)
        except Exception:
            logger.exception("%s failed for another broker", call.method)
            return _failed(GoQueueError(f"{call.method}: internal error"))
        return _ENCODER.encode(Answer(msgspec.Raw(_ENCODER.encode(answer))))

    async def _catch_up(self, revision: int) -> None:
        """So that a topic which was just made there is known here. One that cannot reach the
        metadata answers from what it knows."""
        with contextlib.suppress(GoQueueError, TimeoutError):
            async with asyncio.timeout(BEHIND_MAX_S):
                await self._applied(revision)

    def _check_led(self, place: TopicPartition, epoch: int) -> None:
        try:
            partition = self._led.find(*place)
        except (NotLeader, UnknownTopic) as error:
            # It may have heard of less than the one who asks.
            raise Untouched(error) from None
        if partition.leader_epoch != epoch:
            raise Untouched(
                NotLeader(
                    f"{place.topic}-{place.partition} is led under epoch {partition.leader_epoch}, "
                    f"not {epoch}"
                )
            )


def _refused(error: GoQueueError) -> ReadCall:
    async def run() -> bytes:
        return _failed(error, is_untouched=True)

    return ReadCall(waits=False, run=run)


def _failed(error: GoQueueError, *, is_untouched: bool = False) -> bytes:
    failure: Failure = failure_of(error, is_untouched=is_untouched)
    return _ENCODER.encode(Answer(_NOTHING, failure))
