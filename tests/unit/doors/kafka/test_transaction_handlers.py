"""Idempotent and transactional producers over the wire, in every version."""

from collections.abc import Sequence
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.model.control import Marker, MarkerType
from goqueue.model.errors import TransactionCoordinatorFenced
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import OffsetToCommit, TxnOffsetCommit
from goqueue.model.log import Isolation
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.service.security.access import Access
from tests.callers import ANYONE
from tests.stored_records import read_records
from tests.unit.doors.kafka.group_member import until
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def topics(broker: Node) -> None:
    for name in ("a", "b"):
        await BrokerService(broker).topics.create(ANYONE, NewTopic(name=name, partitions=2))


class TransactionalProducer:
    """Speaks transaction version 2 (KIP-890) or the one before."""

    def __init__(self, client: WireClient, name: str = "t", *, newest: bool = True) -> None:
        self.client = client
        self.name = name
        self.newest = newest
        self.producer_id = -1
        self.epoch = -1
        self.sequence = 0

    @property
    def owner(self) -> dict[str, Any]:
        return {
            "transactional_id": self.name,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    async def begin_id(self, version: int = 5) -> ErrorCode:
        async def settled() -> Any:
            answer = await self.client.call(
                "init_producer_id",
                version,
                transactional_id=self.name,
                transaction_timeout=60_000,
            )
            return None if answer.error_code is ErrorCode.concurrent_transactions else answer

        answer = await until(settled)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequence = 0
        code: ErrorCode = answer.error_code
        return code

    async def add(
        self, partitions: Sequence[int], *, topic: str = "a", version: int = 3, **more: Any
    ) -> list[ErrorCode]:
        topics = [{"name": topic, "partitions": partitions}]
        if version >= 4:
            one = {**self.owner, "topics": topics, "verify_only": False, **more}
            answer = await self.client.call("add_partitions_to_txn", version, transactions=[one])
            assert answer.error_code is ErrorCode.none
            results = answer.results_by_transaction[0].topic_results
        else:
            owner = {f"v3_and_below_{k}": v for k, v in {**self.owner, **more}.items()}
            answer = await self.client.call(
                "add_partitions_to_txn", version, v3_and_below_topics=topics, **owner
            )
            results = answer.results_by_topic_v3_and_below
        return [p.partition_error_code for t in results for p in t.results_by_partition]

    async def send(self, value: bytes = b"v", *, version: int | None = None) -> ErrorCode:
        if version is None:
            version = 12 if self.newest else 11
        records = encode_records(
            [NewRecord(value=value)],
            now_ms=1_000,
            is_transactional=True,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
        )
        answer = await self.client.call(
            "produce",
            version,
            transactional_id=self.name,
            acks=-1,
            timeout=1_000,
            topic_data=[{"name": "a", "partition_data": [{"index": 0, "records": bytes(records)}]}],
        )
        code: ErrorCode = answer.responses[0].partition_responses[0].error_code
        if code is ErrorCode.none:
            self.sequence += 1
        return code

    async def end(self, *, commit: bool, version: int | None = None, **more: Any) -> ErrorCode:
        version = version if version is not None else 5 if self.newest else 4
        answer = await self.client.call(
            "end_txn", version, **{**self.owner, "committed": commit, **more}
        )
        if answer.error_code is ErrorCode.none and version >= 5:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequence = 0
        code: ErrorCode = answer.error_code
        return code

    async def commit_offset(
        self, offset: int, *, version: int | None = None, **more: Any
    ) -> ErrorCode:
        version = version if version is not None else 5 if self.newest else 3
        part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": None}
        fields = {
            **self.owner,
            "group_id": "g",
            "topics": [{"name": "a", "partitions": [part]}],
            **more,
        }
        if version >= 3:
            fields.setdefault("generation_id", -1)
        answer = await self.client.call("txn_offset_commit", version, **fields)
        code: ErrorCode = answer.topics[0].partitions[0].error_code
        return code


@pytest.fixture
async def producer(client: WireClient) -> TransactionalProducer:
    made = TransactionalProducer(client)
    assert await made.begin_id() is ErrorCode.none
    return made


async def values(broker: Node, isolation: Isolation = Isolation.READ_COMMITTED) -> list[bytes]:
    found: list[bytes] = []
    next_offset, end_offset = 0, broker.partition("a", 0).readable_end(isolation)
    while next_offset < end_offset:
        page = await read_records(broker, "a", 0, next_offset, limit=100, isolation=isolation)
        found += [record.value or b"" for record in page.records]
        next_offset = page.next_offset
    return found


async def committed(client: WireClient, *, stable: bool = True) -> tuple[int, ErrorCode]:
    topics = [{"name": "a", "partition_indexes": [0]}]
    answer = await client.call(
        "offset_fetch", 7, group_id="g", topics=topics, require_stable=stable
    )
    (part,) = answer.topics[0].partitions
    return part.committed_offset, part.error_code


# --- InitProducerId ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
async def test_every_idempotent_producer_gets_its_own_id(client: WireClient, version: int) -> None:
    ids = set()
    for _ in range(3):
        answer = await client.call("init_producer_id", version, transactional_id=None)
        assert (answer.error_code, answer.producer_epoch) == (ErrorCode.none, 0)
        ids.add(answer.producer_id)
    assert len(ids) == 3
    assert min(ids) >= 0


@pytest.mark.parametrize("version", range(7))
async def test_a_transactional_id_keeps_its_producer_and_raises_its_epoch(
    client: WireClient, version: int
) -> None:
    producer = TransactionalProducer(client)
    assert await producer.begin_id(version) is ErrorCode.none
    first = producer.producer_id
    assert await producer.begin_id(version) is ErrorCode.none
    assert (producer.producer_id, producer.epoch) == (first, 1)


@pytest.mark.parametrize("version", [0, 2, 3, 5, 6])
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"transactional_id": ""}, ErrorCode.invalid_request),
        ({"transaction_timeout": 0}, ErrorCode.invalid_transaction_timeout),
        ({"transaction_timeout": -1}, ErrorCode.invalid_transaction_timeout),
        ({"transaction_timeout": 2**31 - 1}, ErrorCode.invalid_transaction_timeout),
    ],
)
async def test_bad_ids_and_time_outs_are_refused(
    client: WireClient, version: int, fields: dict[str, Any], code: ErrorCode
) -> None:
    good = {"transactional_id": "t", "transaction_timeout": 60_000}
    answer = await client.call("init_producer_id", version, **{**good, **fields})
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)
    listed = await client.call("list_transactions")
    assert listed.transaction_states == ()


