"""The small parts of the coordinator: producer ids, codes for old clients, the stored form."""

import pytest

from goqueue.model.names import topic_partition
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.messages import InitProducerId
from goqueue.model.transactions.states import TransactionState
from goqueue.state.machine import Ticket
from goqueue.state.transactions.machine import DUE_PER_CALL, TransactionMachine
from goqueue.state.transactions.producer_ids import ProducerIds
from goqueue.state.transactions.transaction import (
    VALID_PREVIOUS,
    Transaction,
    from_record,
    to_record,
)


def test_producer_ids_come_from_blocks_in_order() -> None:
    ids = ProducerIds()
    assert ids.is_low
    assert ids.take() is None
    ids.add_block(5000, 150)
    ids.add_block(9000, 1)
    assert not ids.is_low
    assert [ids.take() for _ in range(150)] == list(range(5000, 5150))
    assert ids.is_low
    assert ids.take() == 9000
    assert ids.take() is None


@pytest.mark.parametrize("error", list(TransactionError))
def test_new_clients_see_every_error(error: TransactionError) -> None:
    assert error.for_client(knows_producer_fenced=True, knows_abortable=True) is error


def test_old_clients_see_the_codes_they_know() -> None:
    fenced = TransactionError.PRODUCER_FENCED
    assert (
        fenced.for_client(knows_producer_fenced=False, knows_abortable=True)
        is TransactionError.INVALID_PRODUCER_EPOCH
    )
    abortable = TransactionError.TRANSACTION_ABORTABLE
    assert (
        abortable.for_client(knows_producer_fenced=True, knows_abortable=False)
        is TransactionError.INVALID_TXN_STATE
    )


def example(state: TransactionState = TransactionState.ONGOING) -> Transaction:
    return Transaction(
        transactional_id="s\N{SNOWMAN}p",
        producer_id=2**62,
        producer_epoch=32_767,
        timeout_ms=1,
        state=state,
        updated_ms=2,
        start_ms=1,
        partitions=frozenset({topic_partition("b", 1), topic_partition("a", 7)}),
        last_epoch=32_766,
        previous_producer_id=4,
        next_producer_id=5,
        bumps_epoch=True,
    )


def test_the_stored_form_keeps_everything() -> None:
    record = to_record(example())
    assert from_record(record) == (example().transactional_id, example())
    assert to_record(example()) == record


@pytest.mark.parametrize("before", list(TransactionState))
@pytest.mark.parametrize("after", list(VALID_PREVIOUS))
def test_only_transitions_of_the_table_are_possible(
    before: TransactionState, after: TransactionState
) -> None:
    if before in VALID_PREVIOUS[after]:
        assert example(before).moved(after).state is after
    else:
        with pytest.raises(AssertionError):
            example(before).moved(after)


def test_labels_are_those_of_kafka() -> None:
    assert [state.label for state in TransactionState] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]


def test_many_ids_due_at_once_are_taken_in_bounded_parts() -> None:
    ids = ProducerIds()
    ids.add_block(0, 2 * DUE_PER_CALL)
    machine = TransactionMachine(
        coordinator_epoch=0,
        next_producer_id=ids.take,
        offsets_partition=lambda _: topic_partition("o", 0),
    )
    for number in range(DUE_PER_CALL + 1):
        request = InitProducerId(transactional_id=f"t{number}", timeout_ms=1_000)
        for record in machine.init_producer_id(request, ticket=Ticket(0), now_ms=0).records:
            machine.replay(record)
    due_ms = machine.next_deadline_ms()
    assert due_ms == 604_800_000
    parts = []
    while machine.next_deadline_ms() is not None:
        records = machine.on_deadline(due_ms).records
        parts.append(len(records))
        for record in records:
            machine.replay(record)
    assert parts == [DUE_PER_CALL, 1]
    assert not machine.transactions
