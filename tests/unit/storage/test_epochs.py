"""Which leader epoch wrote which offsets, and where each ends (KIP-101, KIP-279)."""

from pathlib import Path

import pytest

from goqueue.storage.disk import Disk
from goqueue.storage.epochs import LeaderEpochs


@pytest.fixture
def epochs(tmp_path: Path) -> LeaderEpochs:
    made = LeaderEpochs(Disk(), tmp_path / "epochs.json")
    for epoch, start_offset in ((2, 10), (3, 20), (6, 50)):
        made.assign(epoch, start_offset)
    return made


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (3, 50)),
        (5, (3, 50)),
        (6, (6, 99)),
        (7, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_begins(
    epochs: LeaderEpochs, asked: int, answer: tuple[int, int]
) -> None:
    assert epochs.end_offset_for(asked, log_end=99) == answer


def test_no_epoch_is_known_at_first(tmp_path: Path) -> None:
    epochs = LeaderEpochs(Disk(), tmp_path / "epochs.json")

    assert epochs.latest == -1
    assert epochs.end_offset_for(0, log_end=5) == (-1, -1)
    assert epochs.covering(0)[0] == -1
    assert LeaderEpochs.load(Disk(), tmp_path / "epochs.json") is None


@pytest.mark.parametrize(
    ("offset", "epoch", "until"), [(9, -1, 10), (10, 2, 20), (19, 2, 20), (20, 3, 50)]
)
def test_offsets_belong_to_an_epoch(
    epochs: LeaderEpochs, offset: int, epoch: int, until: int
) -> None:
    assert epochs.covering(offset) == (epoch, until)
    assert epochs.covering(1000)[0] == 6


def test_changes_are_on_disk_when_saved(epochs: LeaderEpochs, tmp_path: Path) -> None:
    assert LeaderEpochs.load(Disk(), tmp_path / "epochs.json") is None

    def stored() -> tuple[tuple[int, int], ...]:
        epochs.save()
        loaded = LeaderEpochs.load(Disk(), tmp_path / "epochs.json")
        assert loaded is not None
        assert loaded.latest == epochs.latest
        return loaded.entries

    assert stored() == ((2, 10), (3, 20), (6, 50))
    epochs.assign(6, 70)
    epochs.assign(4, 70)
    assert stored() == ((2, 10), (3, 20), (6, 50))
    epochs.truncate_end(50)
    assert stored() == ((2, 10), (3, 20))
    epochs.assign(9, 60)
    epochs.truncate_start(20)
    assert stored() == ((3, 20), (9, 60))
    epochs.truncate_start(5)
    assert stored() == ((3, 20), (9, 60))


def test_an_epoch_without_a_record_gives_way(epochs: LeaderEpochs) -> None:
    epochs.assign(8, 50)

    assert epochs.entries == ((2, 10), (3, 20), (8, 50))