@pytest.mark.parametrize("version", [3, 4, 5, 6])
async def test_a_fenced_producer_does_not_come_back(
    client: WireClient, producer: TransactionalProducer, version: int
) -> None:
    old = producer.owner
    await producer.begin_id()
    await producer.begin_id()
    answer = await client.call("init_producer_id", version, transaction_timeout=60_000, **old)
    fenced = ErrorCode.producer_fenced if version >= 4 else ErrorCode.invalid_producer_epoch
    assert answer.error_code is fenced
    half = {**old, "producer_epoch": -1}
    answer = await client.call("init_producer_id", version, transaction_timeout=60_000, **half)
    assert answer.error_code is ErrorCode.invalid_request


async def test_two_phase_commit_is_refused(client: WireClient) -> None:
    fields = {"transactional_id": "t", "transaction_timeout": 60_000}
    answer = await client.call("init_producer_id", 6, enable2_pc=True, **fields)
    assert answer.error_code is ErrorCode.transactional_id_authorization_failed
    answer = await client.call("init_producer_id", 6, keep_prepared_txn=True, **fields)
    assert answer.error_code is ErrorCode.unsupported_version


# --- a transaction ----------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("newest", [True, False])
async def test_a_transaction_from_begin_to_end(
    client: WireClient, broker: Node, commit: bool, newest: bool
) -> None:
    producer = TransactionalProducer(client, newest=newest)
    await producer.begin_id()
    if not newest:
        assert await producer.send(b"early") is not ErrorCode.none, "the partition is not added"
        assert await producer.add([0, 1]) == [ErrorCode.none] * 2
        answer = await client.call("add_offsets_to_txn", 3, group_id="g", **producer.owner)
        assert answer.error_code is ErrorCode.none
    assert await producer.send(b"1") is ErrorCode.none
    assert await producer.send(b"2") is ErrorCode.none
    assert await producer.commit_offset(7) is ErrorCode.none
    assert await values(broker) == []
    assert await values(broker, Isolation.READ_UNCOMMITTED) == [b"1", b"2"]
    assert await committed(client) == (-1, ErrorCode.unstable_offset_commit)
    assert await committed(client, stable=False) == (-1, ErrorCode.none)
    assert await producer.end(commit=commit) is ErrorCode.none
    assert producer.epoch == (1 if newest else 0)

    async def is_stable() -> bool:
        return (await committed(client))[1] is ErrorCode.none

    await until(is_stable)
    assert await committed(client) == (7 if commit else -1, ErrorCode.none)

    async def is_over() -> bool:
        described = await client.call("describe_transactions", transactional_ids=["t"])
        state: str = described.transaction_states[0].transaction_state
        return state.startswith("Complete")

    await until(is_over)
    assert await values(broker) == ([b"1", b"2"] if commit else [])


