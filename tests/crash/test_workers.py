"""SIGKILL of workers and of their supervisor under load: what was acknowledged is there."""

import os
import random
import signal
from collections import Counter
from pathlib import Path

from goqueue.testing import ServerProcess
from tests.crash.test_sigkill import (
    WAIT_SECONDS,
    ClientRecord,
    LoadGenerator,
    create_topic,
    read_back,
)
from tests.interop.test_workers import come_back, is_alive, workers_of

WORKERS = 2
ACKNOWLEDGED_BEFORE_KILL = (300, 2_000)
# Workers, by number; None is the process that started them.
KILLS = (0, None)


def test_acknowledged_messages_survive_the_end_of_any_process(tmp_path: Path) -> None:
    chance = random.Random("workers")
    record = ClientRecord()
    with ServerProcess(tmp_path / "data", workers=WORKERS) as server:
        config = {"fsync.policy": "interval", "segment.bytes": "200000", "flush.ms": "50"}
        create_topic(server.bootstrap_servers, config)
        for round_number, killed in enumerate(KILLS):
            record.enough.clear()
            record.enough_at = len(record.acknowledged) + chance.randint(*ACKNOWLEDGED_BEFORE_KILL)
            generators = [
                LoadGenerator(f"r{round_number}p{n}", server.bootstrap_servers, record, "none")
                for n in range(2)
            ]
            for generator in generators:
                generator.start()
            assert record.enough.wait(WAIT_SECONDS), "the workers acknowledge too slowly"
            before = workers_of(server)
            if killed is None:
                server.sigkill()
            else:
                os.kill(before[killed], signal.SIGKILL)
            for generator in generators:
                generator.stopping.set()
            for generator in generators:
                generator.join(WAIT_SECONDS)
                assert not generator.is_alive()
            if killed is None:
                # At once, while its workers may still be ending: the next start waits for them.
                server.start()
                assert not any(map(is_alive, before.values()))
            else:
                come_back(server, killed, before)
        found = read_back(server.bootstrap_servers)
        assert server.sigterm() == 0
        log_text = server.log_text
    lost = {place for place in record.acknowledged if place not in found}
    assert not lost, f"{len(lost)} acknowledged messages are gone, such as {min(lost)}"
    changed = {p for p, value in record.acknowledged.items() if found[p] != value}
    assert not changed, f"{len(changed)} places hold something else, such as {min(changed)}"
    assert Counter(found.values()) <= record.sent, "something is stored that was not sent"
    assert "is gone: it stops" in log_text
    assert "Traceback" not in log_text
