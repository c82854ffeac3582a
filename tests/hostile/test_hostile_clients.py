"""Hostile clients at every door for some seconds; `make soak-hostile` is the same at length."""

from pathlib import Path

import pytest

from tests.busy_machine import stretched
from tests.hostile.soak import CANARY_P99_MS, DOORS, MEMORY_ABOVE_BASE_MB, STEP_MS, run

FRAMES = 1_000
CONNECTIONS = 300
LIMIT_SECONDS = 20.0


@pytest.mark.parametrize(
    ("workers", "security"),
    [
        (1, False),
        pytest.param(2, False, marks=pytest.mark.slow),
        pytest.param(1, True, marks=pytest.mark.slow),
    ],
)
def test_nobody_else_is_hurt(tmp_path: Path, workers: int, security: bool) -> None:
    outcome = run(
        tmp_path,
        frames=FRAMES,
        connections=CONNECTIONS,
        costly_every_seconds=0.3,
        seed="a short one",
        limit_seconds=stretched(LIMIT_SECONDS),
        workers=workers,
        security=security,
    )
    assert outcome.is_alive
    assert not outcome.tracebacks
    assert not outcome.deaths
    assert outcome.canary["fault_count"] == 0, outcome.canary["faults"]
    assert outcome.canary["acknowledged"] == outcome.canary["read_back"] > 0
    assert outcome.peak_mb - outcome.base_mb <= workers * MEMORY_ABOVE_BASE_MB
    assert outcome.longest_step_ms <= STEP_MS, outcome.loop["longest"]["cpu"][0]
    # Processors that others use, too, make everybody wait.
    assert outcome.canary["all"]["p50_ms"] <= stretched(CANARY_P99_MS)
    assert set(outcome.frames) >= set(DOORS)
    assert len(outcome.frames) == len(DOORS) + workers - 1
    assert all(sent.get("frames", 0) > 0 for sent in outcome.frames.values()), outcome.frames
    assert outcome.connections["held_most"] > 0