@pytest.mark.parametrize("version", range(6))
async def test_partitions_are_added(producer: TransactionalProducer, version: int) -> None:
    assert await producer.add([0, 1], version=version) == [ErrorCode.none] * 2
    unknown, untried = ErrorCode.unknown_topic_or_partition, ErrorCode.operation_not_attempted
    assert await producer.add([0, 2, -1], version=version) == [untried, unknown, unknown]
    assert await producer.add([0], topic="none", version=version) == [unknown]


@pytest.mark.parametrize("version", range(6))
async def test_foreign_and_stale_producers_add_nothing(
    client: WireClient, producer: TransactionalProducer, version: int
) -> None:
    cases: list[tuple[dict[str, Any], ErrorCode]] = [
        ({"transactional_id": "other"}, ErrorCode.invalid_producer_id_mapping),
        ({"transactional_id": ""}, ErrorCode.invalid_request),
        ({"producer_id": producer.producer_id + 1}, ErrorCode.invalid_producer_id_mapping),
        (
            {"producer_epoch": 9},
            ErrorCode.producer_fenced if version >= 2 else ErrorCode.invalid_producer_epoch,
        ),
    ]
    for fields, code in cases:
        assert await producer.add([0], version=version, **fields) == [code]
        answer = await client.call(
            "add_offsets_to_txn", min(version, 4), group_id="g", **{**producer.owner, **fields}
        )
        assert answer.error_code is code
        code_at_end = await producer.end(commit=True, version=version, **fields)
        assert code_at_end is code
    listed = await client.call("list_transactions")
    assert [state.transaction_state for state in listed.transaction_states] == ["Empty"]


async def test_internal_topics_take_no_part(
    client: WireClient, producer: TransactionalProducer
) -> None:
    refused = [ErrorCode.topic_authorization_failed]
    assert await producer.add([0], topic="__transaction_state") == refused


@pytest.mark.parametrize("version", range(5))
async def test_offsets_are_added_in_every_version(
    client: WireClient, producer: TransactionalProducer, version: int
) -> None:
    answer = await client.call("add_offsets_to_txn", version, group_id="g", **producer.owner)
    assert answer.error_code is ErrorCode.none
    assert await producer.commit_offset(3, version=version) is ErrorCode.none


