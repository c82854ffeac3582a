"""How long groups and their members are remembered, and how their names are read."""

import pytest

from goqueue.model.names import topic_partition
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.group_messages import (
    AbortGroup,
    CommitGroup,
    DescribeGroup,
    GroupAnswer,
    GroupDescription,
    GroupMember,
    GroupOutcome,
    GroupRenewed,
    RenewGroup,
)
from goqueue.model.transactions.group_names import (
    group_key,
    group_of,
    is_group_id,
    is_malformed,
    member_id,
    shard_key,
)
from goqueue.model.transactions.messages import AddPartitions, InitProducerId, ProducerIdAnswer
from goqueue.model.transactions.states import TransactionState
from goqueue.state.machine import Outcome, Ticket
from goqueue.state.transactions.groups import MEMBER_EXPIRATION_MS
from goqueue.state.transactions.machine import TransactionMachine
from goqueue.state.transactions.producer_ids import ProducerIds
from tests.unit.state import durable_records

PARTITION = topic_partition("t", 0)


def new_machine() -> TransactionMachine:
    ids = ProducerIds()
    ids.add_block(1, 100)
    return TransactionMachine(
        coordinator_epoch=0, next_producer_id=ids.take, offsets_partition=lambda _: PARTITION
    )


def carry_out(machine: TransactionMachine, outcome: Outcome) -> object:
    for record in outcome.records:
        machine.replay(record)
    return outcome.replies[0].response if outcome.replies else None


def commit(machine: TransactionMachine, sequence: int, *, now_ms: int, keep_ms: int) -> object:
    request = CommitGroup(group_id="g", sequence=sequence, members=(), keep_ms=keep_ms)
    answer = carry_out(machine, machine.commit_group(request, ticket=Ticket(0), now_ms=now_ms))
    assert isinstance(answer, GroupAnswer)
    return answer.outcome


def last_sequence(machine: TransactionMachine) -> int | None:
    found = carry_out(
        machine, machine.describe_group(DescribeGroup(group_id="g"), ticket=Ticket(0))
    )
    assert isinstance(found, GroupDescription)
    return found.last_sequence


def test_a_sequence_is_remembered_as_long_as_asked_for() -> None:
    machine = new_machine()
    assert commit(machine, 4, now_ms=0, keep_ms=1_000) is GroupOutcome.COMMITTED
    assert commit(machine, 5, now_ms=500, keep_ms=1_000) is GroupOutcome.COMMITTED
    assert machine.next_deadline_ms() == 1_500
    carry_out(machine, machine.on_deadline(1_499))
    assert commit(machine, 5, now_ms=1_499, keep_ms=1_000) is GroupOutcome.ALREADY_COMMITTED
    carry_out(machine, machine.on_deadline(1_500))
    assert last_sequence(machine) is None
    assert list(durable_records.of_transactions(machine)) == []


def test_a_snapshot_has_the_groups() -> None:
    machine = new_machine()
    commit(machine, 5, now_ms=0, keep_ms=1_000)
    other = new_machine()
    for record in durable_records.of_transactions(machine):
        other.replay(record)
    assert last_sequence(other) == 5
    assert other.next_deadline_ms() == 1_000


def test_a_member_that_is_named_twice_is_committed_once() -> None:
    machine = new_machine()
    name = member_id("g", "0.0")
    init = InitProducerId(transactional_id=name, timeout_ms=1_000)
    identity = carry_out(machine, machine.init_producer_id(init, ticket=Ticket(0), now_ms=0))
    assert isinstance(identity, ProducerIdAnswer)
    member = GroupMember(name, identity.producer_id, identity.producer_epoch)
    begin = AddPartitions(
        transactional_id=name,
        producer_id=member.producer_id,
        producer_epoch=member.producer_epoch,
        partitions=frozenset({PARTITION}),
        verify_only=False,
    )
    carry_out(machine, machine.add_partitions(begin, ticket=Ticket(0), now_ms=0))
    request = CommitGroup(group_id="g", sequence=0, members=(member, member))
    outcome = machine.commit_group(request, ticket=Ticket(0), now_ms=0)
    carry_out(machine, outcome)
    assert len(outcome.effects) == 1


def test_idle_members_go_after_an_hour() -> None:
    machine = new_machine()
    for name in ("other", member_id("g", "0.0")):
        request = InitProducerId(transactional_id=name, timeout_ms=1_000)
        carry_out(machine, machine.init_producer_id(request, ticket=Ticket(0), now_ms=0))
    assert machine.next_deadline_ms() == MEMBER_EXPIRATION_MS
    carry_out(machine, machine.on_deadline(MEMBER_EXPIRATION_MS))
    assert list(machine.transactions) == ["other"]


@pytest.mark.parametrize("name", ["plain", "goqueue.group", "goqueue.groups/a/b"])
def test_other_names_stand_for_themselves(name: str) -> None:
    assert group_of(name) is None
    assert not is_malformed(name)
    assert shard_key(name) == name


