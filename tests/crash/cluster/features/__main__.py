"""Leaders killed under mixed load: HTTP, SQS, share groups, delays, transactions, registry, groups.

    python -m tests.crash.cluster.features --kills 100
    python -m tests.crash.cluster.features --kills 100 --delays 1000000 --loads delays,http --seed 7

Three brokers and an etcd. Each load notes what it is told, by any broker; in the end all of it must
be true together. `outcome.json` has all figures; the exit code is 1 if a check failed.
"""

import argparse
import json
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NoReturn

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
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="goqueue-features-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"seed {chosen.seed}, outcome in {folder / 'outcome.json'}", flush=True)
    # The brokers end with it, also when it is ended itself.
    signal.signal(signal.SIGTERM, _end)
    began = time.monotonic()
    rounds = FeatureRounds(folder / "data", chosen.seed, loads=loads, pending=chosen.delays)
    try:
        rounds.run(chosen.kills, lambda line: print(f"{_clock()} {line}", flush=True))
    except BaseException as error:
        rounds.violations.append(f"the rounds ended early: {error!r}")
        traceback.print_exc()
    rounds.outcome["seconds"] = round(time.monotonic() - began)
    outcome = {**rounds.outcome, "violations": rounds.violations}
    (folder / "outcome.json").write_text(json.dumps(outcome, indent=2, default=str) + "\n")
    for node, text in rounds.logs.items():
        (folder / f"broker-{node}.log").write_text(text)
    for violation in rounds.violations[:50]:
        print(violation)
    print(
        f"seed {chosen.seed}: {len(rounds.violations)} violations, "
        f"{rounds.failures_in_peace} failures in peace, {outcome['seconds']} s"
    )
    return 1 if rounds.violations else 0


def _end(number: int, _: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)
    sys.exit("ended by a signal")


def _clock() -> str:
    return time.strftime("%H:%M:%S")


if __name__ == "__main__":
    sys.exit(main())
