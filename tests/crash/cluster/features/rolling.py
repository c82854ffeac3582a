"""Brokers that are stopped and started one after the other, under mixed load of every feature.

    python -m tests.crash.cluster.features.rolling --turns 3
    python -m tests.crash.cluster.features.rolling --from REVISION

The first restarts all of them, `--turns` times. The second begins with brokers of the release that
was built from an earlier commit, and starts each of them again as what is checked out here; then
come the turns. On the way it tries what the earlier release does not know: refused while a broker
of it is there, possible then; and no broker of it can come back. Nothing that clients were told may
be undone, and nobody may be without an answer for longer than a client tries again by itself.
"""

import argparse
import os
import random
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Final

from goqueue.testing.server_process import ServerNotReady, ServerProcess
from tests.crash.cluster.features.kills import Kills, stop
from tests.crash.cluster.features.newer import NewerFeatures
from tests.crash.cluster.features.outcome import outcome_of, told_folder
from tests.crash.cluster.features.rounds import FeatureRounds

ROOT: Final = Path(__file__).parents[4]
# Without an answer for any request of a load: librdkafka and boto3 try for longer.
GAP_MAX_S: Final = 10.0


class AnyRelease(ServerProcess):
    def run_release(self, folder: Path) -> None:
        """From its next start on."""
        self._environment = {**os.environ, "PYTHONPATH": str(folder)}


class RollingRounds(FeatureRounds):
    SERVERS = AnyRelease

    # Of the release that all begin with, if it is another one.
    _earlier: Path | None = None

    def run_release(self, folder: Path) -> None:
        self._earlier = folder
        for node in self._cluster.node_ids:
            self._release_of(node, folder)

    def _strike(self, striking: Kills, turns: int, say: Callable[[str], None]) -> None:
        newer = NewerFeatures(self._cluster)
        newer.prepare()
        striking.wait_healthy()
        *_, last = self._cluster.node_ids
        for turn in range(turns):
            for node in self._cluster.node_ids:
                if turn == 0 and node == last and self._earlier is not None:
                    self._found("of two releases", newer.wrongly_allowed(1, last), say)
                took_s, seen = self._disturbed(partial(self._renew, striking, node))
                say(f"turn {turn + 1}/{turns}: broker {node}, well after {took_s:.1f} s; {seen}")
            if turn == 0:
                self._found("of one release", newer.wrongly_refused(1), say)
                striking.wait_healthy()
        if self._earlier is not None:
            self._found("downgraded", self._downgrade(striking, last, self._earlier), say)
        self._peace.begin()

    def _found(self, when: str, violations: list[str], say: Callable[[str], None]) -> None:
        self.violations += violations
        say(f"{when}: {len(violations)} violations")

    def _downgrade(self, striking: Kills, node: int, earlier: Path) -> list[str]:
        """A broker of the earlier release must not come back to what it would misread."""
        self._peace.end()
        stop(self._cluster, node)
        self._release_of(node, earlier)
        try:
            self._cluster.restart(node)
            return [f"broker {node} came back with the earlier release"]
        except ServerNotReady as failure:
            is_clear = "the cluster is at feature level 2; this release knows 1" in str(failure)
            return [] if is_clear else [f"broker {node} does not say why it ends: {failure}"]
        finally:
            if self._cluster.server(node).is_running:
                stop(self._cluster, node)
            self._release_of(node, ROOT / "src")
            self._cluster.restart(node)
            striking.wait_healthy()

    def _renew(self, striking: Kills, node: int) -> float:
        self._peace.end()
        began = time.monotonic()
        stop(self._cluster, node)
        self._release_of(node, ROOT / "src")
        self._cluster.restart(node)
        striking.wait_healthy()
        gaps = {load.name: load.calls.longest_gap_s(began) for load in self._loads}
        self.violations += [
            f"{name} had no answer for {gap_s:.1f} s while broker {node} was renewed"
            for name, gap_s in gaps.items()
            if gap_s > GAP_MAX_S
        ]
        return time.monotonic() - began

    def _release_of(self, node: int, folder: Path) -> None:
        server = self._cluster.server(node)
        assert isinstance(server, AnyRelease)
        server.run_release(folder)


def built(revision: str, folder: Path) -> Path:
    """The release of an earlier commit: its wheel, installed beside what it depends on."""
    source, wheels, release = folder / "source", folder / "wheels", folder / "release"
    archive = subprocess.run(
        ["git", "archive", revision], cwd=ROOT, check=True, stdout=subprocess.PIPE
    ).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        tar.extractall(source, filter="data")
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(wheels), str(source)], check=True)
    [wheel] = wheels.glob("*.whl")
    install = [*pip, "install", "--no-deps", "--target", str(release), str(wheel)]
    subprocess.run(install, check=True)
    return release


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--from", dest="revision", help="an earlier commit to begin with")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--folder", type=Path, help="for data, outcome and logs; kept")
    chosen = parser.parse_args()
    folder = told_folder(chosen.folder, chosen.seed)
    rounds = RollingRounds(folder / "data", chosen.seed)
    if chosen.revision is not None:
        rounds.run_release(built(chosen.revision, folder))
    return outcome_of(rounds, chosen.turns)


if __name__ == "__main__":
    sys.exit(main())