@pytest.mark.parametrize("version", range(6))
async def test_bad_offsets_in_transactions_are_refused(
    client: WireClient, producer: TransactionalProducer, version: int
) -> None:
    await client.call("add_offsets_to_txn", group_id="g", **producer.owner)
    fenced = ErrorCode.producer_fenced
    cases: list[tuple[int, dict[str, Any], ErrorCode]] = [
        (-1, {}, ErrorCode.invalid_request),
        (1, {"transactional_id": "other"}, ErrorCode.invalid_producer_id_mapping),
        (1, {"producer_id": 999}, ErrorCode.invalid_producer_id_mapping),
        (1, {"producer_epoch": 9}, fenced),
    ]
    for offset, fields, code in cases:
        assert await producer.commit_offset(offset, version=version, **fields) is code
    if version >= 3:
        for member in ({}, {"member_id": "nobody"}):
            stale = await producer.commit_offset(1, version=version, generation_id=3, **member)
            assert stale is ErrorCode.illegal_generation
    unknown = ErrorCode.unknown_topic_or_partition
    part = {"partition_index": 7, "committed_offset": 1, "committed_metadata": None}
    topics = [{"name": "a", "partitions": [part]}]
    assert await producer.commit_offset(1, version=version, topics=topics) is unknown
    assert await committed(client) == (-1, ErrorCode.none)


async def test_offsets_of_a_group_that_was_not_added_are_refused(
    producer: TransactionalProducer,
) -> None:
    await producer.add([0])
    assert await producer.commit_offset(1, version=3) is ErrorCode.invalid_txn_state
    assert await producer.commit_offset(1, version=4) is ErrorCode.transaction_abortable


@pytest.mark.parametrize("version", range(6))
async def test_ending_what_was_not_begun(producer: TransactionalProducer, version: int) -> None:
    assert await producer.end(commit=True, version=version) is ErrorCode.invalid_txn_state
    if version >= 5:
        # KIP-890: a client that does not know whether it began may abort.
        assert await producer.end(commit=False, version=version) is ErrorCode.none
    else:
        assert await producer.end(commit=False, version=version) is ErrorCode.invalid_txn_state


@pytest.mark.parametrize("version", range(6))
async def test_an_end_may_be_repeated(producer: TransactionalProducer, version: int) -> None:
    await producer.add([0])
    before = producer.owner
    assert await producer.end(commit=True, version=version) is ErrorCode.none

    async def answered() -> ErrorCode | None:
        code = await producer.end(commit=True, version=version, **before)
        return None if code is ErrorCode.concurrent_transactions else code

    assert await until(answered) is ErrorCode.none


async def test_a_late_batch_of_an_ended_transaction_is_refused(
    broker: Node, producer: TransactionalProducer
) -> None:
    await producer.send(b"1")
    old_epoch, old_sequence = producer.epoch, producer.sequence
    await producer.end(commit=True)
    producer.epoch, producer.sequence = old_epoch, old_sequence

    async def settled() -> ErrorCode | None:
        code = await producer.send(b"late")
        return None if code is ErrorCode.concurrent_transactions else code

    assert await until(settled) is ErrorCode.invalid_producer_epoch
    assert await values(broker, Isolation.READ_UNCOMMITTED) == [b"1"]


async def test_a_new_producer_fences_the_old_one_and_aborts_its_transaction(
    client: WireClient, broker: Node, producer: TransactionalProducer
) -> None:
    await producer.send(b"old")
    await producer.commit_offset(5)
    successor = TransactionalProducer(client)
    assert await successor.begin_id() is ErrorCode.none
    assert successor.epoch > producer.epoch
    assert await producer.send(b"zombie") is ErrorCode.invalid_producer_epoch
    assert await producer.commit_offset(6) is ErrorCode.producer_fenced
    assert await producer.end(commit=True) is ErrorCode.producer_fenced
    assert await committed(client) == (-1, ErrorCode.none)
    assert await successor.send(b"new") is ErrorCode.none
    assert await successor.end(commit=True) is ErrorCode.none

    async def is_there() -> bool:
        return await values(broker) == [b"new"]

    await until(is_there)


