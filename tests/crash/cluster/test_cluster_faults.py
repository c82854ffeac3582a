"""A few faults in a cluster under load; `make soak-cluster` has an hour of them."""

from pathlib import Path

import pytest

from tests.crash.cluster.rounds import Rounds

FAULTS = 4
SEED = 1


@pytest.mark.slow
def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    rounds = Rounds(tmp_path, SEED)
    try:
        rounds.run(lambda done: done >= FAULTS, print)
    except BaseException:
        for node, text in rounds.logs.items():
            print(f"--- broker {node}\n{text[-8000:]}")
        raise
    assert rounds.history.count > 0
    assert rounds.history.transactions
