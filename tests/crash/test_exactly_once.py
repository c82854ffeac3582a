"""A few rounds of the exactly-once soak; `make soak` runs a hundred."""

from pathlib import Path

from tests.crash.exactly_once import MESSAGES_PER_ROUND, run

ROUNDS = 6


def test_every_message_is_copied_once(tmp_path: Path) -> None:
    copied, kills = run(tmp_path, rounds=ROUNDS, seed="test")
    assert copied == ROUNDS * MESSAGES_PER_ROUND
    assert sum(kills.values()) == ROUNDS