async def test_offsets_that_the_end_of_their_transaction_overtook_are_refused(
    client: WireClient, broker: Node, producer: TransactionalProducer
) -> None:
    """They would wait for a marker that has come already."""
    assert await producer.commit_offset(5) is ErrorCode.none
    place = broker.groups.offsets_partition("g")
    owner = producer.producer_id
    abort = Marker(MarkerType.ABORT, 1)
    await broker.groups.end_transaction(place, abort, owner, producer.epoch + 1)
    late_abort = Marker(MarkerType.ABORT, 0)
    with pytest.raises(TransactionCoordinatorFenced):
        await broker.groups.end_transaction(place, late_abort, owner, producer.epoch + 1)
    late = TxnOffsetCommit(
        group_id="g",
        producer_id=owner,
        producer_epoch=producer.epoch,
        offsets=(OffsetToCommit(topic="a", partition=0, offset=6),),
    )
    access = Access()
    group = access.readable_group(ANYONE, "g")
    commit, _ = access.readable_transaction_commit(ANYONE, late)
    (answer,) = (await broker.groups.commit_in_transaction(group, commit)).partitions
    assert answer.error is GroupError.INVALID_PRODUCER_EPOCH
    assert await committed(client) == (-1, ErrorCode.none)


async def test_a_refused_commit_says_which_partitions_are_not_there(
    client: WireClient, producer: TransactionalProducer
) -> None:
    answer = await client.call(
        "txn_offset_commit",
        5,
        transactional_id=producer.name,
        group_id="g",
        producer_id=producer.producer_id + 1,
        producer_epoch=0,
        generation_id=-1,
        topics=[
            {
                "name": name,
                "partitions": [
                    {"partition_index": index, "committed_offset": 1, "committed_leader_epoch": -1}
                    for index in (0, 2)
                ],
            }
            for name in ("a", "gone")
        ],
    )
    codes = [[part.error_code for part in topic.partitions] for topic in answer.topics]
    unknown = ErrorCode.unknown_topic_or_partition
    assert codes == [[ErrorCode.invalid_producer_id_mapping, unknown], [unknown, unknown]]


class TestShortTransactions:
    async def test_a_transaction_that_takes_too_long_is_aborted(
        self, client: WireClient, broker: Node
    ) -> None:
        producer = TransactionalProducer(client)
        answer = await client.call(
            "init_producer_id", 5, transactional_id="t", transaction_timeout=100
        )
        producer.producer_id, producer.epoch = answer.producer_id, answer.producer_epoch
        await producer.send(b"slow")

        async def is_aborted() -> bool:
            described = await client.call("describe_transactions", transactional_ids=["t"])
            return bool(described.transaction_states[0].transaction_state == "CompleteAbort")

        await until(is_aborted)
        assert await producer.end(commit=True) is ErrorCode.invalid_txn_state
        assert await producer.send(b"later") is ErrorCode.invalid_producer_epoch
        assert await values(broker) == []


# --- administration ---------------------------------------------------------------------------


async def test_transactions_are_described(
    client: WireClient, producer: TransactionalProducer
) -> None:
    await producer.send()
    answer = await client.call("describe_transactions", transactional_ids=["t", "none", ""])
    found, missing, empty = answer.transaction_states
    assert (found.error_code, found.transaction_state) == (ErrorCode.none, "Ongoing")
    assert (found.producer_id, found.producer_epoch) == (producer.producer_id, producer.epoch)
    assert found.transaction_timeout.total_seconds() == 60
    assert found.transaction_start_time is not None
    assert [(t.topic, t.partitions) for t in found.topics] == [("a", (0,))]
    assert missing.error_code is ErrorCode.transactional_id_not_found
    assert empty.error_code in (ErrorCode.invalid_request, ErrorCode.transactional_id_not_found)


