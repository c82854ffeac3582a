"""A data directory with files of every kind: an earlier copy, after a kill, after a clean stop."""

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from goqueue.testing import ServerProcess
from tests.busy_machine import stretched

# Of compacted ones and of those with transactions there are two: their files may be exchanged.
COMPACTED = ("latest", "newest")
LEDGERS = ("ledger", "journal")
TOPICS = ("plain", "zipped", *LEDGERS, *COMPACTED)
QUEUE_GROUP = "workers"
GROUPS = tuple(f"group{number}" for number in range(4))
SUBJECTS = tuple(f"subject{number}" for number in range(3))
SETTINGS = {
    "tracing.enabled": "true",
    "tracing.sampling.rate": "1",
    "log.cleaner.backoff.ms": "100",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}
OPTIONS = tuple(part for pair in SETTINGS.items() for part in ("--set", "=".join(pair)))
_SMALL = {"segment.bytes": "3000", "index.interval.bytes": "500"}
_COMPACTED = {
    **_SMALL,
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
}
_HOUR_MS = 3_600_000
# Messages of a topic in each turn.
_NUMBERS = 40
# Offsets, schemas, and a queue or a transaction at least.
_STATE_FOLDERS = 4


class _Server(ServerProcess):
    PROGRAM = ("-m", "tests.crash.quick_snapshots")


@dataclass(frozen=True, slots=True)
class Folders:
    """`earlier` is the same broker some time before, `killed` and `clean` its two ends."""

    earlier: Path
    killed: Path
    clean: Path


def make_folders(base: Path) -> Folders:
    data = base / "data"
    folders = Folders(base / "earlier", base / "killed", base / "clean")
    if folders.clean.exists():
        return folders
    with _Server(data, *OPTIONS) as server:
        _make_topics(server.bootstrap_servers)
        _write(server, 1)
        shutil.copytree(data, folders.earlier)
        _write(server, 2)
        _wait_for_files(data)
        server.sigkill()
        shutil.copytree(data, folders.killed)
        server.start()
        assert server.sigterm() == 0
        shutil.copytree(data, folders.clean)
    return folders


def _make_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic(name, 1, config=_COMPACTED if name in COMPACTED else _SMALL) for name in TOPICS
    ]
    for made in admin.create_topics(topics).values():
        made.result(stretched(20))


def compacted_message(topic: str, offset: int) -> tuple[str, str]:
    """What was written there, whether compaction has left it or not."""
    turn, number = divmod(offset, _NUMBERS)
    return f"key{number % 5}", f"{topic} {turn + 1} {number} {'.' * 100}"


def _write(server: ServerProcess, turn: int) -> None:
    plain = Producer({"bootstrap.servers": server.bootstrap_servers, "linger.ms": 0})
    zipped = Producer({"bootstrap.servers": server.bootstrap_servers, "compression.type": "zstd"})
    for number in range(_NUMBERS):
        plain.produce("plain", f"plain {turn} {number} {'.' * 100}", f"key{number}")
        for topic in COMPACTED:
            key, value = compacted_message(topic, (turn - 1) * _NUMBERS + number)
            plain.produce(topic, value, key)
        zipped.produce("zipped", f"zipped {turn} {number} {'.' * 200}")
        if number % 4 == 0:
            plain.flush(stretched(20))
            zipped.flush(stretched(20))
    assert plain.flush(stretched(20)) == zipped.flush(stretched(20)) == 0
    _write_transactions(server.bootstrap_servers, turn)
    with httpx.Client(base_url=server.http_url, timeout=stretched(30)) as http:
        _write_states(http, turn)


def _write_transactions(bootstrap: str, turn: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "ledger"})
    producer.init_transactions(stretched(30))
    for number in range(12):
        is_aborted = number % 3 == 1
        producer.begin_transaction()
        word = "aborted" if is_aborted else "committed"
        # Another number in each, so that they differ.
        for topic in LEDGERS[: 1 + number % 2]:
            producer.produce(topic, f"{topic} {word} {turn} {number} {'.' * 100}")
        producer.flush(stretched(20))
        if is_aborted:
            producer.abort_transaction(stretched(30))
        else:
            producer.commit_transaction(stretched(30))


def _write_states(http: httpx.Client, turn: int) -> None:
    """Offsets of groups, a queue with leases, delayed messages, priorities, schemas."""
    for number, group in enumerate(GROUPS):
        offsets = [{"topic": "plain", "partition": 0, "offset": turn * 10 + number}]
        http.post(f"/groups/{group}/offsets", json={"offsets": offsets}).raise_for_status()
    for number in range(6):
        late = {"value": f"late {turn} {number}", "delay": _HOUR_MS}
        http.post("/topics/plain/messages", json=late).raise_for_status()
        first = {"value": f"plain first {turn} {number}", "priority": 1}
        http.post("/topics/plain/messages", json=first).raise_for_status()
    taken = http.post(f"/groups/{QUEUE_GROUP}/receive", json={"topic": "plain", "max": 4})
    taken.raise_for_status()
    receipts = [message["receipt"] for message in taken.json()["messages"]]
    done = {"group": QUEUE_GROUP, "receipts": receipts[:2]}
    http.post("/messages/ack", json=done).raise_for_status()
    for subject in SUBJECTS:
        fields = [{"name": f"f{each}", "type": "int", "default": 0} for each in range(turn)]
        schema = {"type": "record", "name": "R", "fields": fields}
        body = {"schema": httpx.Response(200, json=schema).text}
        http.post(f"/subjects/{subject}/versions", json=body).raise_for_status()


def _wait_for_files(data: Path) -> None:
    """Until there are files of every kind, and of most in two partitions."""
    logs = data / "logs"
    give_up_at = time.monotonic() + stretched(60)
    wanted = [logs / f"{topic}-0" / "compaction.json" for topic in COMPACTED]
    while not all(path.exists() for path in wanted) or len(_state_folders(logs)) < _STATE_FOLDERS:
        assert time.monotonic() < give_up_at, "nothing was compacted, or no state was written down"
        time.sleep(0.05)


def _state_folders(logs: Path) -> set[Path]:
    return {path.parent for path in logs.glob("*/*.state")}
