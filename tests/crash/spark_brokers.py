"""What Spark talks to while something is killed: one broker, or three of which one is killed."""

import random
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from goqueue.testing import GoQueueCluster, ServerProcess

OPTIONS = ("--set", "log.level=warning")
# Long enough for others to lead, and for followers to fall behind.
AWAY_SECONDS = (0.5, 4.0)


class SparkBrokers:
    def __init__(self, folder: Path, *, of_a_cluster: bool) -> None:
        self._one = None if of_a_cluster else ServerProcess(folder / "data", *OPTIONS)
        self._cluster = GoQueueCluster(*OPTIONS, folder=folder / "data") if of_a_cluster else None
        self._running = ExitStack()

    def __enter__(self) -> Self:
        for each in (self._one, self._cluster):
            if each is not None:
                self._running.enter_context(each)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._running.__exit__(kind, error, trace)

    @property
    def bootstrap_servers(self) -> str:
        running = self._one or self._cluster
        assert running is not None
        return running.bootstrap_servers

    def kill_one(self, chance: random.Random) -> None:
        """And bring it back."""
        if self._one is not None:
            self._one.sigkill()
            self._one.restart()
        if self._cluster is not None:
            node = chance.choice(self._cluster.running)
            self._cluster.kill(node)
            time.sleep(chance.uniform(*AWAY_SECONDS))
            self._cluster.restart(node)
            self._cluster.wait_complete()

    @property
    def log_text(self) -> str:
        if self._one is not None:
            return self._one.log_text
        assert self._cluster is not None
        return "".join(self._cluster.server(node).log_text for node in self._cluster.node_ids)
