"""Runs the conversations in `transcripts/`: commands after `>`, then all that comes of them.

Offsets are written as first-last, with the deliveries after `x`. The log is a table of last
values, as after compaction. A failing transcript shows as a diff; the files are written to be read.
"""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.lanes import Lane, LaneMode
from goqueue.model.queues.messages import (
    AckAction,
    Acknowledged,
    Acknowledgement,
    QueueDescription,
    QueueKey,
)
from goqueue.model.queues.settings import QueueSettings
from goqueue.state.machine import Outcome, StateRecord, Ticket
from goqueue.state.priority.index import LaneIndex
from goqueue.state.queues.machine import QueueMachine
from goqueue.state.queues.marks import FRESH, SETTLED, death_of, delivery_count
from goqueue.state.queues.messages import (
    Acknowledge,
    Acquire,
    Acquired,
    ConfigureQueue,
    DeadLetter,
    DeadLetterReport,
    DeleteAnswer,
    DeleteQueues,
    Done,
    LeasesEnded,
    MemberLeft,
    OpenQueue,
    QueueAnswer,
    QueueReady,
    ResetQueue,
    Skip,
)
from goqueue.state.queues.pieces import BLOCK_OFFSETS
from goqueue.state.queues.records import BlockKey, BlockValue, FloorValue, decode

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))

KEY = QueueKey("g", UUID(int=1), 0)


def offset_range(text: str) -> OffsetRange:
    first, _, last = text.partition("-")
    return OffsetRange(int(first), int(last or first) + 1)


def show(start: int, end: int) -> str:
    return str(start) if end == start + 1 else f"{start}-{end - 1}"


