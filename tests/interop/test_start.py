"""What a broker process has loaded when it says that it is ready."""

import re
import signal
import subprocess
import sys
from pathlib import Path

# Each takes 10 ms to a second to load, and the first request of a Kafka client needs none of them.
HEAVY = (
    "aiokafka.consumer",
    "boto3",
    "cryptography",
    "fastavro",
    "google.protobuf",
    "goqueue.client",
    "goqueue.doors.http.app",
    "goqueue.doors.sqs.answering",
    "goqueue.schema_formats.avro",
    "goqueue.spark",
    "http.client",
    "jsonschema_rs",
    "litestar",
    "numba",
    "numpy",
    "OpenSSL",
    "opentelemetry",
    "prometheus_client",
    "pyarrow",
    "pydantic",
    "pyspark",
    "rich",
    "typer",
    "yaml",
)
COMMAND = ("-m", "goqueue", "serve", "--kafka-port", "0", "--http-port", "0")
# "import time: self [us] | cumulative | imported package", as `-X importtime` writes it.
IMPORTED = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \|\s+(\S+)")


def imports_until_ready(data: Path) -> dict[str, int]:
    """Microseconds that each module took by itself."""
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", *COMMAND, "--data-dir", str(data)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    found: dict[str, int] = {}
    said = []
    try:
        for line in process.stdout:
            if "is ready" in line:
                return found
            imported = IMPORTED.match(line)
            if imported is None:
                said.append(line)
            else:
                found[imported[3]] = int(imported[1])
        raise AssertionError("it ended: " + "".join(said))
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def test_nothing_heavy_is_loaded_before_a_broker_is_ready(tmp_path: Path) -> None:
    took_us = imports_until_ready(tmp_path / "data")
    needless = [
        name for name in took_us if any(f"{name}.".startswith(f"{heavy}.") for heavy in HEAVY)
    ]
    heaviest = sorted(took_us.items(), key=lambda item: -item[1])[:10]
    assert not needless, "loaded before ready, the ten heaviest of all being:\n" + "\n".join(
        f"{us / 1000:8.1f} ms  {name}" for name, us in heaviest
    )
