"""Leaders killed under mixed load: HTTP, SQS, share groups, delays, transactions, registry, groups.

    python -m tests.crash.cluster.features --kills 100
    python -m tests.crash.cluster.features --kills 100 --delays 1000000 --loads delays,http --seed 7

Three brokers and an etcd. Each load notes what it is told, by any broker; in the end all of it must
be true together. `outcome.json` has all figures; the exit code is 1 if a check failed.
"""

import argparse
import random
import sys
from pathlib import Path

from tests.crash.cluster.features.outcome import outcome_of, told_folder
from tests.crash.cluster.features.rounds import NAMES, FeatureRounds


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--delays", type=int, default=0, help="that many more wait for hours")
    parser.add_argument("--loads", default=",".join(NAMES), help="some of: %(default)s")
    parser.add_argument("--folder", type=Path, help="for data, outcome and logs; kept")
    chosen = parser.parse_args()
    loads = chosen.loads.split(",")
    if unknown := set(loads) - set(NAMES):
        parser.error(f"no such loads: {', '.join(sorted(unknown))}")
    rounds = FeatureRounds(
        told_folder(chosen.folder, chosen.seed) / "data",
        chosen.seed,
        loads=loads,
        pending=chosen.delays,
    )
    return outcome_of(rounds, chosen.kills)


if __name__ == "__main__":
    sys.exit(main())
