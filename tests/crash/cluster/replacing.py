"""Each broker of a cluster under load is drained, stopped, forgotten and replaced by an empty one.

    python -m tests.crash.cluster.replacing --turns 3

Three brokers have everything, and a fourth one is there to take it. Clients are those of
`rounds.py`: nothing may be lost, doubled, torn, skipped or out of order, and all replicas are the
same.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import requests

from goqueue.testing import GoQueueCluster
from tests.busy_machine import stretched
from tests.crash.cluster.replicas import differing
from tests.crash.cluster.rounds import BROKER_OPTIONS, PEACE_S, PLACES, Rounds

BROKERS: Final = 4
# Copies must be made of everything that was written so far.
DRAINED_S: Final = 180.0


class Replacing(Rounds):
    def __init__(self, folder: Path, seed: int, turns: int) -> None:
        self._turns = turns
        super().__init__(
            folder, seed, GoQueueCluster(*BROKER_OPTIONS, brokers=BROKERS, folder=folder)
        )

    def _run(self, enough: Callable[[int], bool], say: Callable[[str], None]) -> None:
        cluster = self.cluster
        writer = self._begin()
        for turn in range(self._turns):
            node = turn % BROKERS + 1
            began = time.monotonic()
            self._replace(node)
            self._wait_for_answers(writer)
            gap_s = writer.longest_gap_s(began)
            self.faults += 1
            self.gaps_s["a broker is replaced"].append(gap_s)
            took_s = time.monotonic() - began
            say(f"broker {node} replaced in {took_s:.1f} s, {gap_s:.2f} s without an answer")
            self._check_clients()
        self._wait_for_answers(writer)
        self._until(
            lambda: all(len(self.cluster.in_sync(*place)) == 3 for place in PLACES),
            "all replicas are in sync",
        )
        self._end_clients()
        found = self.history.check(self._read("read_uncommitted"), self._read("read_committed"))
        holders = {place: cluster.in_sync(*place) for place in PLACES}
        for node in cluster.running:
            cluster.stop(node)
        for place, nodes in holders.items():
            folders = [self._folder / f"node-{node}" for node in sorted(nodes)]
            found += differing(folders, [place])
        assert not found, "\n".join([f"{len(found)} violations", *found[:20]])

    def _replace(self, node: int) -> None:
        self._ask("PATCH", f"/cluster/nodes/{node}", {"isCordoned": True})
        plan = self._ask("GET", f"/cluster/plans/drain/{node}")
        assert not plan["stuck"], plan
        if plan["moves"]:
            wanted = [
                {k: each[k] for k in ("topic", "partition", "replicas")} for each in plan["moves"]
            ]
            answer = self._ask("POST", "/cluster/moves", {"moves": wanted})
            assert not any(each["error"] for each in answer["results"]), answer
        deadline = time.monotonic() + stretched(DRAINED_S)
        while self._state_of(node)["replicas"]:
            self._check_clients()
            assert time.monotonic() < deadline, self._ask("GET", "/cluster/moves")
            time.sleep(0.2)
        cluster = self.cluster
        assert cluster.stop(node) == 0
        self._until(lambda: self._state_of(node)["status"] == "dead", "it is known to be gone")
        self._ask("DELETE", f"/cluster/nodes/{node}")
        shutil.rmtree(self._folder / f"node-{node}")
        cluster.restart(node)
        cluster.wait_complete()
        self._ask("PATCH", f"/cluster/nodes/{node}", {"isCordoned": False})

    def _state_of(self, node: int) -> dict[str, Any]:
        nodes: list[dict[str, Any]] = self._ask("GET", "/cluster/state")["nodes"]
        return next(each for each in nodes if each["nodeId"] == node)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        deadline = time.monotonic() + stretched(PEACE_S)
        while True:
            url = self.cluster.server(self.cluster.running[-1]).http_url
            answer = requests.request(method, url + path, json=body, timeout=PEACE_S)
            if answer.status_code != 503:
                assert answer.status_code < 300, f"{method} {path}: {answer.text}"
                return answer.json() if answer.content else None
            assert time.monotonic() < deadline, answer.text
            time.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="goqueue-replacing-") as folder:
        rounds = Replacing(Path(folder), chosen.seed, chosen.turns)
        try:
            rounds.run(lambda _: True, lambda line: print(line, flush=True))
        except BaseException:
            print(rounds.summary())
            for node, text in rounds.logs.items():
                print(f"--- broker {node}\n{text[-4000:]}")
            raise
    print(rounds.summary())
    print("nothing lost, doubled, torn, skipped or out of order; all replicas are the same")
    return 0


if __name__ == "__main__":
    sys.exit(main())