def test_names_of_members() -> None:
    name = member_id("spark-query.1-2", "7.0")
    assert name == "goqueue.group/spark-query.1-2/7.0"
    assert group_of(name) == "spark-query.1-2"
    assert shard_key(name) == shard_key(group_key("spark-query.1-2"))
    assert len(member_id("g" * 180, "m" * 60)) <= 255
    for group, member in (("", "m"), ("g", ""), ("a/b", "m"), ("g" * 181, "m"), ("ä", "m")):
        with pytest.raises(ValueError, match="consist of ASCII letters"):
            member_id(group, member)
    assert is_malformed("goqueue.group/only-a-group")
    assert is_group_id("a.b-c_d")
    assert not is_group_id("a b")
    assert not is_group_id("a\n")


def init(machine: TransactionMachine, member: str, *, now_ms: int) -> TransactionError:
    request = InitProducerId(transactional_id=member_id("g", member), timeout_ms=1_000)
    answer = carry_out(machine, machine.init_producer_id(request, ticket=Ticket(0), now_ms=now_ms))
    assert isinstance(answer, ProducerIdAnswer)
    return answer.error


@pytest.mark.parametrize("commits", [False, True])
def test_a_closed_group_takes_no_late_members(commits: bool) -> None:
    machine = new_machine()
    assert init(machine, "0.0", now_ms=0) is TransactionError.NONE
    if commits:
        ending = CommitGroup(group_id="g", sequence=0, members=(), closes=True, keep_ms=1_000)
        outcome = machine.commit_group(ending, ticket=Ticket(0), now_ms=0)
    else:
        abort = AbortGroup(group_id="g", sequence=0, closes=True, keep_ms=1_000)
        outcome = machine.abort_group(abort, ticket=Ticket(0), now_ms=0)
    carry_out(machine, outcome)
    assert last_sequence(machine) == (0 if commits else None)
    for member in ("0.0", "1.0"):
        assert init(machine, member, now_ms=1) is TransactionError.PRODUCER_FENCED
    carry_out(machine, machine.on_deadline(1_000))
    assert init(machine, "1.0", now_ms=1_000) is TransactionError.NONE


def open_member(machine: TransactionMachine, name: str, *, now_ms: int) -> None:
    """One that has written, with a time-out of a second."""
    init = InitProducerId(transactional_id=name, timeout_ms=1_000)
    taken = carry_out(machine, machine.init_producer_id(init, ticket=Ticket(0), now_ms=now_ms))
    assert isinstance(taken, ProducerIdAnswer)
    assert taken.error is TransactionError.NONE
    add = AddPartitions(
        transactional_id=name,
        producer_id=taken.producer_id,
        producer_epoch=taken.producer_epoch,
        partitions=frozenset({PARTITION}),
    )
    carry_out(machine, machine.add_partitions(add, ticket=Ticket(0), now_ms=now_ms))


def open_members(machine: TransactionMachine) -> list[str]:
    described = machine.describe_group(DescribeGroup(group_id="g"), ticket=Ticket(0))
    found = carry_out(machine, described)
    assert isinstance(found, GroupDescription)
    return [each.member.transactional_id for each in found.open_members if each.state == "Ongoing"]


def renew(machine: TransactionMachine, *, now_ms: int) -> int:
    request = RenewGroup(group_id="g")
    outcome = machine.renew_group(request, ticket=Ticket(0), now_ms=now_ms)
    answer = carry_out(machine, outcome)
    assert isinstance(answer, GroupRenewed)
    assert answer.open_members == len(open_members(machine))
    return len(outcome.records)


def test_a_sign_of_life_keeps_all_of_a_group_open() -> None:
    machine = new_machine()
    first, second = member_id("g", "0.0"), member_id("g", "1.0")
    open_member(machine, first, now_ms=0)
    open_member(machine, second, now_ms=100)
    assert renew(machine, now_ms=200) == 0, "it is too soon to write anything"
    assert renew(machine, now_ms=900) == 2
    carry_out(machine, machine.on_deadline(1_899))
    assert open_members(machine) == [first, second]
    carry_out(machine, machine.on_deadline(1_900))
    assert open_members(machine) == []


def test_a_new_member_keeps_the_others_open() -> None:
    machine = new_machine()
    first, second = member_id("g", "0.0"), member_id("g", "1.0")
    open_member(machine, first, now_ms=0)
    open_member(machine, member_id("other", "0.0"), now_ms=0)
    open_member(machine, "nobody's", now_ms=0)
    open_member(machine, second, now_ms=800)
    carry_out(machine, machine.on_deadline(1_000))
    assert open_members(machine) == [first, second]
    ongoing = [
        name
        for name, transaction in machine.transactions.items()
        if transaction.state is TransactionState.ONGOING
    ]
    assert ongoing == [first, second], "who belongs to no group has its own time"
