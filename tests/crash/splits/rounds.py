"""One topic, all kinds of groups, two splits, and what they saw of it."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from goqueue.client.http_api import HttpApi, HttpRefused, HttpUnreachable
from tests.busy_machine import stretched
from tests.crash.splits.clients import SHARE, Sender, ShareMember, Worker
from tests.crash.splits.history import History, Span
from tests.crash.splits.java_clients import JAVA_KINDS, JavaSender, java_members
from tests.crash.splits.kills import Kills, Server
from tests.crash.splits.members import KINDS
from tests.crash.splits.processes import Members, librdkafka_members

DRAIN_MS: Final = 1_500
OPTIONS: Final = (
    *("--set", f"scale.drain.ms={DRAIN_MS}"),
    *("--set", "offsets.topic.num.partitions=3"),
)
FIRST: Final = 3
MEMBERS: Final = 3
SHARE_MEMBERS: Final = 2
WAIT_S: Final = 90.0
# Messages per second of all producers, each read by every group. Meant to leave two cores time to
# spare; where it does not, everybody waits for the processor, split or not. The report says.
RATE: Final = 200.0
# What is told of members that stay: as long without a split as with one.
QUIET_S: Final = 8.0
# Murmur2, as Java has it, and CRC-32, librdkafka's own.
PARTITIONERS: Final = ("murmur2_random", "consistent_random")


@dataclass(frozen=True)
class Pauses:
    """Of one group: for how long messages waited for a member that keeps its partitions, in each
    split, and in each time between."""

    splits_s: list[float]
    quiet_s: list[float]


@dataclass(frozen=True)
class Report:
    messages: int
    splits: int
    pauses: dict[str, Pauses]
    # How busy the machine was, from 0 to 1, in each split and between.
    busy: list[float]


@dataclass
class _Spans:
    splits: list[Span] = field(default_factory=list)
    quiet: list[Span] = field(default_factory=list)


class SplitRound:
    def __init__(
        self,
        server: Server,
        kinds: Sequence[str],
        *,
        rate: float = RATE,
        quiet_s: float = 1.0,
        kills: Kills | None = None,
    ) -> None:
        self._server = server
        self._api = HttpApi(server.http_url)
        self._topic = f"split-{uuid4().hex[:8]}"
        self._kills = kills
        self._quiet_s = quiet_s
        self._histories = {kind: History(f"{self._topic}-{kind}") for kind in kinds}
        self._has_java = any(kind in JAVA_KINDS for kind in kinds)
        self._pause_s = (len(PARTITIONERS) + self._has_java) / rate
        self._senders: list[Sender | JavaSender] = [
            Sender(server.bootstrap_servers, self._topic, number, partitioner, self._pause_s)
            for number, partitioner in enumerate(PARTITIONERS)
        ]
        self._members: list[Worker] = []
        self._spans = _Spans()

    def run(self, totals: Sequence[int]) -> Report:
        self._make_topic()
        if self._has_java:
            number = len(self._senders)
            bootstrap = self._server.bootstrap_servers
            self._senders.append(JavaSender(bootstrap, self._topic, number, self._pause_s))
        with self._readers():
            for sender in self._senders:
                sender.start()
            before = FIRST
            # Who has just begun is slow.
            time.sleep(self._quiet_s / 4)
            for total in totals:
                with _span(self._spans.quiet, before):
                    time.sleep(self._quiet_s)
                with _span(self._spans.splits, before):
                    self._split(total)
                before = total
            with _span(self._spans.quiet, before):
                time.sleep(self._quiet_s)
            for sender in self._senders:
                sender.stop()
            self._wait_for_all()
        return self._checked(totals)

    def _make_topic(self) -> None:
        # Appended times: a delay is then the reader's, not the producer's.
        config = {"message.timestamp.type": "LogAppendTime"}
        body = {"name": self._topic, "partitions": FIRST, "config": config}
        self._api.post("topics", body=body)
        for kind, history in self._histories.items():
            if kind == SHARE:
                self._begin_share_group(history.name)
            else:
                self._begin_group(history.name)

    def _begin_group(self, group: str) -> None:
        """Committed at the start, so that only what is split off could be skipped."""
        consumer = Consumer(
            {"bootstrap.servers": self._server.bootstrap_servers, "group.id": group}
        )
        places = [TopicPartition(self._topic, index, 0) for index in range(FIRST)]
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()

    def _begin_share_group(self, group: str) -> None:
        setting = ConfigEntry(
            "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[setting])
        admin = AdminClient({"bootstrap.servers": self._server.bootstrap_servers})
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(WAIT_S)

    @contextmanager
    def _readers(self) -> Iterator[None]:
        bootstrap = self._server.bootstrap_servers
        members: list[Members] = []
        for kind, history in self._histories.items():
            if kind == SHARE:
                self._members += [
                    ShareMember(bootstrap, self._topic, history, number)
                    for number in range(SHARE_MEMBERS)
                ]
            else:
                make = java_members if kind in JAVA_KINDS else librdkafka_members
                members.append(make(bootstrap, self._topic, history, kind, MEMBERS))
        self._members += members
        for member in self._members:
            member.start()
        try:
            until(
                lambda: all(len(member.assigned) == FIRST for member in members),
                "members have partitions",
            )
            yield
        finally:
            for member in self._members:
                member.stopping.set()
            for member in self._members:
                member.stop()

    def _split(self, total: int) -> None:
        self._api.post("topics", self._topic, "split", body={"partitions": total})
        if self._kills is not None:
            group = next(h.name for kind, h in self._histories.items() if kind != SHARE)
            self._kills.one(self._topic, group, within_s=1.5 * DRAIN_MS / 1_000)
        until(lambda: self._layout()["state"] == "settled", "the split is over")
        layout = self._layout()
        assert layout["partitionCount"] == total
        until(lambda: max(self._written()) >= layout["epochs"][-1]["parents"], "it is written to")
        for kind, history in self._histories.items():
            until(
                partial(self._reads_all, history),
                f"{kind} reads all partitions that are written to",
            )

    def _reads_all(self, history: History) -> bool:
        return self._written() <= history.partitions

    def _written(self) -> set[int]:
        found = [sender.partitions for sender in self._senders if isinstance(sender, Sender)]
        return set[int]().union(*map(frozenset, found))

    def _layout(self) -> Any:
        try:
            return self._api.get("topics", self._topic, "layout")
        except (HttpUnreachable, HttpRefused):
            return {"state": "unknown"}

    def _counts(self) -> dict[tuple[int, int], int]:
        return {of: count for sender in self._senders for of, count in sender.counts.items()}

    def _wait_for_all(self) -> None:
        counts = self._counts()
        for kind, history in self._histories.items():
            is_complete = partial(history.is_complete, counts, acknowledged=kind == SHARE)
            until(is_complete, f"{kind} has seen everything", partial(history.skipped, counts))

    def _checked(self, totals: Sequence[int]) -> Report:
        counts = self._counts()
        pauses: dict[str, Pauses] = {}
        spans = self._spans
        for kind, history in self._histories.items():
            wrong = history.early() if kind == SHARE else history.inversions()
            assert not wrong, f"{kind}: {len(wrong)} out of order, such as {wrong[:3]}"
            assert not history.skipped(counts), f"{kind}: {history.skipped(counts)[:3]} skipped"
            pauses[kind] = Pauses(
                [history.longest_s(span) for span in spans.splits],
                [history.longest_s(span) for span in spans.quiet],
            )
        busy = [span.busy for span in (*spans.splits, *spans.quiet)]
        return Report(sum(counts.values()), len(totals), pauses, busy)


@contextmanager
def _span(spans: list[Span], partitions: int) -> Iterator[None]:
    begin_s, before = time.time(), _processor_s()
    yield
    worked, idle = (now - then for now, then in zip(_processor_s(), before, strict=True))
    busy = worked / (worked + idle) if worked + idle else 0.0
    spans.append(Span(begin_s, time.time(), partitions, busy))


def _processor_s() -> tuple[float, float]:
    """In which all cores worked, and in which they had nothing to do."""
    fields = [float(text) for text in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    idle = fields[3] + fields[4]
    return sum(fields[:8]) - idle, idle


def until(is_so: Callable[[], bool], what: str, missing: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + stretched(WAIT_S)
    while not is_so():
        assert time.monotonic() < deadline, f"not within {WAIT_S:g} s: {what} {missing()}"
        time.sleep(0.1)


ALL_KINDS: Final = (*KINDS, SHARE)