@pytest.mark.parametrize("version", range(3))
async def test_transactions_are_listed(
    client: WireClient, producer: TransactionalProducer, version: int
) -> None:
    await producer.send()

    async def listed(**filters: Any) -> list[str]:
        answer = await client.call("list_transactions", version, **filters)
        assert answer.error_code is ErrorCode.none
        return [state.transactional_id for state in answer.transaction_states]

    # The client's defaults are those of the protocol: no filter.
    span = {"duration_filter": -1} if version >= 1 else {}
    assert await listed(**span) == ["t"]
    assert await listed(state_filters=["Ongoing"], **span) == ["t"]
    assert await listed(state_filters=["Empty"], **span) == []
    assert await listed(producer_id_filters=[producer.producer_id], **span) == ["t"]
    assert await listed(producer_id_filters=[999], **span) == []
    answer = await client.call("list_transactions", version, state_filters=["Odd"], **span)
    assert (answer.unknown_state_filters, answer.transaction_states) == (("Odd",), ())
    if version >= 1:
        assert await listed(duration_filter=3_600_000) == []
    if version >= 2:
        assert await listed(transactional_id_pattern="t.*", **span) == ["t"]
        assert await listed(transactional_id_pattern="x", **span) == []
        answer = await client.call("list_transactions", transactional_id_pattern="(")
        assert answer.error_code is ErrorCode.invalid_regular_expression


async def test_producers_are_described(client: WireClient, producer: TransactionalProducer) -> None:
    await producer.send()
    await producer.send()
    answer = await client.call(
        "describe_producers",
        topics=[
            {"name": "a", "partition_indexes": [0, 1, 9]},
            {"name": "x", "partition_indexes": [0]},
        ],
    )
    active, idle, missing = answer.topics[0].partitions
    (state,) = active.active_producers
    assert (state.producer_id, state.producer_epoch) == (producer.producer_id, producer.epoch)
    assert (state.last_sequence, state.current_txn_start_offset) == (1, 0)
    assert (idle.error_code, idle.active_producers) == (ErrorCode.none, ())
    unknown = ErrorCode.unknown_topic_or_partition
    assert missing.error_code is unknown
    assert answer.topics[1].partitions[0].error_code is unknown


@pytest.mark.parametrize("version", [1, 2])
async def test_an_administrator_aborts_a_hanging_transaction(
    client: WireClient, broker: Node, producer: TransactionalProducer, version: int
) -> None:
    await producer.send(b"hanging")
    await producer.commit_offset(5)
    place = broker.groups.offsets_partition("g")
    answer = await client.call(
        "write_txn_markers",
        version,
        markers=[
            {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.epoch,
                "transaction_result": False,
                "topics": [
                    {"name": "a", "partition_indexes": [0, 9]},
                    {"name": place.topic, "partition_indexes": [place.partition, 99]},
                ],
            }
        ],
    )
    codes = [p.error_code for t in answer.markers[0].topics for p in t.partitions]
    unknown = ErrorCode.unknown_topic_or_partition
    assert codes == [ErrorCode.none, unknown, ErrorCode.none, unknown]
    assert await committed(client) == (-1, ErrorCode.none)
    assert broker.partition("a", 0).last_stable_offset == 2
    assert await values(broker) == []


async def test_an_idempotent_batch_is_kept_once_and_gaps_are_refused(
    client: WireClient, broker: Node
) -> None:
    answer = await client.call("init_producer_id", transactional_id=None)

    async def send(sequence: int, epoch: int = 0) -> tuple[ErrorCode, int]:
        records = encode_records(
            [NewRecord(value=b"v")],
            now_ms=1_000,
            producer_id=answer.producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        part = {"index": 0, "records": bytes(records)}
        produced = await client.call(
            "produce",
            12,
            acks=-1,
            timeout=1_000,
            topic_data=[{"name": "a", "partition_data": [part]}],
        )
        (found,) = produced.responses[0].partition_responses
        return found.error_code, found.base_offset

    assert await send(0) == (ErrorCode.none, 0)
    assert await send(1) == (ErrorCode.none, 1)
    assert await send(0) == (ErrorCode.none, 0), "answered with where it is"
    assert await send(5) == (ErrorCode.out_of_order_sequence_number, -1)
    assert await send(2) == (ErrorCode.none, 2)
    assert (await send(0, epoch=1))[0] is ErrorCode.none
    assert (await send(3, epoch=0))[0] is ErrorCode.invalid_producer_epoch
    assert await values(broker) == [b"v"] * 4
