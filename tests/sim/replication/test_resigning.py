"""Leaders that give their partitions up, among everything else that can happen."""

import pytest

from tests.sim.replication import mood
from tests.sim.replication.faults import FAULTS, resign
from tests.sim.replication.world import World

# Some seconds. A run by hand of 10,000 found nothing.
SEEDS = 300


def test_nothing_is_lost_when_leaders_resign(monkeypatch: pytest.MonkeyPatch) -> None:
    # As often as all else together.
    monkeypatch.setattr(mood, "FAULTS", (*FAULTS, *[resign] * 10))
    for seed in range(SEEDS):
        try:
            World(seed).run()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
