"""The replication machines on real logs and ledgers, whose disks lose what was not synced."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from goqueue.broker.partitions.producer_ledger import ProducerLedger
from goqueue.model.names import NodeId
from goqueue.storage.epochs import EpochsOfBatches
from tests.sim.replication.checker import Checker, Violation
from tests.sim.replication.disk import Disk, SimLog
from tests.sim.replication.stored_log import StoredLog
from tests.sim.replication.world import Shape, World

SEEDS = range(64)


class StoredChecker(Checker):
    def begins(self, node: int, log: SimLog) -> None:
        assert isinstance(log, StoredLog)
        log.restart()
        super().begins(node, log)


class StoredWorld(World):
    def __init__(self, seed: int, folder: Path) -> None:
        self.folder = folder
        super().__init__(seed, Shape())

    def new_checker(self) -> Checker:
        return StoredChecker()

    def new_disk(self) -> Disk:
        logs: list[SimLog] = [
            StoredLog(self.folder, self.chance) for _ in range(self.shape.partitions)
        ]
        return Disk(self.new_id(), logs)

    def lose_memory(self, node: NodeId) -> None:
        disk = self.disks[node]
        disk.boot += 1
        for checker, log in zip(self.checkers, disk.logs, strict=True):
            assert isinstance(log, StoredLog)
            before = SimLog()
            before.records = log.records
            log.cut_power()
            kept = _common_length(before, log)
            if kept < before.end:
                checker.destroyed(node, before, kept)
                disk.has_lost = disk.has_lost or self.chance.random() < 0.5

    def check_peace(self) -> None:
        super().check_peace()
        for index in range(self.shape.partitions):
            logs = [self.disks[node].logs[index] for node in self.nodes]
            contents = []
            for log in logs:
                assert isinstance(log, StoredLog)
                log.check_whole()
                contents.append((log.batches(), log.knowledge()))
            if any(content != contents[0] for content in contents):
                raise Violation("replicas differ in their bytes, or in what they know")


def _common_length(one: SimLog, other: SimLog) -> int:
    pairs = zip(one.records, other.records, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(one.end, other.end))


def run_all(seeds: Iterable[int], folder: Path) -> None:
    for seed in seeds:
        StoredWorld(seed, folder).run()


@pytest.mark.parametrize("chunk", range(4))
def test_replicas_on_real_storage_end_equal(chunk: int, tmp_path: Path) -> None:
    for seed in SEEDS[chunk::4]:
        try:
            StoredWorld(seed, tmp_path).run()
        except Violation as violation:
            pytest.fail(f"seed {seed}: {violation}")


def test_a_ledger_that_is_not_cut_with_its_log_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuild = ProducerLedger.rebuild

    def rebuild_once(self: ProducerLedger) -> None:
        if not vars(self).setdefault("is_built", False):
            vars(self)["is_built"] = True
            rebuild(self)

    monkeypatch.setattr(ProducerLedger, "rebuild", rebuild_once)
    with pytest.raises(Violation, match="the ledgers know"):
        run_all(range(20), tmp_path)


def test_epochs_that_a_crash_took_are_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EpochsOfBatches, "is_new", lambda *_: False)
    with pytest.raises(Violation, match=r"a killed process had|the ledgers know"):
        run_all(range(20), tmp_path)
