"""Topics that are split under load: 3 to 6 to 12 partitions, read by groups of every kind.

`python -m tests.crash.splits --rounds 10` makes 20 splits; `--cluster` on three brokers, `--kill`
with a broker that is killed in the middle of each.
"""

import argparse
import random
import statistics
import tempfile

from goqueue.testing import ClusterAsServer, ServerProcess
from tests.crash.splits.java_clients import JAVA_KINDS
from tests.crash.splits.kills import Kills
from tests.crash.splits.rounds import ALL_KINDS, OPTIONS, QUIET_S, RATE, Pauses, SplitRound


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10, help="two splits each")
    parser.add_argument("--kinds", default=",".join(ALL_KINDS), help="of groups, with commas")
    parser.add_argument("--java", action="store_true", help="also groups of Apache Kafka's client")
    parser.add_argument("--cluster", action="store_true", help="three brokers")
    parser.add_argument("--kill", action="store_true", help="a kill -9 in each split")
    parser.add_argument("--rate", type=float, default=RATE, help="messages per second, of all")
    parser.add_argument("--quiet", type=float, default=QUIET_S, help="seconds between splits")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    made: type[ClusterAsServer] | type[ServerProcess]
    made = ClusterAsServer if asked.cluster else ServerProcess
    kinds = [*asked.kinds.split(","), *(JAVA_KINDS if asked.java else ())]
    pauses = {kind: Pauses([], []) for kind in kinds}
    busy: list[float] = []
    splits = messages = 0
    with tempfile.TemporaryDirectory() as folder, made(folder, *OPTIONS) as server:
        kills = Kills(server, asked.seed) if asked.kill else None
        for _ in range(asked.rounds):
            going = SplitRound(server, kinds, rate=asked.rate, quiet_s=asked.quiet, kills=kills)
            report = going.run((6, 12))
            splits += report.splits
            messages += report.messages
            busy += report.busy
            for kind, found in report.pauses.items():
                pauses[kind].splits_s.extend(found.splits_s)
                pauses[kind].quiet_s.extend(found.quiet_s)
            print(f"{splits} splits, {messages} messages: 0 out of order, 0 skipped", flush=True)
            for kind, found in report.pauses.items():
                print(f"    {_line(kind, found)}", flush=True)
    if kills is not None:
        print("killed: " + ", ".join(f"{role} {count}" for role, count in kills.done.items()))
    print(f"{asked.rate:g} messages a second; the machine was {statistics.mean(busy):.0%} busy")
    print("longest wait for members that keep their partitions, in splits and without:")
    for kind, found in pauses.items():
        print(f"    {_line(kind, found)}")


def _line(kind: str, pauses: Pauses) -> str:
    return f"{kind}: splits {_told(pauses.splits_s)}; quiet {_told(pauses.quiet_s)}"


def _told(each_s: list[float]) -> str:
    middle, longest = statistics.median(each_s), max(each_s)
    return f"median {middle * 1_000:.0f} ms, longest {longest * 1_000:.0f} ms"


if __name__ == "__main__":
    main()
