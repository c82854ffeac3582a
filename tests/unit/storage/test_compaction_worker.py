"""The worker process: what it answers, and how it ends."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from goqueue.storage.compaction.plan import Compacted, CompactionPlan, Failed
from goqueue.storage.compaction.worker import CompactionWorker
from goqueue.storage.log import PartitionLog
from tests.hostile_batches import one_huge_record
from tests.unit.storage.keyed_log import (
    Keyed,
    append_batch,
    append_keyed,
    close_segment,
    copy,
    entries,
    make_plan,
    take_in,
)
from tests.unit.storage.stored_log import flip_bit, log_files, open_log, read_bytes

COMPACT: dict[str, Any] = {"cleanup_policy": "compact"}


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    log = open_log(tmp_path / "p", **COMPACT)
    for number in range(50):
        append_keyed(log, Keyed(b"%d" % (number % 5), b"%d" % number), compression="zstd")
    close_segment(log)
    return log


def cleaned_files(log: PartitionLog) -> list[Path]:
    return list(log.path.glob("*.cleaned"))


def test_the_process_does_what_the_function_does(log: PartitionLog) -> None:
    plan = make_plan(log)
    answer = CompactionWorker(plan).run()
    assert isinstance(answer, Compacted)
    copies = {path.name: path.read_bytes() for path in cleaned_files(log)}
    assert len(copies) == 3
    log.compaction.discard(plan)
    assert copy(plan) == answer
    assert {path.name: path.read_bytes() for path in cleaned_files(log)} == copies
    take_in(log, plan, answer)
    assert [value for _, _, value in entries(log)] == [b"45", b"46", b"47", b"48", b"49"]


def test_damage_is_a_lasting_failure(log: PartitionLog) -> None:
    flip_bit(log_files(log)[0], 300)
    answer = CompactionWorker(make_plan(log)).run()
    assert isinstance(answer, Failed)
    assert answer.is_lasting
    assert "00000000000000000000.log at byte" in answer.reason


def test_trouble_with_files_can_pass(log: PartitionLog) -> None:
    plan = make_plan(log)
    log_files(log)[0].rename(log.path / "elsewhere")
    answer = CompactionWorker(plan).run()
    assert isinstance(answer, Failed)
    assert not answer.is_lasting
    assert "No such file" in answer.reason


def slowed(plan: CompactionPlan) -> CompactionPlan:
    """So slow that it would take hours."""
    return msgspec.structs.replace(plan, bytes_per_second_max=1)


def test_a_worker_can_be_killed_while_it_works(log: PartitionLog) -> None:
    worker = CompactionWorker(slowed(make_plan(log)))
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(worker.run()))
    thread.start()
    while worker._process is None:
        thread.join(0.001)
    worker.kill()
    thread.join(10)
    assert answers == [Failed(reason="the worker was ended by SIGKILL")]


def test_a_worker_killed_before_it_started_does_not_start(log: PartitionLog) -> None:
    worker = CompactionWorker(make_plan(log))
    worker.kill()
    assert worker.run() == Failed(reason="it was stopped")
    assert not cleaned_files(log)


def test_a_worker_whose_broker_is_gone_ends(log: PartitionLog) -> None:
    """Its parent is not the broker that it was started by."""
    stranger = str(os.getpid() + 1)
    ended = subprocess.run(
        [sys.executable, "-m", "goqueue.storage.compaction", stranger],
        input=msgspec.msgpack.encode(slowed(make_plan(log))),
        capture_output=True,
        timeout=30,
    )
    assert ended.returncode == 1
    assert b"the broker is gone" in ended.stderr
    assert not ended.stdout


def test_a_worker_that_breaks_down_says_why(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(log)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert CompactionWorker(plan).run() == Failed(reason="the worker ended with code 1: ")
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    answer = CompactionWorker(plan).run()
    assert isinstance(answer, Failed)
    assert answer.reason.startswith("no worker could be started")


def test_batches_that_unpack_to_too_much_stay_as_they_are(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", max_decompressed_message_bytes=str(2 * 1024 * 1024), **COMPACT)
    append_keyed(log, Keyed(b"k", b"old"))
    bomb = one_huge_record("zstd", 256 * 1024 * 1024)
    append_batch(log, bomb, 0)
    append_keyed(log, Keyed(b"k", b"new"))
    close_segment(log)
    plan = make_plan(log)
    answer = CompactionWorker(plan).run()
    assert isinstance(answer, Compacted)
    assert answer.undecoded_batches == 1
    take_in(log, plan, answer)
    kept = read_bytes(log)
    assert bytes(bomb[61:]) in kept
    assert b"new" in kept
    assert b"old" not in kept


def test_a_worker_that_needs_too_much_memory_ends_by_itself(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", max_decompressed_message_bytes="2000000000", **COMPACT)
    append_batch(log, one_huge_record("zstd", 512 * 1024 * 1024), 0)
    close_segment(log)
    plan = msgspec.structs.replace(make_plan(log), memory_base_bytes=200 * 1024 * 1024)
    plan = msgspec.structs.replace(plan, memory_per_unpacked_byte=0)
    answer = CompactionWorker(plan).run()
    assert isinstance(answer, Failed)
    assert answer.is_lasting
    assert "memory" in answer.reason
