"""A few of the damages of `make soak-damage`."""

import subprocess
import sys
from pathlib import Path

from tests.busy_machine import stretched

COUNT = 15
_ROOT = Path(__file__).parents[2]


def test_damages_are_mended_or_told() -> None:
    command = [sys.executable, "-m", "tests.crash.damages", "--count", str(COUNT)]
    done = subprocess.run(
        command, cwd=_ROOT, capture_output=True, text=True, timeout=stretched(120), check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{COUNT} damages" in done.stdout
