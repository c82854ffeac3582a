"""All loads, all kills, and what is found in the end."""

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from goqueue.testing import GoQueueCluster
from goqueue.testing.server_process import ServerProcess
from tests.crash.cluster.features.delays import Delays
from tests.crash.cluster.features.groups import ConsumerGroups
from tests.crash.cluster.features.http_queue import HttpQueue
from tests.crash.cluster.features.kills import PEACE_S, Kills
from tests.crash.cluster.features.loads import Load, Surroundings, Worker
from tests.crash.cluster.features.peace import Peace
from tests.crash.cluster.features.registry import SchemaRegistry
from tests.crash.cluster.features.share_group import ShareGroup
from tests.crash.cluster.features.sqs_fifo import SqsFifo
from tests.crash.cluster.features.sqs_standard import SqsStandard
from tests.crash.cluster.features.transactions import Transactions

LOADS: Final[dict[str, Callable[[Surroundings], Load]]] = {
    each.name: each
    for each in (
        HttpQueue,
        SqsStandard,
        SqsFifo,
        ShareGroup,
        Transactions,
        SchemaRegistry,
        ConsumerGroups,
    )
}
NAMES: Final = (*LOADS, Delays.name)
SETTINGS: Final = {
    "log.level": "info",
    # Few: so that some load uses each of them.
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    # Leaders change when a round says so, and at no other time.
    "auto.leader.rebalance.enable": "false",
}

T = TypeVar("T")


class FeatureRounds:
    # What its brokers are run by.
    SERVERS: type[ServerProcess] = ServerProcess

    def __init__(
        self, folder: Path, seed: int, *, loads: Sequence[str] = NAMES, pending: int = 0
    ) -> None:
        self.folder = folder
        self.seed = seed
        self.outcome: dict[str, object] = {"seed": seed}
        self.violations: list[str] = []
        self.logs: dict[int, str] = {}
        self._names = loads
        self._pending = pending
        self._chance = random.Random(seed)
        self._peace = Peace()
        self._loads: list[Load] = []
        options = [word for each in SETTINGS.items() for word in ("--set", "=".join(each))]
        self._cluster = GoQueueCluster(*options, folder=folder, server_type=self.SERVERS)

    @property
    def failures_in_peace(self) -> int:
        return sum(sum(load.calls.failures_in_peace.values()) for load in self._loads)

    def run(self, kills: int, say: Callable[[str], None]) -> None:
        with self._cluster as cluster:
            striking = Kills(cluster, self._peace, self._chance)
            try:
                self._prepare(say)
                self._strike(striking, kills, say)
                self._settle(say)
            finally:
                # Read while the processes' folders are still there.
                self.logs = {node: cluster.server(node).log_text for node in cluster.node_ids}
                self._note(striking)

    def _prepare(self, say: Callable[[str], None]) -> None:
        cluster = self._cluster
        around = Surroundings(cluster.bootstrap_servers, cluster.http_urls, self._peace, self.seed)
        for name in self._names:
            began = time.monotonic()
            is_delays = name == Delays.name
            load = Delays(around, self._pending) if is_delays else LOADS[name](around)
            self._loads.append(load)
            load.prepare()
            say(f"{name} is prepared, {time.monotonic() - began:.1f} s")
        for load in self._loads:
            load.start()

    def _strike(self, striking: Kills, kills: int, say: Callable[[str], None]) -> None:
        striking.wait_healthy()
        while striking.kill_count < kills:
            struck, seen = self._disturbed(striking.strike)
            say(
                f"{striking.kill_count}/{kills} {struck.kind} {struck.node}, leader of "
                f"{struck.what}, for {struck.away_s:.1f} s; well after {struck.recovery_s:.1f} s; "
                f"{seen}"
            )
        for load in self._loads:
            if isinstance(load, Delays):
                load.history.pauses_ms += striking.pauses_ms
        self._peace.begin()

    def _disturbed(self, disturb: Callable[[], T]) -> tuple[T, str]:
        """After some peace; and what the loads saw of it."""
        self._peace.begin()
        time.sleep(self._chance.uniform(*PEACE_S))
        began = time.monotonic()
        done = disturb()
        for load in self._loads:
            load.check_workers()
        gaps = {load.name: load.calls.longest_gap_s(began) for load in self._loads}
        slowest = max(gaps, key=lambda name: gaps[name])
        return done, (
            f"longest without an answer {gaps[slowest]:.1f} s ({slowest}); "
            f"{self.failures_in_peace} failures in peace"
        )

    def _settle(self, say: Callable[[str], None]) -> None:
        say("peace: what is open is read to its end")
        settling = [Worker(f"{load.name}: settling", load.settle) for load in self._loads]
        for worker in settling:
            worker.start()
        for load, worker in zip(self._loads, settling, strict=True):
            worker.join()
            if worker.failure is not None:
                self.violations.append(f"{load.name} does not settle: {worker.failure!r}")
        for load in self._loads:
            found = load.violations()
            found += [f"{load.name}: internal error: {each}" for each in load.calls.internal_errors]
            self.violations += found
            say(f"{load.name}: {len(found)} violations; {load.figures()}")

    def _note(self, striking: Kills) -> None:
        self.outcome |= {
            **striking.figures(),
            "violations": self.violations,
            "failures in peace": self.failures_in_peace,
            "loads": {load.name: _figures(load) for load in self._loads},
            "rounds": [each._asdict() for each in striking.struck],
        }


def _figures(load: Load) -> dict[str, object]:
    return {
        **load.figures(),
        "answers": load.calls.answered_count,
        "failures": dict(load.calls.failures.most_common()),
        "failures in peace": dict(load.calls.failures_in_peace.most_common()),
        "examples": load.calls.examples_in_peace,
        "internal errors": load.calls.internal_errors,
    }
