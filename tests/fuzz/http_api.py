"""The HTTP API against its own document, by schemathesis: short in tests, long in `make fuzz`.

Every operation of /openapi.json is called with values that the document allows and with values that
it does not, one by one and in chains where one answer's values go into the next request.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Final

import httpx

from goqueue.testing import ClusterAsServer, ServerProcess

NAME: Final = "http_api"
PROMISE: Final = "every operation of /openapi.json does what the document says, and never fails"
CONFIG: Final = Path(__file__).with_name("schemathesis.toml")
PHASES: Final = ("Coverage", "Fuzzing", "Stateful")
# In one round of the long form; a round takes some minutes.
ROUND_EXAMPLES: Final = 100
ROUND_SECONDS_MAX: Final = 3_600

# Topics come by the hundred here, so they stay small.
_SETTINGS: Final = {
    "num.partitions": 1,
    "max.partitions.per.topic": 4,
    # A join waits for members that are gone, but no longer than a request may take here.
    "group.min.session.timeout.ms": 1,
    "group.max.session.timeout.ms": 3_000,
}


Server = ServerProcess | ClusterAsServer


@contextmanager
def small_server(folder: Path, make: Callable[..., Server] = ServerProcess) -> Iterator[Server]:
    options = [each for name, value in _SETTINGS.items() for each in ("--set", f"{name}={value}")]
    with make(folder / "data", *options) as running:
        yield running


def problems(server: Server, folder: Path, *, examples: int, seed: int, seconds_max: float) -> str:
    """Run schemathesis once; what is wrong, or nothing."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG)]
    command += ["run", f"{server.http_url}/openapi.json", "--seed", str(seed)]
    command += ["--max-examples", str(examples), "--no-color"]
    run = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=seconds_max, check=False
    )
    said = run.stdout[-20_000:] + run.stderr[-2_000:] + server.log_text[-5_000:]
    if run.returncode or not all(f"✅ {phase}" in run.stdout for phase in PHASES):
        return said
    ready = httpx.get(f"{server.http_url}/readyz").json()
    if "Traceback" in server.log_text or ready["offlinePartitionCount"]:
        return said
    return ""


def run_for(seconds: float) -> bool:
    """Rounds with ever new seeds, at least one; whether all of them were good."""
    until = monotonic() + seconds
    seed = 1
    with tempfile.TemporaryDirectory() as name, small_server(Path(name)) as server:
        while True:
            wrong = problems(
                server,
                Path(name),
                examples=ROUND_EXAMPLES,
                seed=seed,
                seconds_max=ROUND_SECONDS_MAX,
            )
            print(f"  round {seed}: {wrong or 'good'}", flush=True)
            if wrong or monotonic() > until:
                return not wrong
            seed += 1
