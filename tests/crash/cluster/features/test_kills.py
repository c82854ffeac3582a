"""A few leaders killed under mixed load; `make soak-cluster` kills a hundred."""

from pathlib import Path

import pytest

from tests.crash.cluster.features.rounds import FeatureRounds

KILLS = 4
SEED = 5


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_clients_were_told_holds_while_leaders_are_killed(tmp_path: Path) -> None:
    rounds = FeatureRounds(tmp_path, SEED)
    try:
        rounds.run(KILLS, print)
        assert rounds.violations == []
    except BaseException:
        for node, text in rounds.logs.items():
            print(f"--- broker {node}\n{text[-8000:]}")
        raise
