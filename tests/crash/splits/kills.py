"""Brokers that die in the middle of a split, by what they do for it."""

import time
from itertools import cycle
from random import Random
from typing import Final

from confluent_kafka.admin import AdminClient

from goqueue.testing import ClusterAsServer, GoQueueCluster, ServerProcess

Server = ServerProcess | ClusterAsServer

_ROLES: Final = ("leader", "controller", "coordinator")
# Others take over within three seconds or so; then it comes back.
_AWAY_S: Final = (0.0, 4.0)
_ASKED_S: Final = 30.0


class Kills:
    """Each in turn on a cluster: who leads a parent, the controller, a group's coordinator. Where
    there is one broker, it is all of them."""

    def __init__(self, server: Server, seed: int) -> None:
        self._server = server
        self._random = Random(seed)
        self._roles = cycle(_ROLES)
        # How many died, by what they were.
        self.done: dict[str, int] = {}

    def one(self, topic: str, group: str, within_s: float) -> None:
        """At any time from now on, and start it again."""
        server = self._server
        time.sleep(self._random.uniform(0, within_s))
        role = "the only broker" if isinstance(server, ServerProcess) else next(self._roles)
        if isinstance(server, ServerProcess):
            server.sigkill()
            server.start()
        else:
            self._in_cluster(server.cluster, role, topic, group)
        self.done[role] = self.done.get(role, 0) + 1

    def _in_cluster(self, cluster: GoQueueCluster, role: str, topic: str, group: str) -> None:
        victim: int | None
        if role == "leader":
            victim = cluster.leader(topic, self._random.randrange(3))
        elif role == "controller":
            victim = cluster.controller()
        else:
            victim = _coordinator(cluster, group)
        assert victim is not None, f"nobody is {role}"
        cluster.kill(victim)
        time.sleep(self._random.uniform(*_AWAY_S))
        cluster.restart(victim)


def _coordinator(cluster: GoQueueCluster, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    found = admin.describe_consumer_groups([group])[group].result(_ASKED_S)
    return int(found.coordinator.id)
