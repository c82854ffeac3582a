"""kcat: metadata, produce and consume as a person would on the command line."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.interop.servers import Server

TIMEOUT_SECONDS = 120


def kcat(bootstrap: str, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["kcat", "-b", bootstrap, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_go_in_and_come_out(
    server: Server, bootstrap: str, topic: str, compression: str
) -> None:
    lines = "".join(f"key{n}:{'value ' * 20}{n}\n" for n in range(1000))
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-K:", "-z", compression, stdin=lines)
    out = kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-K:")
    assert out == lines
    # librdkafka sends uncompressed to a broker that it takes for too old.
    if compression != "none":
        stored_bytes = [path.stat().st_size for path in server.data_dir.rglob(f"{topic}-0/*.log")]
        assert 0 < max(stored_bytes) < len(lines) / 2


def test_headers_and_timestamps_are_kept(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-H", "a=1", "-H", "b=2", stdin="hello\n")
    out = kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-J")
    record = json.loads(out)
    assert (record["payload"], record["offset"]) == ("hello", 0)
    assert record["headers"] == ["a", "1", "b", "2"]


def test_metadata_is_listed(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, stdin="x\n")
    listed = json.loads(kcat(bootstrap, "-L", "-J"))
    names = [entry["topic"] for entry in listed["topics"]]
    assert topic in names
    assert bootstrap in [broker["name"] for broker in listed["brokers"]]


def test_offsets_are_asked_by_time(bootstrap: str, topic: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("a\nb\n")
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-l", str(lines))
    assert kcat(bootstrap, "-Q", "-t", f"{topic}:0:-1").split()[-1] == "2"
    assert kcat(bootstrap, "-Q", "-t", f"{topic}:0:0").split()[-1] == "0"
