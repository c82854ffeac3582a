import argparse
import random
import tempfile

from goqueue.testing import ClusterAsServer, ServerProcess
from tests.crash.splits.java_clients import JAVA_KINDS
from tests.crash.splits.rounds import ALL_KINDS, OPTIONS, SplitRound


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10, help="two splits each")
    parser.add_argument("--kinds", default=",".join(ALL_KINDS), help="of groups, with commas")
    parser.add_argument("--java", action="store_true", help="also groups of Apache Kafka's client")
    parser.add_argument("--cluster", action="store_true", help="three brokers")
    parser.add_argument("--kill", action="store_true", help="a kill -9 in each split")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    made: type[ClusterAsServer] | type[ServerProcess]
    made = ClusterAsServer if asked.cluster else ServerProcess
    kinds = [*asked.kinds.split(","), *(JAVA_KINDS if asked.java else ())]
    slowest: dict[str, list[float]] = {}
    splits = messages = 0
    with tempfile.TemporaryDirectory() as folder, made(folder, *OPTIONS) as server:
        for number in range(asked.rounds):
            going = SplitRound(server, kinds, asked.seed + number)
            report = going.run((6, 12), kill=asked.kill)
            splits += report.splits
            messages += report.messages
            shown = ", ".join(f"{k} {s * 1000:.0f} ms" for k, s in report.slowest_s.items())
            print(f"{splits} splits, {messages} messages; slowest: {shown}", flush=True)
            for kind, slowest_s in report.slowest_s.items():
                slowest.setdefault(kind, []).append(slowest_s)
    print(f"{splits} splits, {messages} messages: 0 out of order, 0 skipped")
    for kind, each in slowest.items():
        print(f"slowest delivery from partitions that stayed, {kind}: {max(each) * 1000:.0f} ms")


if __name__ == "__main__":
    main()
