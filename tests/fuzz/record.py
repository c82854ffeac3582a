"""Record seeds from real clients: `python -m tests.fuzz.record`, some minutes.

Runs tests of interoperability with proxies before their servers: confluent-kafka (librdkafka),
kafka-python, aiokafka, kcat, boto3, Celery, Confluent's registry client, HTTP. What the tests find
does not matter here. One request of each kind replaces what was recorded before.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.fuzz import corpus
from tests.fuzz.__main__ import save
from tests.fuzz.recorded import names_this_machine
from tests.fuzz.seeds.doors import stream_of

_TESTS: Final = Path(__file__).parents[1] / "interop"
_SUITES: Final = (
    "kafka",
    "groups",
    "transactions",
    "share_groups",
    "sqs",
    "schema_registry",
    "http",
)
# Neither what ends servers nor what calls thousands of times is needed.
_LEFT_OUT: Final = "not crash and not kill and not restart and not document"
_SECONDS_MAX: Final = 1_800


def main() -> None:
    files = [str(path) for suite in _SUITES for path in sorted(_TESTS.glob(f"test_{suite}*.py"))]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.fuzz.recording"]
        command += ["-n", "0", "-k", _LEFT_OUT, *dict.fromkeys(files)]
        environment = {**os.environ, "RECORDED_REQUESTS": folder}
        subprocess.run(command, env=environment, timeout=_SECONDS_MAX, check=False)
        kafka, batches, web = (
            list(_read(Path(folder) / each)) for each in ("kafka", "batches", "web")
        )
    _replace("kafka_requests", kafka)
    _replace("kafka_door", [(label, stream_of(frame)) for label, frame in kafka])
    _replace("record_batches", [(label, b"\0" + batch) for label, batch in batches])
    _replace("web_door", web)


def _read(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        if names_this_machine(data):
            print(f"left out, for it names this machine: {path.name}")
        else:
            yield path.name.rpartition("-")[0], data


def _replace(target: str, inputs: list[tuple[str, bytes]]) -> None:
    others = {
        name: data for name, data in corpus.load(target).items() if not name.startswith("recorded/")
    }
    recorded = {corpus.named("recorded", label, data): data for label, data in inputs}
    print(f"{target}: {len(recorded)} recorded")
    save(target, {**others, **recorded})


if __name__ == "__main__":
    main()
