"""What happens to a cluster of real processes: chosen by chance, undone after a while."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from goqueue.testing import GoQueueCluster
from goqueue.testing.cluster_links import Place
from goqueue.testing.server_cluster import ETCD
from tests.crash.cluster.full_disk_server import flag_of
from tests.crash.cluster.load import LEDGER, LOG, PARTITIONS

# Shorter than a broker's session, about as long, longer.
LASTING_S: Final = (0.2, 1.0, 3.0, 6.0)


class Fault(NamedTuple):
    """What was done, and how to undo it."""

    name: str
    undo: Callable[[], None]
    # None: as long as chance says.
    lasts_s: float | None = None


class Faults:
    def __init__(self, cluster: GoQueueCluster, folder: Path, chance: random.Random) -> None:
        self._cluster = cluster
        self._folder = folder
        self._chance = chance

    def strike(self) -> Fault:
        kinds, weights = zip(*_KINDS, strict=True)
        (kind,) = self._chance.choices(kinds, weights)
        fault: Fault = kind(self)
        return fault

    def lasting_s(self) -> float:
        return self._chance.choice(LASTING_S) * self._chance.uniform(0.5, 1.5)

    # --- kinds ----------------------------------------------------------------------------

    def kill_leader(self) -> Fault:
        return self._kill(self._leader(), "leader")

    def kill_follower(self) -> Fault:
        return self._kill(self._follower(), "follower")

    def kill_controller(self) -> Fault:
        return self._kill(self._controller(), "controller")

    def kill_etcd(self) -> Fault:
        return self._kill(ETCD, "")

    def kill_all(self) -> Fault:
        nodes = self._cluster.running
        for node in nodes:
            self._cluster.kill(node)

        def undo() -> None:
            for node in nodes:
                self._cluster.launch(node)
            for node in nodes:
                self._cluster.server(node).wait_ready()

        return Fault("kill all brokers", undo, lasts_s=0.0)

    def stop_leader(self) -> Fault:
        node = self._leader()
        code = self._cluster.stop(node)
        assert code == 0, f"broker {node} ended with {code}:\n{self._cluster.server(node).log_text}"
        return Fault(f"stop leader {node}", lambda: self._cluster.restart(node))

    def pause_leader(self) -> Fault:
        return self._pause(self._leader(), "leader")

    def pause_follower(self) -> Fault:
        return self._pause(self._follower(), "follower")

    def pause_controller(self) -> Fault:
        return self._pause(self._controller(), "controller")

    def pause_etcd(self) -> Fault:
        return self._pause(ETCD, "")

    def cut_pair(self) -> Fault:
        one, other = self._chance.sample(self._cluster.node_ids, 2)
        return self._cut(one, other)

    def cut_from_etcd(self) -> Fault:
        return self._cut(self._chance.choice(self._cluster.node_ids), ETCD)

    def fill_disk(self) -> Fault:
        node = self._chance.choice(self._cluster.node_ids)
        flag = flag_of(self._folder / f"node-{node}")
        flag.touch()

        def undo() -> None:
            flag.unlink()
            # A partition whose disk failed stays offline until the broker starts anew.
            self._cluster.kill(node)
            self._cluster.restart(node)

        return Fault(f"fill disk of broker {node}", undo)

    # --- who ------------------------------------------------------------------------------

    def _leader(self) -> int:
        topic = self._chance.choice((LOG, LEDGER))
        leader = self._cluster.leader(topic, self._chance.randrange(PARTITIONS))
        return leader if leader in self._cluster.running else self._chance.choice(self._running())

    def _follower(self) -> int:
        leader = self._cluster.leader(LOG)
        return self._chance.choice([node for node in self._running() if node != leader])

    def _controller(self) -> int:
        found = self._cluster.controller()
        return found if found in self._cluster.running else self._chance.choice(self._running())

    def _running(self) -> list[int]:
        return self._cluster.running

    def _kill(self, place: Place, role: str) -> Fault:
        self._cluster.kill(place)
        return Fault(_named("kill", role, place), lambda: self._cluster.restart(place))

    def _pause(self, place: Place, role: str) -> Fault:
        self._cluster.pause(place)
        return Fault(_named("pause", role, place), lambda: self._cluster.resume(place))

    def _cut(self, one: Place, other: Place) -> Fault:
        if self._chance.random() < 0.5:
            self._cluster.cut(one, other)
            return Fault(f"cut {one} - {other}", self._cluster.heal)
        if self._chance.random() < 0.5:
            one, other = other, one
        self._cluster.cut(one, other, way="there")
        return Fault(f"cut {one} -> {other}", self._cluster.heal)


def _named(what: str, role: str, place: Place) -> str:
    return " ".join(filter(None, (what, role, str(place))))


_KINDS: Final = (
    (Faults.kill_leader, 4),
    (Faults.kill_follower, 2),
    (Faults.kill_controller, 2),
    (Faults.kill_etcd, 2),
    (Faults.kill_all, 1),
    (Faults.stop_leader, 2),
    (Faults.pause_leader, 3),
    (Faults.pause_follower, 1),
    (Faults.pause_controller, 2),
    (Faults.pause_etcd, 1),
    (Faults.cut_pair, 3),
    (Faults.cut_from_etcd, 2),
    (Faults.fill_disk, 1),
)
