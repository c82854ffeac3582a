"""A damaged table of delayed messages is never believed."""

import random
from pathlib import Path

import pytest

from goqueue.broker.delays.index import FILE_NAME, DelayIndex
from goqueue.broker.delays.position import IndexPosition
from goqueue.state.delays.pending import Entry
from goqueue.storage.disk import Disk
from goqueue.storage.epochs import EpochStart, LeaderEpochs

ROWS = 300
POSITION = IndexPosition(
    next_offset=ROWS,
    leader_epoch=3,
    next_number=ROWS,
    hot_until_ms=5,
    producer_id=7,
    targets=[],
    origins=[],
)
ENTRIES = [Entry(number, 1_700_000_000_000 + number * 7, 1, number, 100) for number in range(ROWS)]


def epochs(folder: Path, *starts: EpochStart) -> LeaderEpochs:
    return LeaderEpochs(Disk(), folder / "leader-epochs.json", starts or (EpochStart(3, 0),))


def make_index(folder: Path) -> bytes:
    index = DelayIndex(folder)
    assert index.open(0, ROWS, epochs(folder)) is None
    index.begin()
    index.insert([field for entry in ENTRIES for field in entry])
    index.commit(POSITION)
    index.close()
    return (folder / FILE_NAME).read_bytes()


def check_index(folder: Path) -> bool:
    """Whether it was believed; if so, it says what was written."""
    index = DelayIndex(folder)
    try:
        position = index.open(0, ROWS, epochs(folder))
        if position is None:
            assert index.oldest(ROWS) == []
            return False
        assert position == POSITION
        assert index.oldest(ROWS) == ENTRIES
        assert sorted(index.due_between(0, 1 << 60)) == ENTRIES
        return True
    finally:
        index.close()


def test_an_index_in_order_is_believed(tmp_path: Path) -> None:
    make_index(tmp_path)
    assert check_index(tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_no_changed_bit_is_believed(tmp_path: Path, seed: int) -> None:
    whole = make_index(tmp_path)
    chance = random.Random(seed)
    noticed = 0
    for _ in range(100):
        content = bytearray(whole)
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        (tmp_path / FILE_NAME).write_bytes(content)
        noticed += not check_index(tmp_path)
    assert noticed > 20  # the rest of the file is not in use


def test_a_changed_cell_is_noticed(tmp_path: Path) -> None:
    whole = make_index(tmp_path)
    due = ENTRIES[150].due_ms.to_bytes(6, "big")
    assert whole.count(due) == 2  # the row, and the index by due time
    for at in (whole.index(due), whole.rindex(due)):
        content = bytearray(whole)
        content[at + 2] ^= 4
        (tmp_path / FILE_NAME).write_bytes(content)
        assert not check_index(tmp_path)


def test_an_index_of_records_that_another_leader_wrote_over_is_not_believed(tmp_path: Path) -> None:
    make_index(tmp_path)
    index = DelayIndex(tmp_path)
    replaced = epochs(tmp_path, EpochStart(3, 0), EpochStart(4, ROWS - 1))
    assert index.open(0, ROWS, replaced) is None
    index.close()
