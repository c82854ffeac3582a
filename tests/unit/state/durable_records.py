"""Records that would rebuild a machine from nothing, made from what it holds in memory.

Machines have no need of this: the runtime reads its snapshots from the log. Tests compare it with
the log, which must tell the durable state and nothing else.
"""

from collections.abc import Iterator

from goqueue.state.groups.classic_group import ClassicGroup
from goqueue.state.groups.consumer_group import ConsumerGroup
from goqueue.state.groups.coordinator import GroupMachine
from goqueue.state.groups.current_assignment import CurrentAssignment
from goqueue.state.groups.offset_table import OffsetTable
from goqueue.state.groups.records import ClassicGroupKey, OffsetKey, PendingOffsetKey, record
from goqueue.state.groups.share_group import ShareGroup
from goqueue.state.groups.streams.group import StreamsGroup
from goqueue.state.machine import StateRecord
from goqueue.state.queues.machine import QueueMachine
from goqueue.state.queues.records import (
    BlockValue,
    FloorValue,
    block_record,
    floor_record,
    head_record,
)
from goqueue.state.schemas import records
from goqueue.state.schemas.machine import SchemaMachine
from goqueue.state.transactions import groups, transaction
from goqueue.state.transactions.machine import TransactionMachine


def of_groups(machine: GroupMachine) -> Iterator[StateRecord]:
    for group in machine._registry.groups.values():
        if isinstance(group, ClassicGroup):
            if group.durable is not None:
                yield record(ClassicGroupKey(group.group_id), group.durable)
        elif isinstance(group, ConsumerGroup):
            yield from group.records()
        elif isinstance(group, StreamsGroup):
            yield from _of_streams_group(group)
        else:
            assert isinstance(group, ShareGroup)
            yield from _of_share_group(group)
    yield from _of_offsets(machine._table)


def _of_share_group(group: ShareGroup) -> Iterator[StateRecord]:
    yield group.group_record(group.epoch, group.topics_digest, group.assignment_epoch)
    for member in group.members.values():
        yield group.member_record(member.member_id, member.said)
    for member_id, target in group.targets.items():
        yield group.target_record(member_id, target)


def _of_streams_group(group: StreamsGroup) -> Iterator[StateRecord]:
    yield group.facts_record(group.facts)
    if group.topology is not None:
        yield group.topology_record(group.topology.topology)
    for member in group.members.values():
        yield group.said_record(member)
        if member.current != CurrentAssignment():
            yield group.current_record(member)
    for member_id, target in group.targets.items():
        yield group.target_record(member_id, target)


def _of_offsets(table: OffsetTable) -> Iterator[StateRecord]:
    for group, topics in table.by_group.items():
        for topic, partitions in topics.items():
            for partition, committed in partitions.items():
                yield record(OffsetKey(group, topic, partition), committed)
    for producer_id, offsets in table.pending.items():
        for where, pending in offsets.items():
            yield record(PendingOffsetKey(producer_id, *where), pending)


def of_transactions(machine: TransactionMachine) -> Iterator[StateRecord]:
    for each in machine.transactions.values():
        yield transaction.to_record(each)
    for group in machine._groups._groups.values():
        yield groups.to_record(group)


def of_queues(machine: QueueMachine) -> Iterator[StateRecord]:
    for queue in machine._queues.values():
        if queue.head is None:
            continue
        yield head_record(queue.key, queue.head)
        ledger = queue.ledger
        floor = FloorValue(ledger.generation, ledger.floor, list(ledger.full))
        yield floor_record(queue.key, floor)
        for number, block in ledger.blocks.items():
            value = BlockValue(ledger.generation, block.starts, block.values)
            yield block_record(queue.key, number, value)


def of_schemas(machine: SchemaMachine) -> Iterator[StateRecord]:
    catalogue = machine.catalogue
    for context in catalogue.contexts():
        yield records.ids_record(context, catalogue.highest_id(context))
    for schema in catalogue.schemas.values():
        yield records.schema_record(schema)
    for version in catalogue.all_versions():
        yield records.version_record(version)
    for scope, config in catalogue.configs.items():
        yield records.config_record(scope, config)
    for scope, mode in catalogue.modes.items():
        yield records.mode_record(scope, mode)