class Conversation:
    """A runtime in small: stores, replays, answers; everything it does becomes a line."""

    def __init__(self) -> None:
        self.table: dict[bytes, bytes] = {}
        self.now_ms = 1_000
        self.leases = 0
        self.end = 0
        self.lanes: LaneIndex | None = None
        self.generation = 0
        self.machine = self.start()

    def start(self) -> QueueMachine:
        return QueueMachine(new_lease_id=self.new_lease_id)

    def new_lease_id(self) -> int:
        self.leases += 1
        return self.leases

    def run(self, command: str) -> list[str]:
        verb, *words = command.split()
        plain = [word for word in words if "=" not in word]
        options = dict(word.split("=", 1) for word in words if "=" in word)
        run: Callable[[list[str], dict[str, str]], Outcome] = getattr(self, f"do_{verb}")
        return self.carry_out(run(plain, options))

    def carry_out(self, outcome: Outcome) -> list[str]:
        lines = []
        for record in outcome.records:
            self.table.pop(record.key, None)
            if record.value is not None:
                self.table[record.key] = record.value
            self.machine.replay(record)
            lines.append(f"  log    {describe_record(record)}")
        for effect in outcome.effects:
            if isinstance(effect, DeadLetter):
                self.generation = effect.generation
            lines.append(f"  effect {describe_effect(effect)}")
        lines += [f"  answer {describe_answer(reply.response)}" for reply in outcome.replies]
        return lines or ["  nothing"]

    # --- the log --------------------------------------------------------------------------

    def do_publish(self, words: list[str], options: dict[str, str]) -> Outcome:
        size = int(words[0])
        if "lane" in options:
            self.lanes = self.lanes or LaneIndex()
            self.lanes.append(Lane[options["lane"].upper()], self.end, self.end + size)
        self.end += size
        if self.lanes is not None:
            self.lanes.advance(self.end)
        return Outcome()

    def do_crash(self, _: list[str], __: dict[str, str]) -> Outcome:
        self.machine = self.start()
        for key, value in self.table.items():
            self.machine.replay(StateRecord(key, value))
        return self.machine.loaded(self.now_ms)

    def do_wait(self, words: list[str], _: dict[str, str]) -> Outcome:
        self.now_ms += int(words[0])
        due_ms = self.machine.next_deadline_ms()
        if due_ms is None or due_ms > self.now_ms:
            return Outcome()
        return self.machine.on_deadline(self.now_ms)

    def do_late(self, words: list[str], _: dict[str, str]) -> Outcome:
        """Time passes, but the runtime's timer has not fired yet."""
        self.now_ms += int(words[0])
        return Outcome()

    # --- queues ---------------------------------------------------------------------------

    @staticmethod
    def settings(options: dict[str, str]) -> QueueSettings:
        known = {
            "deliveries": "max_deliveries",
            "lease": "lease_ms",
            "member": "max_in_flight_per_member",
            "locks": "max_in_flight",
            "unsettled": "max_unsettled",
            "dead": "has_dead_letters",
            "expired": "expired_to_dead_letters",
        }
        chosen: dict[str, object] = {
            field: int(options[name]) for name, field in known.items() if name in options
        }
        for name in ("has_dead_letters", "expired_to_dead_letters"):
            if name in chosen:
                chosen[name] = bool(chosen[name])
        if "mode" in options:
            chosen["lane_mode"] = LaneMode(options["mode"])
        return msgspec.structs.replace(QueueSettings(), **chosen)

    def do_open(self, _: list[str], options: dict[str, str]) -> Outcome:
        request = OpenQueue(
            queue=KEY, start=int(options.get("start", "0")), settings=self.settings(options)
        )
        return self.machine.open_queue(request, ticket=Ticket(1), now_ms=self.now_ms)

    def do_configure(self, _: list[str], options: dict[str, str]) -> Outcome:
        request = ConfigureQueue(queue=KEY, settings=self.settings(options))
        return self.machine.configure_queue(request, ticket=Ticket(1))

    def do_reset(self, words: list[str], _: dict[str, str]) -> Outcome:
        request = ResetQueue(queue=KEY, start=int(words[0]))
        return self.machine.reset_queue(request, ticket=Ticket(1), now_ms=self.now_ms)

    def do_delete(self, _: list[str], options: dict[str, str]) -> Outcome:
        topic = UUID(int=int(options["topic"])) if "topic" in options else None
        request = DeleteQueues(group=options.get("group"), topic_id=topic)
        return self.machine.delete_queues(request, ticket=Ticket(1))

    def do_describe(self, _: list[str], __: dict[str, str]) -> Outcome:
        return self.machine.describe(
            KEY, ticket=Ticket(1), readable=OffsetRange(0, self.end), lanes=self.lanes
        )

    # --- messages -------------------------------------------------------------------------

    def do_take(self, words: list[str], options: dict[str, str]) -> Outcome:
        member, size = words
        only = tuple(offset_range(part) for part in options.get("only", "").split(",") if part)
        request = Acquire(
            queue=KEY,
            member=None if member == "-" else member,
            max_messages=int(size),
            readable=OffsetRange(int(options.get("start", "0")), self.end),
            lease_ms=int(options["lease"]) if "lease" in options else None,
            lanes=self.lanes,
            only=only or None,
            skipped=tuple(offset_range(s) for s in options.get("skipped", "").split(",") if s),
            expired=tuple(offset_range(s) for s in options.get("expired", "").split(",") if s),
        )
        return self.machine.acquire(request, ticket=Ticket(1), now_ms=self.now_ms)

    def acknowledge(self, words: list[str], options: dict[str, str]) -> Outcome:
        """`member action offsets [action offsets ...]`"""
        member, *rest = words
        items = tuple(
            Acknowledgement(
                offsets=offset_range(offsets),
                action=AckAction[action.upper()],
                lease_id=int(options["lease"]) if "lease" in options else None,
                delivery_count=int(options["count"]) if "count" in options else None,
                delay_ms=int(options["delay"]) if "delay" in options else None,
            )
            for action, offsets in zip(rest[::2], rest[1::2], strict=True)
        )
        request = Acknowledge(
            queue=KEY,
            member=None if member == "-" else member,
            items=items,
            is_atomic="atomic" in options,
        )
        return self.machine.acknowledge(request, ticket=Ticket(1), now_ms=self.now_ms)

    do_ack = acknowledge

    def do_skip(self, _: list[str], options: dict[str, str]) -> Outcome:
        request = Skip(
            queue=KEY,
            log_start=int(options.get("start", "0")),
            skipped=tuple(offset_range(s) for s in options.get("skipped", "").split(",") if s),
            expired=tuple(offset_range(s) for s in options.get("expired", "").split(",") if s),
        )
        return self.machine.skip(request, ticket=Ticket(1), now_ms=self.now_ms)

    def do_leave(self, words: list[str], _: dict[str, str]) -> Outcome:
        request = MemberLeft(group="g", member=words[0])
        return self.machine.member_left(request, ticket=Ticket(1), now_ms=self.now_ms)

    def do_report(self, words: list[str], options: dict[str, str]) -> Outcome:
        report = DeadLetterReport(
            queue=KEY,
            generation=int(options.get("generation", self.generation)),
            offsets=offset_range(words[0]),
            is_written=words[1] == "written",
        )
        return self.machine.dead_letter_report(report, now_ms=self.now_ms)


