"""Each broker of three in turn is drained and replaced by an empty one, under load."""

from pathlib import Path

import pytest

from tests.crash.cluster.replacing import Replacing


@pytest.mark.slow
def test_every_broker_is_replaced(tmp_path: Path) -> None:
    rounds = Replacing(tmp_path, seed=1, turns=3)
    try:
        rounds.run(lambda _: True, print)
    except BaseException:
        for node, text in rounds.logs.items():
            print(f"--- broker {node}\n{text[-8000:]}")
        raise
    assert rounds.history.count > 0
    assert rounds.faults == 3
