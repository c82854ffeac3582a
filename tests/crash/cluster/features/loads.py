"""What a load is: workers that use one feature of the cluster, and a history to be checked."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.busy_machine import stretched
from tests.crash.cluster.features.calls import PATIENCE_S, Calls, NotAnswered
from tests.crash.cluster.features.peace import Peace
from tests.crash.cluster.load import Client

PARTITIONS: Final = 3
# How long a cluster may take to come to itself when nothing disturbs it any more.
RECOVERY_S: Final = 60.0
# What does not come true on a busy machine in this many times its time never does.
STRETCHED_MAX: Final = 3
_AFTER_FAILURE_S: Final = 0.1
_LOOK_S: Final = 0.05


class Surroundings(NamedTuple):
    """Where a load works."""

    bootstrap_servers: str
    http_urls: Sequence[str]
    peace: Peace
    seed: int


class Worker(threading.Thread):
    """Does its work until it is told to end. What must not happen ends it with `failure`."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        super().__init__(name=name, daemon=True)
        self.failure: BaseException | None = None
        self.ended = threading.Event()
        self._work = work

    def end(self) -> None:
        self.ended.set()

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.failure = error

    def repeat(self, step: Callable[[], None], pause_s: float) -> None:
        while not self.ended.is_set():
            try:
                step()
            except NotAnswered:
                self.ended.wait(_AFTER_FAILURE_S)
            self.ended.wait(pause_s)


class Load:
    """`prepare`, `start`; then `settle` once there is peace for good, and `violations`."""

    name: ClassVar[str]

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        # One source of chance for each worker, so that a seed gives each the same work.
        self._seeds = random.Random(f"{around.seed} {self.name}")
        self.calls = Calls(self.name, around.peace)
        self.workers: list[Worker | Client] = []

    def chance(self) -> random.Random:
        return random.Random(self._seeds.random())

    def worker(self, name: str, step: Callable[[], None], pause_s: float) -> Worker:
        """One that repeats a step."""
        worker = Worker(f"{self.name}: {name}", lambda: worker.repeat(step, pause_s))
        self.workers.append(worker)
        return worker

    # --- what each load does --------------------------------------------------------------

    def prepare(self) -> None:
        """Topics and queues, while all is well; and the workers."""
        raise NotImplementedError

    def settle(self) -> None:
        """No more is written; what is open is read to its end."""
        raise NotImplementedError

    def violations(self) -> list[str]:
        raise NotImplementedError

    def figures(self) -> dict[str, object]:
        raise NotImplementedError

    # --- what all do ----------------------------------------------------------------------

    def start(self) -> None:
        for worker in self.workers:
            worker.start()

    def check_workers(self) -> None:
        for worker in self.workers:
            if worker.failure is not None:
                raise AssertionError(f"{worker.name}: {worker.failure!r}") from worker.failure

    def end(self, *workers: Worker | Client) -> None:
        """Those named, or all; and wait for them."""
        ending = workers or tuple(self.workers)
        for worker in ending:
            worker.end()
        deadline = time.monotonic() + STRETCHED_MAX * PATIENCE_S
        for worker in ending:
            if worker.ident is not None:
                worker.join(max(0.0, deadline - time.monotonic()))
                assert not worker.is_alive(), f"{worker.name} does not end"
        self.check_workers()

    def until(self, is_so: Callable[[], bool], within_s: float = RECOVERY_S) -> bool:
        """Whether it came true in time."""
        deadline = time.monotonic() + min(stretched(within_s), STRETCHED_MAX * within_s)
        while not is_so():
            self.check_workers()
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_S)
        return True

    def make_topic(self, name: str, **config: str) -> None:
        """`queue_max_deliveries="0"` for `queue.max.deliveries`."""
        admin = AdminClient({"bootstrap.servers": self.around.bootstrap_servers, "log_level": 0})
        settings = {key.replace("_", "."): value for key, value in config.items()}
        new = NewTopic(name, PARTITIONS, 3, config=settings)
        deadline = time.monotonic() + stretched(RECOVERY_S)
        while True:
            try:
                admin.create_topics([new])[name].result(RECOVERY_S)
                return
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    return
                if time.monotonic() > deadline:
                    raise
