"""Leaders that are killed, stopped and paused while all loads work."""

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import ElectionType
from confluent_kafka.admin import AdminClient

from goqueue.client.http_api import HttpApi, HttpRefused, HttpUnreachable
from goqueue.model.companions import kind_and_owner
from goqueue.testing import GoQueueCluster
from tests.busy_machine import stretched
from tests.crash.cluster.features.loads import RECOVERY_S
from tests.crash.cluster.features.peace import Peace

# Whose leader is the next to fall: by role, how often.
ROLES: Final = {
    "data": 5,
    "companion": 3,
    "__consumer_offsets": 2,
    "__transaction_state": 1,
    "_schemas": 1,
    "controller": 1,
}
# What happens to it. Kills are counted, the others come on top.
KILL, STOP, PAUSE = "kill", "stop", "pause"
KINDS: Final = {KILL: 8, STOP: 1, PAUSE: 1}
AWAY_S: Final = (0.2, 4.0)
# Shorter than a broker's session, and longer.
PAUSED_S: Final = (1.0, 7.0)
SESSION_S: Final = 3.0
# What brokers tell each other after the last replica is in sync takes a moment.
CALM_S: Final = 1.0
PEACE_S: Final = (1.0, 3.0)
_LOOK_S: Final = 0.1


class Struck(NamedTuple):
    kind: str
    role: str
    what: str
    node: int
    away_s: float
    # Until every broker said that all is well.
    recovery_s: float


class Kills:
    def __init__(self, cluster: GoQueueCluster, peace: Peace, chance: random.Random) -> None:
        self.struck: list[Struck] = []
        self.pauses_ms: list[tuple[int, int]] = []
        self._cluster = cluster
        self._peace = peace
        self._chance = chance

    @property
    def kill_count(self) -> int:
        return sum(each.kind == KILL for each in self.struck)

    def strike(self) -> Struck:
        """One fault, from peace to peace."""
        role, what, node = self._victim()
        [kind] = self._chance.choices(list(KINDS), list(KINDS.values()))
        away_s = self._chance.uniform(*(PAUSED_S if kind == PAUSE else AWAY_S))
        self._peace.end()
        began = time.monotonic()
        began_ms = time.time_ns() // 1_000_000
        undo = self._do(kind, node)
        time.sleep(away_s)
        undo()
        if kind == PAUSE:
            # Only then is it known whether its session ran out.
            time.sleep(SESSION_S)
        self.wait_healthy()
        struck = Struck(kind, role, what, node, away_s, time.monotonic() - began)
        if kind == PAUSE:
            self.pauses_ms.append((began_ms, time.time_ns() // 1_000_000))
        self.struck.append(struck)
        if self._chance.random() < 0.5:
            self._give_back()
        time.sleep(CALM_S)
        return struck

    def _do(self, kind: str, node: int) -> Callable[[], None]:
        if kind == PAUSE:
            self._cluster.pause(node)
            return lambda: self._cluster.resume(node)
        if kind == STOP:
            stop(self._cluster, node)
        else:
            self._cluster.kill(node)
        return lambda: self._cluster.restart(node)

    def _victim(self) -> tuple[str, str, int]:
        """A role, a partition, and who leads it."""
        by_role: dict[str, list[tuple[str, int]]] = {}
        for partition in self._partitions():
            place = f"{partition['topic']}/{partition['partition']}"
            by_role.setdefault(_role(partition["topic"]), []).append((place, partition["leader"]))
        controller = self._cluster.controller()
        assert controller is not None
        by_role["controller"] = [("controller", controller)]
        roles = [role for role in ROLES if role in by_role]
        [role] = self._chance.choices(roles, [ROLES[each] for each in roles])
        what, node = self._chance.choice(sorted(by_role[role]))
        return role, what, node

    def _partitions(self) -> list[dict[str, Any]]:
        api = HttpApi(self._cluster.http_urls[0])
        found: list[dict[str, Any]] = api.get("cluster", "metadata", limit=10_000)["partitions"]
        return found

    def _give_back(self) -> None:
        """Those lead again that are meant to: leaders would gather at one broker otherwise."""
        admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap_servers, "log_level": 0})
        admin.elect_leaders(ElectionType.PREFERRED).result(RECOVERY_S)
        self.wait_healthy()

    def wait_healthy(self) -> None:
        deadline = time.monotonic() + stretched(RECOVERY_S)
        while reasons := self._reasons():
            assert time.monotonic() < deadline, f"not healthy within {RECOVERY_S:g} s: {reasons}"
            time.sleep(_LOOK_S)

    def _reasons(self) -> list[str]:
        """Why not, by word of each broker; none if all is well."""
        found: list[str] = []
        for url in self._cluster.http_urls:
            try:
                health = HttpApi(url, timeout_s=5.0).get("cluster", "health")
                state = HttpApi(url, timeout_s=5.0).get("cluster", "state")
            except (HttpUnreachable, HttpRefused) as error:
                found.append(error.message)
                continue
            if health["status"] != "healthy":
                found += health["reasons"]
            alive = [each["nodeId"] for each in state["nodes"] if each["status"] == "alive"]
            if len(alive) < len(self._cluster.node_ids):
                found.append(f"only {alive} are alive")
        return found

    def figures(self) -> dict[str, object]:
        recovery: dict[str, list[float]] = {}
        for each in self.struck:
            recovery.setdefault(each.kind, []).append(each.recovery_s - each.away_s)
        return {
            "kinds": dict(Counter(each.kind for each in self.struck)),
            "roles": dict(Counter(each.role for each in self.struck)),
            "healthy again after s": {kind: _spread(s) for kind, s in recovery.items()},
        }


def stop(cluster: GoQueueCluster, node: int) -> None:
    code = cluster.stop(node)
    log = cluster.server(node).log_text[-4000:]
    assert code == 0, f"broker {node} ended with {code}:\n{log}"


def _role(topic: str) -> str:
    if kind_and_owner(topic) is not None:
        return "companion"
    return topic if topic in ROLES else "data"


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "p50": round(ordered[len(ordered) // 2], 2),
        "p95": round(ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)], 2),
        "most": round(ordered[-1], 2),
    }
