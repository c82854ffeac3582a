"""Runs the conversations in `transcripts/`: commands after `>`, then all that comes of them.

A failing transcript shows as a diff; the files are written to be read.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from goqueue.model.names import TopicPartition, topic_partition
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
from goqueue.state.machine import Outcome, StateRecord, Ticket
from goqueue.state.transactions.machine import TransactionMachine
from goqueue.state.transactions.producer_ids import ProducerIds
from goqueue.state.transactions.transaction import from_record, to_record

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


def partition(text: str) -> TopicPartition:
    topic, _, index = text.rpartition("-")
    return topic_partition(topic, int(index))


def names(partitions: frozenset[TopicPartition]) -> str:
    return " ".join(str(p) for p in sorted(partitions)) or "nothing"


def identity(text: str) -> tuple[int, int]:
    producer_id, _, epoch = text.partition("/")
    return int(producer_id), int(epoch)


class Conversation:
    """A runtime in small: appends, replays, answers; everything it does becomes a line."""

    def __init__(self) -> None:
        self.ids = ProducerIds()
        self.ids.add_block(1000, 1000)
        self.log: list[StateRecord] = []
        self.now_ms = 0
        self.coordinator_epoch = 0
        self.machine = self.start()

    def start(self) -> TransactionMachine:
        return TransactionMachine(
            coordinator_epoch=self.coordinator_epoch,
            next_producer_id=self.ids.take,
            offsets_partition=lambda group: topic_partition("__consumer_offsets", len(group)),
        )

    def run(self, command: str) -> list[str]:
        verb, *words = command.split()
        plain = [word for word in words if "=" not in word]
        options = dict(word.split("=", 1) for word in words if "=" in word)
        run: Callable[[list[str], dict[str, str]], Outcome] = getattr(self, f"do_{verb}")
        return self.carry_out(run(plain, options))

    def carry_out(self, outcome: Outcome) -> list[str]:
        lines = []
        for record in outcome.records:
            self.log.append(record)
            self.machine.replay(record)
            lines.append(f"  log    {describe_record(record)}")
        lines += [f"  write  {describe_markers(effect)}" for effect in outcome.effects]
        lines += [f"  answer {describe_answer(reply.response)}" for reply in outcome.replies]
        return lines or ["  nothing"]

    def do_init(self, words: list[str], options: dict[str, str]) -> Outcome:
        producer_id, epoch = identity(options.get("as", "-1/-1"))
        request = InitProducerId(
            transactional_id={"-": None, "''": ""}.get(words[0], words[0]),
            timeout_ms=int(options.get("timeout", "60000")),
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        return self.machine.init_producer_id(request, ticket=Ticket(1), now_ms=self.now_ms)

    def do_add(self, words: list[str], _: dict[str, str], verify_only: bool = False) -> Outcome:
        transactional_id, owner, *partitions = words
        producer_id, epoch = identity(owner)
        request = AddPartitions(
            transactional_id=transactional_id.strip("'"),
            producer_id=producer_id,
            producer_epoch=epoch,
            partitions=frozenset(partition(p) for p in partitions),
            verify_only=verify_only,
        )
        return self.machine.add_partitions(request, ticket=Ticket(1), now_ms=self.now_ms)

    def do_verify(self, words: list[str], options: dict[str, str]) -> Outcome:
        return self.do_add(words, options, verify_only=True)

    def do_offsets(self, words: list[str], _: dict[str, str]) -> Outcome:
        producer_id, epoch = identity(words[1])
        request = AddOffsets(
            transactional_id=words[0],
            producer_id=producer_id,
            producer_epoch=epoch,
            group_id=words[2],
        )
        return self.machine.add_offsets(request, ticket=Ticket(1), now_ms=self.now_ms)

    def do_commit(self, words: list[str], options: dict[str, str], commit: bool = True) -> Outcome:
        producer_id, epoch = identity(words[1])
        request = EndTransaction(
            transactional_id=words[0].strip("'"),
            producer_id=producer_id,
            producer_epoch=epoch,
            commit=commit,
            bumps_epoch=options["version"] == "2",
        )
        return self.machine.end_transaction(request, ticket=Ticket(1), now_ms=self.now_ms)

    def do_abort(self, words: list[str], options: dict[str, str]) -> Outcome:
        return self.do_commit(words, options, commit=False)

    def do_report(self, words: list[str], options: dict[str, str]) -> Outcome:
        producer_id, epoch = identity(words[1])
        report = MarkersWritten(
            transactional_id=words[0],
            producer_id=producer_id,
            producer_epoch=epoch,
            results={
                partition(name): MarkerResult[result.upper()] for name, result in options.items()
            },
        )
        return self.machine.markers_written(report, now_ms=self.now_ms)

    def do_wait(self, words: list[str], _: dict[str, str]) -> Outcome:
        self.now_ms += int(words[0])
        due_ms = self.machine.next_deadline_ms()
        if due_ms is None or due_ms > self.now_ms:
            return Outcome()
        return self.machine.on_deadline(self.now_ms)

    def do_crash(self, _: list[str], __: dict[str, str]) -> Outcome:
        self.coordinator_epoch += 1
        self.machine = self.start()
        for record in self.log:
            self.machine.replay(record)
        return self.machine.loaded(self.now_ms)

    def do_force(self, words: list[str], options: dict[str, str]) -> Outcome:
        """Pretend that the id has used up its epochs up to this one."""
        forced = msgspec.structs.replace(
            self.machine.transactions[words[0]], producer_epoch=int(options["epoch"])
        )
        return Outcome(records=[to_record(forced)])

    def do_drain(self, _: list[str], __: dict[str, str]) -> Outcome:
        """Use up all producer ids at hand."""
        while self.ids.take() is not None:
            pass
        return Outcome()

    def do_list(self, _: list[str], options: dict[str, str]) -> Outcome:
        request = ListTransactions(
            states=frozenset(filter(None, options.get("states", "").split(","))),
            producer_ids=frozenset(int(i) for i in options.get("ids", "").split(",") if i),
            running_longer_than_ms=int(options.get("longer", "-1")),
            id_pattern=options.get("pattern"),
        )
        return self.machine.list_transactions(request, ticket=Ticket(1), now_ms=self.now_ms)

    def do_describe(self, words: list[str], _: dict[str, str]) -> Outcome:
        request = DescribeTransaction(transactional_id=words[0].strip("'"))
        return self.machine.describe_transaction(request, ticket=Ticket(1))


def describe_record(record: StateRecord) -> str:
    transactional_id, transaction = from_record(record)
    if transaction is None:
        return f"{transactional_id} deleted"
    line = (
        f"{transactional_id} {transaction.state.label} "
        f"{transaction.producer_id}/{transaction.producer_epoch} last={transaction.last_epoch}"
    )
    if transaction.next_producer_id >= 0:
        line += f" next={transaction.next_producer_id}"
    if transaction.partitions:
        line += f" {names(transaction.partitions)}"
    return line


def describe_markers(effect: object) -> str:
    assert isinstance(effect, WriteMarkers)
    return (
        f"{effect.transactional_id} {effect.producer_id}/{effect.producer_epoch} "
        f"{effect.marker.type.name} coordinator={effect.marker.coordinator_epoch} "
        f"version={2 if effect.bumps_epoch else 1} {names(effect.partitions)}"
    )


def describe_answer(answer: object) -> str:
    match answer:
        case ProducerIdAnswer():
            if answer.producer_id < 0:
                return answer.error.name
            return f"{answer.error.name} {answer.producer_id}/{answer.producer_epoch}"
        case AddPartitionsAnswer():
            return " ".join(f"{p}={e.name}" for p, e in sorted(answer.errors.items()))
        case AddOffsetsAnswer():
            return answer.error.name
        case ListTransactionsAnswer():
            listed = [
                f"{t.transactional_id}:{t.producer_id}:{t.state}" for t in answer.transactions
            ]
            unknown = [f"unknown:{state}" for state in answer.unknown_states]
            return " ".join([answer.error.name, *listed, *unknown])
        case TransactionDescription():
            if not answer.state:
                return answer.error.name
            return (
                f"{answer.error.name} {answer.state} {answer.producer_id}/{answer.producer_epoch} "
                f"timeout={answer.timeout_ms} start={answer.start_ms} {names(answer.partitions)}"
            )
    raise AssertionError(answer)


def run_transcript(text: str) -> str:
    conversation = Conversation()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("> "):
            lines += [line, *conversation.run(line[2:])]
        elif not line.startswith("  "):
            lines.append(line)
    return "\n".join(lines) + "\n"


def test_there_are_transcripts() -> None:
    assert TRANSCRIPTS


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    text = path.read_text()
    assert run_transcript(text) == text
