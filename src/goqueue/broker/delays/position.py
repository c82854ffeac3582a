"""Where an index of delayed messages stands, and what the machine knew there besides messages."""

from array import array
from collections import deque
from typing import Final
from uuid import UUID

import msgspec

from goqueue.state.delays.held import HeldPart
from goqueue.state.delays.machine import Claim, DelayMachine, KnownBatch, Target
from goqueue.state.delays.records import NO_SPLIT, TargetKey

# 2: rows and this have checksums.
FORMAT: Final = 2


class StoredTarget(msgspec.Struct, frozen=True, array_like=True):
    topic_id: UUID
    partition: int
    producer_id: int | None
    next_sequence: int
    is_dropped: bool
    # Claims that are not known to be kept by the target: producer, base sequence, packed numbers.
    claims: list[tuple[int, int, bytes]]


class StoredOrigin(msgspec.Struct, frozen=True, array_like=True):
    topic_id: UUID
    partition: int
    producer_id: int
    # Epoch and sequence of each batch.
    known: list[tuple[int, int]]
    split_at_ms: list[int] = []


class StoredHeld(msgspec.Struct, frozen=True, array_like=True):
    topic_id: UUID
    partition: int
    producer_id: int
    parts: list[HeldPart]


class IndexPosition(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    next_offset: int
    # Of the leader that wrote the record before; -1 if it was written before this was noted.
    leader_epoch: int = -1
    next_number: int
    hot_until_ms: int
    producer_id: int | None
    targets: list[StoredTarget]
    origins: list[StoredOrigin]
    held: list[StoredHeld] = []


def position_of(machine: DelayMachine, next_offset: int, leader_epoch: int) -> IndexPosition:
    """With copies of all lists: it is written later, and the machine goes on meanwhile."""
    return IndexPosition(
        next_offset=next_offset,
        leader_epoch=leader_epoch,
        next_number=machine.next_number,
        hot_until_ms=machine.hot_until_ms,
        producer_id=machine.producer_id,
        targets=[_stored_target(target) for target in machine.targets],
        origins=[
            StoredOrigin(
                *key,
                producer,
                [(batch.producer_epoch, batch.base_sequence) for batch in known],
                [batch.split_at_ms for batch in known],
            )
            for key, producer, known in machine.origins()
        ],
        held=[StoredHeld(*key, producer, list(parts)) for key, producer, parts in machine.held],
    )


def restored(position: IndexPosition, *, now_ms: int, hot_until_ms: int) -> DelayMachine:
    """A machine that stands there, without its messages."""
    machine = DelayMachine(now_ms=now_ms, hot_until_ms=hot_until_ms)
    machine.restore(
        next_number=position.next_number,
        producer_id=position.producer_id,
        targets=[_target(stored) for stored in position.targets],
        origins=[
            (TargetKey(stored.topic_id, stored.partition), stored.producer_id, _batches(stored))
            for stored in position.origins
        ],
        held=[
            (TargetKey(stored.topic_id, stored.partition), stored.producer_id, part)
            for stored in position.held
            for part in stored.parts
        ],
    )
    return machine


def _batches(stored: StoredOrigin) -> list[KnownBatch]:
    splits = stored.split_at_ms or [NO_SPLIT] * len(stored.known)
    return [KnownBatch(*batch, at_ms) for batch, at_ms in zip(stored.known, splits, strict=True)]


def _target(stored: StoredTarget) -> Target:
    return Target(
        TargetKey(stored.topic_id, stored.partition),
        producer_id=stored.producer_id,
        next_sequence=stored.next_sequence,
        is_dropped=stored.is_dropped,
        claims=deque(
            Claim(producer_id, sequence, array("q", packed))
            for producer_id, sequence, packed in stored.claims
        ),
    )


def _stored_target(target: Target) -> StoredTarget:
    return StoredTarget(
        *target.key,
        producer_id=target.producer_id,
        next_sequence=target.next_sequence,
        is_dropped=target.is_dropped,
        claims=[
            (producer_id, sequence, array("q", numbers).tobytes())
            for producer_id, sequence, numbers in target.claims
        ],
    )
