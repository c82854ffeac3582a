"""`python -m bench quick|full`: measure, print, and write the results."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from bench.artifacts import CACHE, ROOT, Missing, kafka_load
from bench.bars import check_bars
from bench.brokers.goqueue import EarlierGoQueue, GoQueue
from bench.brokers.kafka import Kafka
from bench.brokers.kafka_speaker import librdkafka_version
from bench.brokers.nats import Nats
from bench.brokers.own_protocol import OwnProtocolPeer
from bench.brokers.rabbitmq import RabbitMq
from bench.brokers.redis import Redis
from bench.child_process import BrokerFailed
from bench.figures import Row
from bench.kafka_suite import KafkaSuite
from bench.machine import describe_machine, keep_to_two_cores, load_average
from bench.peer_suite import PeerSuite
from bench.profiles import PROFILES, Profile
from bench.report import Report, render, write_report
from bench.rounds import say

RESULTS: Final = ROOT / "bench" / "results"
OTHER_PEERS: Final[dict[str, Callable[[], OwnProtocolPeer]]] = {
    "nats": Nats,
    "redis": Redis,
    "rabbitmq": RabbitMq,
}
ALL_PEERS: Final = ("kafka", *OTHER_PEERS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("profile", choices=sorted(PROFILES), nargs="?", default="quick")
    parser.add_argument(
        "--peers", default=",".join(ALL_PEERS), help="comma-separated (default: %(default)s)"
    )
    parser.add_argument(
        "--before", type=Path, help="a checkout of an earlier GoQueue, to compare with alone"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write to")
    arguments = parser.parse_args()
    chosen = arguments.peers.split(",")
    unknown = set(chosen) - set(ALL_PEERS)
    if unknown:
        parser.error(f"unknown peers: {', '.join(sorted(unknown))}")

    try:
        report = measure(PROFILES[arguments.profile], chosen, arguments.before)
    except (Missing, BrokerFailed) as error:
        # Without GoQueue or the Kafka client there is nothing to compare.
        sys.exit(f"bench: {error}")
    written = write_report(report, arguments.results)
    print(render(report))
    for path in written:
        say(f"written: {path}")


def measure(profile: Profile, chosen: list[str], before: Path | None = None) -> Report:
    keep_to_two_cores()
    started_at = datetime.now().astimezone()
    machine = describe_machine()
    kafka_load()
    _run(GoQueue.name, _start_and_stop, allowed=())
    versions = {
        GoQueue.name: GoQueue().version(),
        "Kafka client": f"librdkafka {librdkafka_version()}, from C",
    }
    missing: dict[str, str] = {}
    rows: list[Row] = []
    for name, version, found, reason in _outcomes(profile, chosen, before):
        rows += found
        if version:
            versions[name] = version
        if reason:
            missing[name] = reason
            say(f"{name}: {reason}")
    return Report(
        profile=profile.name,
        started_at=started_at,
        machine=machine,
        load_average_after=load_average(),
        versions=versions,
        missing=missing,
        bars=check_bars(rows, Kafka.name),
        rows=rows,
    )


Outcome = tuple[str, str, list[Row], str]


def _outcomes(profile: Profile, chosen: list[str], before: Path | None) -> Iterator[Outcome]:
    if before is not None:
        yield _kafka_speaker(EarlierGoQueue(before.absolute()), profile)
        return
    for choice in chosen:
        yield _kafka_speaker(Kafka(), profile) if choice == "kafka" else _other(choice, profile)


def _kafka_speaker(peer: Kafka | EarlierGoQueue, profile: Profile) -> Outcome:
    suite = KafkaSuite(GoQueue(), peer, profile)
    reason = _run(peer.name, suite.run)
    return peer.name, peer.version(), suite.rows, reason


def _other(choice: str, profile: Profile) -> Outcome:
    peer = OTHER_PEERS[choice]()
    suite = PeerSuite(GoQueue(), peer, profile)
    reason = _run(peer.name, suite.run)
    version = "" if reason else f"{peer.version()}; {peer.generator}"
    return peer.name, version, suite.rows, reason


def _start_and_stop(folder: Path) -> None:
    broker = GoQueue()
    broker.start(folder)
    broker.stop()


def _run(
    name: str,
    run: Callable[[Path], None],
    allowed: tuple[type[Exception], ...] = (Missing, BrokerFailed),
) -> str:
    """Runs in a folder of its own; returns which allowed error ended it, or nothing."""
    say(name)
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="run-", dir=CACHE) as folder:
        try:
            run(Path(folder))
        except allowed as error:
            return str(error)
    return ""


if __name__ == "__main__":
    main()
