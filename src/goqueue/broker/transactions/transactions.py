"""The transaction coordinator on this broker: commands in, markers out."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

from goqueue.broker.partitions.partition import Partition
from goqueue.broker.runtime.shard import StateShard, timed, untimed
from goqueue.broker.runtime.topic import Host, StateTopic
from goqueue.broker.transactions.producer_ids import ProducerIdSource
from goqueue.model.batch import Buffer, check_produced
from goqueue.model.control import Marker, MarkerType
from goqueue.model.errors import (
    GoQueueError,
    InvalidProducerEpoch,
    TransactionCoordinatorFenced,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.model.groups.messages import TxnOffsetCommit
from goqueue.model.names import TopicPartition
from goqueue.model.transactions.errors import TransactionError, TransactionRefused
from goqueue.model.transactions.group_messages import (
    AbortGroup,
    CommitGroup,
    DescribeGroup,
    GroupAnswer,
    GroupDescription,
)
from goqueue.model.transactions.group_names import group_key, shard_key
from goqueue.model.transactions.messages import (
    AddOffsets,
    AddOffsetsAnswer,
    AddPartitions,
    AddPartitionsAnswer,
    DescribeTransaction,
    EndTransaction,
    InitProducerId,
    ListTransactions,
    ListTransactionsAnswer,
    MarkerResult,
    MarkersWritten,
    ProducerIdAnswer,
    TransactionDescription,
    WriteMarkers,
)
from goqueue.state.producers.verification import ALREADY_ONGOING
from goqueue.state.transactions.machine import TransactionMachine, TransactionSettings

logger = logging.getLogger(__name__)

STATE_TOPIC: Final = "__transaction_state"
OFFSETS_TOPIC: Final = "__consumer_offsets"
# How long one try of a marker waits for its commit; then it is tried again.
MARKER_TIMEOUT_MS: Final = 10_000
# The end of a group is decided at once; its members' markers are waited for this long, so that who
# committed also reads what it wrote. They take milliseconds, unless a partition is offline.
GROUP_END_WAIT_SECONDS: Final = 10.0
GROUP_END_CHECK_SECONDS: Final = 0.005


class GroupOffsets(Protocol):
    """Where groups keep their offsets, some of which wait for the end of a transaction."""

    def offsets_partition(self, group_id: str) -> TopicPartition: ...

    async def end_transaction(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, *, commit: bool
    ) -> None: ...


class Transactions:
    def __init__(
        self,
        host: Host,
        groups: GroupOffsets,
        producer_ids: ProducerIdSource,
        *,
        partitions: int,
        settings: TransactionSettings,
    ) -> None:
        self._host = host
        self._groups = groups
        self._producer_ids = producer_ids
        self._settings = settings
        self._writing: set[asyncio.Task[None]] = set()
        # How transactions ended since the start.
        self.ended: Counter[MarkerType] = Counter()
        self.state = StateTopic(
            host,
            STATE_TOPIC,
            partitions=partitions,
            make=self._make,
            perform=self._perform,
            shard_key=shard_key,
        )

    # --- commands -------------------------------------------------------------------------

    async def init_producer_id(self, request: InitProducerId) -> ProducerIdAnswer:
        await self._producer_ids.refill()
        if request.transactional_id is None:
            producer_id = self._producer_ids.take()
            if producer_id is None:
                return ProducerIdAnswer(error=TransactionError.COORDINATOR_LOAD_IN_PROGRESS)
            return ProducerIdAnswer(
                error=TransactionError.NONE, producer_id=producer_id, producer_epoch=0
            )
        shard = await self.state.shard_for(request.transactional_id)
        return await shard.execute(timed(TransactionMachine.init_producer_id, request))

    async def add_partitions(self, request: AddPartitions) -> AddPartitionsAnswer:
        shard = await self.state.shard_for(request.transactional_id)
        return await shard.execute(timed(TransactionMachine.add_partitions, request))

    async def add_offsets(self, request: AddOffsets) -> AddOffsetsAnswer:
        shard = await self.state.shard_for(request.transactional_id)
        return await shard.execute(timed(TransactionMachine.add_offsets, request))

    async def end(self, request: EndTransaction) -> ProducerIdAnswer:
        await self._producer_ids.refill()
        shard = await self.state.shard_for(request.transactional_id)
        return await shard.execute(timed(TransactionMachine.end_transaction, request))

    async def commit_group(self, request: CommitGroup) -> GroupAnswer:
        shard = await self.state.shard_for(group_key(request.group_id))
        answer = await shard.execute(timed(TransactionMachine.commit_group, request))
        return await self._group_ended(shard, answer)

    async def abort_group(self, request: AbortGroup) -> GroupAnswer:
        shard = await self.state.shard_for(group_key(request.group_id))
        answer = await shard.execute(timed(TransactionMachine.abort_group, request))
        return await self._group_ended(shard, answer)

    async def _group_ended(
        self, shard: StateShard[TransactionMachine], answer: GroupAnswer
    ) -> GroupAnswer:
        deadline = asyncio.get_running_loop().time() + GROUP_END_WAIT_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            known = shard.machine.transactions
            if not any(each in known and known[each].state.is_prepared for each in answer.ending):
                break
            await asyncio.sleep(GROUP_END_CHECK_SECONDS)
        return answer

    async def describe_group(self, request: DescribeGroup) -> GroupDescription:
        if not self.state.exists:
            # Nobody has used transactions yet.
            return GroupDescription(
                group_id=request.group_id, last_sequence=None, committed_ms=None, open_members=()
            )
        shard = await self.state.shard_for(group_key(request.group_id))
        return await shard.execute(untimed(TransactionMachine.describe_group, request))

    async def list(self, request: ListTransactions) -> list[ListTransactionsAnswer]:
        """One answer per shard."""
        return [
            await shard.execute(timed(TransactionMachine.list_transactions, request))
            for shard in await self.state.all_shards()
        ]

    async def describe(self, request: DescribeTransaction) -> TransactionDescription:
        shard = await self.state.shard_for(request.transactional_id)
        return await shard.execute(untimed(TransactionMachine.describe_transaction, request))

    async def verify(
        self, partition: Partition, records: Buffer, transactional_id: str, *, bumps_epoch: bool
    ) -> int | None:
        """Make sure that the partition is in the producer's transaction before it appends.

        Clients of transaction version 2 (KIP-890) rely on this to add it; for others it must be
        there already, else a late batch would open a transaction that nobody ends. Returns the
        guard for `Partition.append`.
        """
        header = check_produced(records)
        if not header.is_transactional:
            return None
        guard = partition.ledger.producers.start_verification(
            header, bumps_epoch=bumps_epoch, now_ms=self._host.clock_ms()
        )
        if guard == ALREADY_ONGOING:
            return guard
        request = AddPartitions(
            transactional_id=transactional_id,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            partitions=frozenset({partition.name}),
            verify_only=not bumps_epoch,
        )
        answer = await self.add_partitions(request)
        error = answer.errors[partition.name]
        if error is not TransactionError.NONE:
            raise TransactionRefused(error)
        return guard

    async def verify_offsets(
        self, transactional_id: str, commit: TxnOffsetCommit, partition: TopicPartition
    ) -> None:
        """Make sure that a group's offsets belong to the producer's open transaction."""
        request = AddPartitions(
            transactional_id=transactional_id,
            producer_id=commit.producer_id,
            producer_epoch=commit.producer_epoch,
            partitions=frozenset({partition}),
            verify_only=True,
        )
        answer = await self.add_partitions(request)
        if answer.errors[partition] is not TransactionError.NONE:
            raise TransactionRefused(answer.errors[partition])

    # --- markers --------------------------------------------------------------------------

    def _make(self, _index: int, partition: Partition) -> TransactionMachine:
        return TransactionMachine(
            coordinator_epoch=partition.leader_epoch,
            next_producer_id=self._producer_ids.take,
            offsets_partition=self._groups.offsets_partition,
            settings=self._settings,
        )

    def _perform(self, index: int, effects: Sequence[object]) -> None:
        for effect in effects:
            assert isinstance(effect, WriteMarkers)
            task = asyncio.create_task(self._write_markers(index, effect))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)

    async def _write_markers(self, index: int, effect: WriteMarkers) -> None:
        partitions = sorted(effect.partitions)
        results = await asyncio.gather(*(self._end_in(name, effect) for name in partitions))
        report = MarkersWritten(
            transactional_id=effect.transactional_id,
            producer_id=effect.producer_id,
            producer_epoch=effect.producer_epoch,
            results=dict(zip(partitions, results, strict=True)),
        )
        shard = await self.state.shard(index)
        outcome = shard.machine.markers_written(report, now_ms=self._host.clock_ms())
        if outcome.records:
            self.ended[effect.marker.type] += 1
        shard.take(outcome)

    async def _end_in(self, name: TopicPartition, effect: WriteMarkers) -> MarkerResult:
        """Tell one partition how the transaction ended."""
        try:
            if name.topic == OFFSETS_TOPIC:
                await self._groups.end_transaction(
                    name,
                    effect.producer_id,
                    effect.producer_epoch,
                    commit=effect.marker.type is MarkerType.COMMIT,
                )
            else:
                await self._append_marker(name, effect.marker, effect)
        except (UnknownTopic, UnknownPartition):
            return MarkerResult.GONE
        except (InvalidProducerEpoch, TransactionCoordinatorFenced) as error:
            logger.warning("%s: marker refused: %s", name, error)
            return MarkerResult.FENCED
        except GoQueueError as error:
            logger.warning("%s: marker will be tried again: %s", name, error)
            return MarkerResult.RETRY
        except Exception:
            # Every partition must be reported, or the transaction would stay prepared for ever.
            logger.exception("%s: marker will be tried again", name)
            return MarkerResult.RETRY
        return MarkerResult.WRITTEN

    async def _append_marker(
        self, name: TopicPartition, marker: Marker, effect: WriteMarkers
    ) -> None:
        partition = self._host.partition(*name)
        end_offset = partition.append_marker(
            marker,
            producer_id=effect.producer_id,
            producer_epoch=effect.producer_epoch,
            bumps_epoch=effect.bumps_epoch,
        )
        await partition.wait_committed(end_offset, MARKER_TIMEOUT_MS)

    def close(self) -> None:
        for task in self._writing:
            task.cancel()
        self.state.close()
