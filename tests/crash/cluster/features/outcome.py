"""Rounds as a program: what happens is told, and what came of it is written down."""

import json
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NoReturn

from tests.crash.cluster.features.rounds import FeatureRounds


def told_folder(chosen: Path | None, seed: int) -> Path:
    """For data, outcome and logs."""
    folder = chosen or Path(tempfile.mkdtemp(prefix="goqueue-features-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"seed {seed}, outcome in {folder / 'outcome.json'}", flush=True)
    return folder


def outcome_of(rounds: FeatureRounds, count: int) -> int:
    """The exit code: 1 if a check failed."""
    # The brokers end with it, also when it is ended itself.
    signal.signal(signal.SIGTERM, _end)
    began = time.monotonic()
    try:
        rounds.run(count, lambda line: print(f"{_clock()} {line}", flush=True))
    except BaseException as error:
        rounds.violations.append(f"the rounds ended early: {error!r}")
        traceback.print_exc()
    rounds.outcome["seconds"] = round(time.monotonic() - began)
    outcome = {**rounds.outcome, "violations": rounds.violations}
    folder = rounds.folder.parent
    (folder / "outcome.json").write_text(json.dumps(outcome, indent=2, default=str) + "\n")
    for node, text in rounds.logs.items():
        (folder / f"broker-{node}.log").write_text(text)
    for violation in rounds.violations[:50]:
        print(violation)
    print(
        f"seed {rounds.seed}: {len(rounds.violations)} violations, "
        f"{rounds.failures_in_peace} failures in peace, {outcome['seconds']} s"
    )
    return 1 if rounds.violations else 0


def _end(number: int, _: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)
    sys.exit("ended by a signal")


def _clock() -> str:
    return time.strftime("%H:%M:%S")
