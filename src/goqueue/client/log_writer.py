"""Writes record batches to partitions, in order and without repetition, for code without a loop.

One request to each broker is on its way while the caller prepares the next. A request whose answer
is lost is sent again: the broker knows batches by producer and sequence (KIP-98). Within a
transaction, partitions join it by their first batch (KIP-890).
"""

import datetime
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.end_txn.v5.response import EndTxnResponse
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse
from kio.schema.produce.v12.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.produce.v12.response import PartitionProduceResponse, ProduceResponse
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import Records, i16, i32, i32Timedelta

from goqueue.client.blocking_connection import BlockingConnection
from goqueue.client.errors import BrokerUnreachable, RequestRefused
from goqueue.client.patience import Patience
from goqueue.client.record_block import RecordBlock, build_batch, next_sequence
from goqueue.client.writing_cluster import TopicToWrite, WritingCluster
from goqueue.model.client_security import NO_SECURITY, ClientSecurity

_ALL_REPLICAS: Final = i16(-1)
# How long the broker may wait for replicas; the connection's own time-out is longer.
_PRODUCE_TIMEOUT: Final = i32Timedelta.parse(datetime.timedelta(seconds=30))
# Longer than a broker takes to start again.
FIRST_CONTACT_TIMEOUT_MS: Final = 5_000

_RETRIABLE: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.request_timed_out,
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.concurrent_transactions,
        ErrorCode.kafka_storage_error,
        ErrorCode.throttling_quota_exceeded,
    }
)
# The broker has the batch already: its first answer was lost.
_STORED: Final = frozenset({ErrorCode.none, ErrorCode.duplicate_sequence_number})
_ENDED: Final = frozenset(
    {
        ErrorCode.invalid_producer_epoch,
        ErrorCode.producer_fenced,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.invalid_txn_state,
        ErrorCode.transaction_abortable,
    }
)


class TransactionLost(RequestRefused):
    """The transaction was ended by the broker, or somebody else goes on under its id."""

    code = "transaction_lost"


