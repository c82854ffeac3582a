"""The transaction coordinator on this broker: commands in, markers out."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from goqueue.broker.coordinator_settings import transaction_settings
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.peers.transactions import TransactionPeers
from goqueue.broker.runtime.producer_ids import ProducerIdSource
from goqueue.broker.runtime.shard import StateShard, timed, untimed
from goqueue.broker.runtime.topic import ShardHost, StateTopic
from goqueue.broker.transactions.endings import Endings
from goqueue.broker.transactions.markers import MarkerWriter, PendingDelays, PendingOffsets
from goqueue.broker.transactions.room import TransactionRoom
from goqueue.model.batch import Buffer, check_produced
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.control import MarkerType
from goqueue.model.errors import GoQueueError, NotLeader, StateLoading
from goqueue.model.groups.messages import OffsetCommitResult
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.rights import (
    DescribableTransactionalId,
    DescribableTransactionalIds,
    IdempotentWriter,
    ReadableGroup,
    ReadableTransactionCommit,
    WritablePartitions,
    WritableTopic,
    WritableTransactionalId,
)
from goqueue.model.topics import OFFSETS_TOPIC
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.group_messages import (
    AbortGroup,
    CommitGroup,
    DescribeGroup,
    GroupAnswer,
    GroupDescription,
    GroupRenewed,
    RenewGroup,
)
from goqueue.model.transactions.group_names import shard_key
from goqueue.model.transactions.messages import (
    AddOffsets,
    AddOffsetsAnswer,
    AddPartitions,
    AddPartitionsAnswer,
    DescribeTransaction,
    EndTransaction,
    InitProducerId,
    ListedTransaction,
    ListTransactions,
    ListTransactionsAnswer,
    ProducerIdAnswer,
    TransactionDescription,
    WriteMarkers,
)
from goqueue.model.transactions.refusals import TransactionRefused, check
from goqueue.state.producers.verification import ALREADY_ONGOING
from goqueue.state.transactions.machine import TransactionMachine

logger = logging.getLogger(__name__)

STATE_TOPIC: Final = "__transaction_state"
# An end is decided at once; its markers are waited for this long, so that who committed also reads
# what it wrote. They take milliseconds, unless a partition is offline.
END_WAIT_SECONDS: Final = 10.0


class GroupOffsets(PendingOffsets, Protocol):
    """Where groups keep their offsets, some of which wait for the end of a transaction."""

    def offsets_partition(self, group_id: str) -> TopicPartition: ...

    async def commit_in_transaction(
        self,
        group: ReadableGroup,
        request: ReadableTransactionCommit,
        *,
        administers_cluster: bool,
    ) -> OffsetCommitResult: ...


class Transactions:
    def __init__(
        self,
        host: ShardHost,
        groups: GroupOffsets,
        producer_ids: ProducerIdSource,
        delays: PendingDelays,
        peers: TransactionPeers,
        config: BrokerConfig,
    ) -> None:
        self._host = host
        self._groups = groups
        self._producer_ids = producer_ids
        self._settings = transaction_settings(config)
        self._room = TransactionRoom(host, config, lambda: self.state.loaded_shards())
        self._writing: set[asyncio.Task[None]] = set()
        self._endings = Endings()
        self._peers = peers
        self.markers = MarkerWriter(host, groups, delays, peers)
        # How transactions ended since the start.
        self.ended: Counter[MarkerType] = Counter()
        self.state = StateTopic(
            host,
            STATE_TOPIC,
            partitions=config.transaction_state_log_num_partitions,
            make=self._make,
            replayed=lambda machine, partition: machine.lead(partition.leader_epoch),
            perform=self._perform,
            loaded=lambda shard: shard.machine.on_settings_changed(self._settings),
            shard_key=shard_key,
            held_ms=lambda: host.hosted.holding.transactions_held_ms,
        )

    async def coordinator(self, key: str) -> TopicPartition:
        """Whose leader coordinates a transactional id, or a group of them."""
        await self.state.ensure()
        return self.state.place(self.state.partition_for(key))

    def led(self, place: TopicPartition) -> None:
        self.state.led(place)

    def no_longer_led(self, place: TopicPartition) -> None:
        self.state.no_longer_led(place)
        self._endings.give_up()

    def followed(self, hosted: HostedPartition) -> None:
        self.state.followed(hosted)

    async def _deciding_shard(self, key: str) -> StateShard[TransactionMachine]:
        """Nothing is decided while a backup asks one broker after the other for its cut."""
        return await self._when_free(lambda: self.state.shard_for(key))

    async def _when_free(
        self, find: Callable[[], Awaitable[StateShard[TransactionMachine]]]
    ) -> StateShard[TransactionMachine]:
        """A shard that decides in this turn of the event loop."""
        holding = self._host.hosted.holding
        while True:
            shard = await find()
            if not holding.transactions_held_ms:
                return shard
            await holding.transactions_may_go_on()

    # --- producers and what they write to -------------------------------------------------

    async def init_producer_id(
        self,
        _right: WritableTransactionalId | IdempotentWriter,
        request: InitProducerId,
        *,
        administers_cluster: bool = False,
    ) -> ProducerIdAnswer:
        """`administers_cluster`: who asks does."""
        await self._producer_ids.refill()
        if request.transactional_id is None:
            producer_id = self._producer_ids.take()
            if producer_id is None:
                return ProducerIdAnswer(error=TransactionError.COORDINATOR_LOAD_IN_PROGRESS)
            return ProducerIdAnswer(
                error=TransactionError.NONE, producer_id=producer_id, producer_epoch=0
            )
        shard = await self._deciding_shard(request.transactional_id)
        if request.transactional_id not in shard.machine.transactions:
            self._room.check_new(request.transactional_id, administers_cluster=administers_cluster)
        return await shard.execute(timed(TransactionMachine.init_producer_id, request))

    async def add_partitions(
        self, transactional_id: WritableTransactionalId, request: WritablePartitions
    ) -> AddPartitionsAnswer:
        """All or none: if one cannot be added, the others say that they were not tried."""
        errors = {
            place: error
            for place in request.partitions
            if (error := self._check_place(place, request)) is not None
        }
        if errors:
            untried = dict.fromkeys(request.partitions, TransactionError.OPERATION_NOT_ATTEMPTED)
            return AddPartitionsAnswer(transactional_id=transactional_id, errors=untried | errors)
        return await self._add_partitions(request)

    async def begin(
        self, transactional_id: WritableTransactionalId, *, producer_id: int, producer_epoch: int
    ) -> None:
        """Open a transaction without a partition yet; raises what is in the way."""
        await self._add_some(transactional_id, frozenset(), producer_id, producer_epoch)

    async def add_partition(
        self,
        transactional_id: WritableTransactionalId,
        topic: WritableTopic,
        index: int,
        *,
        producer_id: int,
        producer_epoch: int,
    ) -> None:
        """Of a topic that the caller has looked at; raises what is in the way."""
        place = topic_partition(topic, index)
        await self._add_some(transactional_id, frozenset({place}), producer_id, producer_epoch)

    async def _add_some(
        self,
        transactional_id: str,
        partitions: frozenset[TopicPartition],
        producer_id: int,
        producer_epoch: int,
    ) -> None:
        request = AddPartitions(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            partitions=partitions,
        )
        for error in (await self._add_partitions(request)).errors.values():
            check(error)

    def _check_place(
        self, place: TopicPartition, request: AddPartitions
    ) -> TransactionError | None:
        topic = self._host.image.topics.get(place.topic)
        is_asked_for_offsets = request.is_of_broker and place.topic == OFFSETS_TOPIC
        if topic is None and is_asked_for_offsets:
            # The broker that asks has just made it with the first commit of all; news of it is on
            # the way, and whoever asks comes again.
            return TransactionError.COORDINATOR_LOAD_IN_PROGRESS
        if topic is None or not 0 <= place.partition < len(topic.partitions):
            return TransactionError.UNKNOWN_TOPIC_OR_PARTITION
        if topic.is_internal and not request.verify_only and not is_asked_for_offsets:
            # Offsets come in by AddOffsetsToTxn, or from the broker that keeps those of the group;
            # no other internal topic is part of transactions.
            return TransactionError.TOPIC_AUTHORIZATION_FAILED
        return None

    async def _add_partitions(self, request: AddPartitions) -> AddPartitionsAnswer:
        shard = await self._deciding_shard(request.transactional_id)
        if not request.verify_only:
            self._room.check_partitions(shard.machine, request)
        return await shard.execute(timed(TransactionMachine.add_partitions, request))

    async def add_offsets(
        self, transactional_id: WritableTransactionalId, _group: ReadableGroup, request: AddOffsets
    ) -> AddOffsetsAnswer:
        shard = await self._deciding_shard(transactional_id)
        return await shard.execute(timed(TransactionMachine.add_offsets, request))

    async def commit_offsets(
        self,
        transactional_id: WritableTransactionalId,
        group: ReadableGroup,
        request: ReadableTransactionCommit,
        *,
        adds_offsets: bool,
        administers_cluster: bool = False,
    ) -> OffsetCommitResult:
        """Commit offsets within a transaction.

        With `adds_offsets` (transaction version 2) the group joins the transaction here; else the
        producer has said so before. `administers_cluster`: who asks does.
        """
        await self._ask_coordinator(
            AddPartitions(
                transactional_id=transactional_id,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                partitions=frozenset({self._groups.offsets_partition(group)}),
                verify_only=not adds_offsets,
            )
        )
        return await self._groups.commit_in_transaction(
            group, request, administers_cluster=administers_cluster
        )

    # --- ends -----------------------------------------------------------------------------

    async def end(
        self, transactional_id: WritableTransactionalId, request: EndTransaction
    ) -> ProducerIdAnswer:
        await self._producer_ids.refill()
        shard = await self._deciding_shard(transactional_id)
        return await shard.execute(timed(TransactionMachine.end_transaction, request))

    async def commit_group(
        self, group: WritableTransactionalId, request: CommitGroup
    ) -> GroupAnswer:
        shard = await self._deciding_shard(group)
        answer = await shard.execute(timed(TransactionMachine.commit_group, request))
        await self.settled(*answer.ending)
        return answer

    async def abort_group(self, group: WritableTransactionalId, request: AbortGroup) -> GroupAnswer:
        shard = await self._deciding_shard(group)
        answer = await shard.execute(timed(TransactionMachine.abort_group, request))
        await self.settled(*answer.ending)
        return answer

    async def renew_group(
        self, group: WritableTransactionalId, request: RenewGroup
    ) -> GroupRenewed:
        shard = await self.state.shard_for(group)
        return await shard.execute(timed(TransactionMachine.renew_group, request))

    async def settled(self, *transactional_ids: str, give_up_at: float | None = None) -> bool:
        """Return once none of them is being ended any more; False if that takes too long.

        `give_up_at` is a time of the event loop.
        """
        if give_up_at is None:
            give_up_at = asyncio.get_running_loop().time() + END_WAIT_SECONDS
        try:
            async with asyncio.timeout_at(give_up_at):
                for each in transactional_ids:
                    while await self._is_ending(each):
                        await self._endings.next(each)
        except TimeoutError:
            return False
        return True

    async def _is_ending(self, transactional_id: str) -> bool:
        shard = await self.state.shard_for(transactional_id)
        found = shard.machine.transactions.get(transactional_id)
        return found is not None and found.state.is_prepared

    # --- looking --------------------------------------------------------------------------

    async def describe_group(
        self, group: DescribableTransactionalId, request: DescribeGroup
    ) -> GroupDescription:
        if not self.state.exists:
            # Nobody has used transactions yet.
            return GroupDescription(
                group_id=request.group_id, last_sequence=None, committed_ms=None, open_members=()
            )
        shard = await self.state.shard_for(group)
        return await shard.execute(untimed(TransactionMachine.describe_group, request))

    async def list(
        self, seen: DescribableTransactionalIds, request: ListTransactions
    ) -> ListTransactionsAnswer:
        """Of all shards. An error of one is the answer's."""
        found: list[ListedTransaction] = []
        unknown: tuple[str, ...] = ()
        for shard in await self.state.readable_shards():
            answer = await shard.execute(timed(TransactionMachine.list_transactions, request))
            if answer.error is not TransactionError.NONE:
                return answer
            unknown = answer.unknown_states
            found += (each for each in answer.transactions if each.transactional_id in seen)
        return ListTransactionsAnswer(unknown_states=unknown, transactions=tuple(found))

    async def describe(
        self, transactional_id: DescribableTransactionalId | WritableTransactionalId
    ) -> TransactionDescription:
        return await self._describe(transactional_id)

    async def _describe(self, transactional_id: str) -> TransactionDescription:
        shard = await self.state.shard_for(transactional_id)
        request = DescribeTransaction(transactional_id=transactional_id)
        return await shard.execute(untimed(TransactionMachine.describe_transaction, request))

    # --- checks before others write -------------------------------------------------------

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
        await self._ask_coordinator(request)
        return guard

    async def _ask_coordinator(self, request: AddPartitions) -> None:
        """On behalf of a partition that is led here; the coordinator may be on another broker.

        Raises what is in the way. A coordinator that is moving is back soon.
        """
        shard = topic_partition(STATE_TOPIC, self.state.partition_for(request.transactional_id))
        coordinator = self._peers.leader_elsewhere(shard)
        try:
            if coordinator is None:
                answer = await self._add_partitions(request)
            else:
                answer = await self._peers.add_partitions(coordinator, request)
        except (NotLeader, StateLoading) as error:
            later = TransactionError.COORDINATOR_LOAD_IN_PROGRESS
            raise TransactionRefused(later, error.message) from error
        for refusal in answer.errors.values():
            check(refusal)

    # --- what the machine is made of, and what it asks for --------------------------------

    def use_settings(self, config: BrokerConfig) -> None:
        """Whoever has a longer time-out already keeps it."""
        self._settings = transaction_settings(config)
        for shard in self.state.loaded_shards():
            shard.machine.on_settings_changed(self._settings)

    def _make(self, _index: int) -> TransactionMachine:
        return TransactionMachine(
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
        report = await self.markers.write_all(effect)
        try:
            shard = await self._when_free(lambda: self.state.shard(index))
        except GoQueueError as error:
            # The next coordinator finds in its log what is to be ended, and has all written again.
            logger.info("transaction %r is ended elsewhere: %s", effect.transactional_id, error)
            self._endings.ended(effect.transactional_id)
            return
        outcome = shard.machine.markers_written(report, now_ms=self._host.clock_ms())
        if outcome.records:
            self.ended[effect.marker.type] += 1
        shard.take(outcome)
        self._endings.ended(effect.transactional_id)

    def close(self) -> None:
        for task in self._writing:
            task.cancel()
        self.state.close()