def describe_record(record: StateRecord) -> str:
    _, key, value = decode(record)
    name = f"block {key.number}" if isinstance(key, BlockKey) else type(key).__name__[:-3].lower()
    if value is None:
        return f"{name} deleted"
    if isinstance(value, FloorValue):
        full = ", ".join(f"blocks {show(*run)}" for run in value.full)
        return f"floor {value.floor}" + (f" and {full}" if full else "")
    if isinstance(value, BlockValue):
        ends = [*value.starts[1:], BLOCK_OFFSETS]
        base = key.number * BLOCK_OFFSETS if isinstance(key, BlockKey) else 0
        pieces = zip(value.starts, ends, value.marks, strict=True)
        shown = [
            f"{show(base + start, base + end)} {describe_mark(mark)}"
            for start, end, mark in pieces
            if mark != FRESH
        ]
        return f"{name}: {', '.join(shown) or 'all fresh'}"
    return f"queue at {value.start}, generation {value.generation}"


def describe_mark(mark: int) -> str:
    if mark == SETTLED:
        return "settled"
    reason = death_of(mark)
    count = f"x{delivery_count(mark)}"
    return count if reason is None else f"dying {count} {reason.name}"


def describe_effect(effect: object) -> str:
    if isinstance(effect, DeadLetter):
        return f"bury {show(*effect.offsets)} x{effect.delivery_count} {effect.reason.name}"
    if isinstance(effect, LeasesEnded):
        offsets = ", ".join(show(*each) for each in effect.ranges)
        return f"lease of {effect.member or 'somebody'} is over: {offsets}"
    assert isinstance(effect, QueueReady)
    return "ready"


def describe_answer(answer: object) -> str:
    match answer:
        case Acquired():
            taken = ", ".join(
                f"{show(*s.offsets)} x{s.delivery_count}"
                + (f" {s.lane.name.lower()}" if s.lane is not Lane.NORMAL else "")
                for s in answer.leased
            )
            limit = f" limited by {answer.limited_by.name}" if answer.limited_by else ""
            lease = f"lease {answer.lease_id}: {taken}" if taken else "nothing"
            return (answer.error.name if answer.error.name != "NONE" else lease) + limit
        case Acknowledged():
            return " ".join([answer.error.name, *(error.name for error in answer.errors)])
        case QueueAnswer():
            new = " new" if answer.is_new else ""
            return f"{answer.error.name}{new} floor {answer.floor} {answer.problem}".rstrip()
        case DeleteAnswer():
            return f"{answer.error.name} {len(answer.deleted)} deleted"
        case Done():
            return answer.error.name
        case QueueDescription():
            counts = " ".join(f"x{count}:{n}" for count, n in answer.delivery_counts.items())
            return (
                f"{answer.error.name} floor {answer.floor} ready {answer.ready} in flight "
                f"{answer.in_flight} waiting {answer.waiting} dying {answer.dying} settled above "
                f"{answer.settled_above_floor} {counts}"
            ).rstrip()
        case _:
            raise AssertionError(answer)


def retell(text: str) -> str:
    conversation = Conversation()
    lines = []
    for line in text.splitlines():
        if line.startswith(">"):
            lines += [line, *conversation.run(line[1:])]
        elif not line.startswith("  "):
            lines.append(line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    text = path.read_text()
    assert retell(text).splitlines() == text.splitlines()


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 10