class ProducerIdentity(NamedTuple):
    """What names a writer's open transaction to whoever ends it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class _Place(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class _Sent:
    connection: BlockingConnection
    batches: dict[_Place, bytes]


class LogWriter:
    """Without a transactional id it is idempotent only: what it sent is there at once."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        delivery_timeout_ms: int = 20_000,
        security: ClientSecurity = NO_SECURITY,
    ) -> None:
        self._cluster = WritingCluster(bootstrap_servers, security)
        self._transactional_id = transactional_id
        self._transaction_timeout_ms = transaction_timeout_ms
        self._patience = Patience(delivery_timeout_ms, first_timeout_ms=FIRST_CONTACT_TIMEOUT_MS)
        self._producer_id = -1
        self._producer_epoch = -1
        self._sequences: defaultdict[_Place, int] = defaultdict(int)
        self._outstanding: list[_Sent] = []

    def close(self) -> None:
        self._cluster.close()

    @property
    def identity(self) -> ProducerIdentity | None:
        """None as long as no transaction could have begun."""
        if self._transactional_id is None or self._producer_id < 0:
            return None
        return ProducerIdentity(self._transactional_id, self._producer_id, self._producer_epoch)

    def topic(self, name: str) -> TopicToWrite:
        while True:
            try:
                found = self._cluster.topic(name)
            except BrokerUnreachable as error:
                self._wait(error)
            else:
                self._patience.succeeded()
                return found

    def send(self, blocks: Sequence[RecordBlock]) -> None:
        """At most one block for each partition. Returns when those sent before are stored."""
        if self._producer_id < 0:
            self._initialise()
        batches = {_Place(each.topic, each.partition): self._batch(each) for each in blocks}
        assert len(batches) == len(blocks), "a request has one batch for each partition"
        self.flush()
        try:
            self._outstanding = self._request(batches)
        except BrokerUnreachable as error:
            self._outstanding = self._request_again(batches, error)

    def flush(self) -> None:
        """Returns when everything sent is stored."""
        outstanding, self._outstanding = self._outstanding, []
        self._settle(outstanding)

    def abort(self) -> None:
        """End the transaction; what was sent is never read. Does nothing if it is over."""
        identity = self.identity
        if identity is None:
            return
        self._outstanding.clear()
        self._cluster.forget()
        coordinator = self._cluster.coordinator(identity.transactional_id)
        request = EndTxnRequest(
            transactional_id=TransactionalId(identity.transactional_id),
            producer_id=ProducerId(identity.producer_id),
            producer_epoch=i16(identity.producer_epoch),
            committed=False,
        )
        coordinator.call(request, EndTxnResponse)

    # --- producer id ----------------------------------------------------------------------

    def _initialise(self) -> None:
        """Whoever wrote under this id before is fenced, and what it left open aborted."""
        name = self._transactional_id
        request = InitProducerIdRequest(
            transactional_id=None if name is None else TransactionalId(name),
            transaction_timeout=i32Timedelta.parse(
                datetime.timedelta(milliseconds=self._transaction_timeout_ms)
            ),
        )
        while True:
            try:
                coordinator = self._cluster.coordinator(name)
                response = coordinator.call(request, InitProducerIdResponse)
            except BrokerUnreachable as error:
                self._wait(error)
                continue
            code = response.error_code
            if code is ErrorCode.none:
                self._producer_id = int(response.producer_id)
                self._producer_epoch = int(response.producer_epoch)
                self._patience.succeeded()
                return
            refusal = RequestRefused(self._explain(code), int(code))
            if code not in _RETRIABLE:
                raise refusal
            self._patience.wait(refusal)

    def _explain(self, code: ErrorCode) -> str:
        if code is ErrorCode.invalid_transaction_timeout:
            return (
                f"transaction.timeout.ms is {self._transaction_timeout_ms}, more than the broker's "
                "transaction.max.timeout.ms; lower the one or raise the other"
            )
        return f"no producer id for {self._transactional_id!r}: {code.name.replace('_', ' ')}"

    # --- batches --------------------------------------------------------------------------

    def _batch(self, block: RecordBlock) -> bytes:
        place = _Place(block.topic, block.partition)
        sequence = self._sequences[place]
        self._sequences[place] = next_sequence(sequence, block.record_count)
        return build_batch(
            block,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=sequence,
            is_transactional=self._transactional_id is not None,
        )

    def _request(self, batches: dict[_Place, bytes]) -> list[_Sent]:
        by_leader: dict[BlockingConnection, dict[_Place, bytes]] = {}
        for place, batch in batches.items():
            leader = self._cluster.leader(*place)
            by_leader.setdefault(leader, {})[place] = batch
        sent = []
        for connection, share in by_leader.items():
            connection.send(self._produce(share))
            sent.append(_Sent(connection, share))
        return sent

    def _produce(self, batches: dict[_Place, bytes]) -> ProduceRequest:
        by_topic: defaultdict[str, list[PartitionProduceData]] = defaultdict(list)
        for place, batch in batches.items():
            by_topic[place.topic].append(
                PartitionProduceData(index=i32(place.partition), records=Records(batch))
            )
        name = self._transactional_id
        return ProduceRequest(
            transactional_id=None if name is None else TransactionalId(name),
            acks=_ALL_REPLICAS,
            timeout=_PRODUCE_TIMEOUT,
            topic_data=tuple(
                TopicProduceData(name=TopicName(topic), partition_data=tuple(parts))
                for topic, parts in by_topic.items()
            ),
        )

    def _settle(self, outstanding: Iterable[_Sent]) -> None:
        """Read the answers, and send again what can be sent again, until all is stored."""
        while True:
            unstored, failure = self._unstored(outstanding)
            if failure is None:
                self._patience.succeeded()
                return
            outstanding = self._request_again(unstored, failure)

    def _unstored(
        self, outstanding: Iterable[_Sent]
    ) -> tuple[dict[_Place, bytes], BrokerUnreachable | RequestRefused | None]:
        unstored: dict[_Place, bytes] = {}
        failure: BrokerUnreachable | RequestRefused | None = None
        for sent in outstanding:
            try:
                response = sent.connection.receive(ProduceResponse)
            except BrokerUnreachable as error:
                unstored |= sent.batches
                failure = error
                continue
            for place, refusal in self._refusals(response, sent.batches):
                unstored[place] = sent.batches[place]
                failure = refusal
        return unstored, failure

    def _request_again(
        self, batches: dict[_Place, bytes], failure: BrokerUnreachable | RequestRefused
    ) -> list[_Sent]:
        while True:
            self._wait(failure)
            try:
                return self._request(batches)
            except BrokerUnreachable as error:
                failure = error

    def _refusals(
        self, response: ProduceResponse, sent: Iterable[_Place]
    ) -> list[tuple[_Place, RequestRefused]]:
        """Those to try again; raises at the first that would be refused again."""
        answers = {
            _Place(str(topic.name), int(part.index)): part
            for topic in response.responses
            for part in topic.partition_responses
        }
        refusals = []
        for place in sent:
            part = answers.get(place)
            if part is None:
                raise RequestRefused(
                    f"topic {place.topic!r}, partition {place.partition}: the broker does not say "
                    "whether it stored the records; see its log",
                    int(ErrorCode.unknown_server_error),
                )
            if part.error_code in _STORED:
                continue
            refusal = self._refusal(place, part)
            if part.error_code not in _RETRIABLE:
                raise refusal
            refusals.append((place, refusal))
        return refusals

    def _refusal(self, place: _Place, part: PartitionProduceResponse) -> RequestRefused:
        code = part.error_code
        if self._transactional_id is not None and code in _ENDED:
            return TransactionLost(
                f"the transaction {self._transactional_id!r} is over: it was open for more than "
                f"transaction.timeout.ms ({self._transaction_timeout_ms}), or another attempt of "
                "the same task took over",
                int(code),
            )
        reason = part.error_message or code.name.replace("_", " ")
        details = "; ".join(
            each.batch_index_error_message
            for each in part.record_errors
            if each.batch_index_error_message and each.batch_index_error_message != reason
        )
        text = f"topic {place.topic!r}, partition {place.partition}: {reason}"
        return RequestRefused(f"{text}; {details}" if details else text, int(code))

    def _wait(self, failure: BrokerUnreachable | RequestRefused) -> None:
        self._patience.wait(failure)
        self._cluster.forget()
