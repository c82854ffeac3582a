"""One topic, all kinds of groups, two splits, and what they saw of it."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from goqueue.client.http_api import HttpApi, HttpRefused, HttpUnreachable
from goqueue.testing import ClusterAsServer, ServerProcess
from tests.busy_machine import stretched
from tests.crash.splits.clients import KINDS, SHARE, Member, Sender, ShareMember, Worker
from tests.crash.splits.history import History
from tests.crash.splits.java_clients import JAVA_KINDS, JavaMembers, JavaSender

Server = ServerProcess | ClusterAsServer

DRAIN_MS: Final = 1_500
OPTIONS: Final = (
    *("--set", f"scale.drain.ms={DRAIN_MS}"),
    *("--set", "offsets.topic.num.partitions=3"),
)
FIRST: Final = 3
MEMBERS: Final = 3
SHARE_MEMBERS: Final = 2
WAIT_S: Final = 90.0
BEFORE_S: Final = 1.0
# Murmur2, as Java has it, and CRC-32, librdkafka's own.
PARTITIONERS: Final = ("murmur2_random", "consistent_random")


@dataclass(frozen=True)
class Report:
    messages: int
    splits: int
    # By group: how long the slowest message took, from the first split on, of partitions that were
    # there before and stayed with their member.
    slowest_s: dict[str, float]


class SplitRound:
    def __init__(self, server: Server, kinds: Sequence[str], seed: int = 0) -> None:
        self._server = server
        self._api = HttpApi(server.http_url)
        self._topic = f"split-{uuid4().hex[:8]}"
        self._random = random.Random(seed)
        self._histories = {kind: History(f"{self._topic}-{kind}") for kind in kinds}
        self._senders: list[Sender | JavaSender] = [
            Sender(server.bootstrap_servers, self._topic, number, partitioner)
            for number, partitioner in enumerate(PARTITIONERS)
        ]
        self._members: list[Worker] = []
        self._split_s = 0.0

    def run(self, totals: Sequence[int], *, kill: bool = False) -> Report:
        self._make_topic()
        if any(kind in JAVA_KINDS for kind in self._histories):
            number = len(self._senders)
            self._senders.append(JavaSender(self._server.bootstrap_servers, self._topic, number))
        with self._readers():
            for sender in self._senders:
                sender.start()
            for total in totals:
                time.sleep(BEFORE_S)
                self._split(total, kill=kill)
            time.sleep(BEFORE_S)
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
        members: list[Member | JavaMembers] = []
        for kind, history in self._histories.items():
            if kind == SHARE:
                self._members += [
                    ShareMember(bootstrap, self._topic, history, number)
                    for number in range(SHARE_MEMBERS)
                ]
            elif kind in JAVA_KINDS:
                members.append(JavaMembers(bootstrap, self._topic, history, kind, MEMBERS))
            else:
                members += [
                    Member(bootstrap, self._topic, history, kind, number)
                    for number in range(MEMBERS)
                ]
        self._members += members
        for member in self._members:
            member.start()
        try:
            until(lambda: all(member.assigned for member in members), "members have partitions")
            yield
        finally:
            for member in self._members:
                member.stopping.set()
            for member in self._members:
                member.stop()

    def _split(self, total: int, *, kill: bool) -> None:
        self._split_s = self._split_s or time.time()
        self._api.post("topics", self._topic, "split", body={"partitions": total})
        if kill:
            time.sleep(self._random.uniform(0, 1.5 * DRAIN_MS / 1_000))
            self._server.sigkill()
            self._server.start()
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
            until(
                partial(history.is_complete, counts, acknowledged=kind == SHARE),
                f"{kind} has seen everything",
            )

    def _checked(self, totals: Sequence[int]) -> Report:
        counts = self._counts()
        slowest: dict[str, float] = {}
        for kind, history in self._histories.items():
            wrong = history.early() if kind == SHARE else history.inversions()
            assert not wrong, f"{kind}: {len(wrong)} out of order, such as {wrong[:3]}"
            assert not history.skipped(counts), f"{kind}: {history.skipped(counts)[:3]} skipped"
            slowest[kind] = history.slowest_s(FIRST, self._split_s)
        return Report(sum(counts.values()), len(totals), slowest)


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + stretched(WAIT_S)
    while not is_so():
        assert time.monotonic() < deadline, f"not within {WAIT_S:g} s: {what}"
        time.sleep(0.05)


ALL_KINDS: Final = (*KINDS, SHARE)
