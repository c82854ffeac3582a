"""What a log looks like after a crash or after its files were damaged."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from goqueue.model.errors import CorruptBatch
from goqueue.storage.log import PartitionLog
from tests.unit.storage.stored_log import (
    append,
    fill,
    flip_bit,
    log_files,
    make_batch,
    open_log,
    read_bytes,
    read_one,
    read_values,
)


def read_around_damage(log: PartitionLog) -> tuple[list[bytes | None], list[int]]:
    """Values of the readable records, and the offsets that are refused as damaged."""
    values: list[bytes | None] = []
    refused: list[int] = []
    reasons: list[str] = []
    for offset in range(log.log_start_offset, log.log_end_offset):
        try:
            values.append(read_one(log, offset).value)
        except CorruptBatch as error:
            refused.append(offset)
            reasons.append(str(error))
    for offset, reason in zip(refused, reasons, strict=True):
        assert f"orders-3: offsets {offset} to {offset} are damaged" in reason
        assert str(log.path) in reason
    return values, refused


def test_a_tail_torn_at_any_byte_is_cut_at_the_last_whole_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    values = fill(log, 3)
    (file,) = log_files(log)
    content = file.read_bytes()
    batch_bytes = len(content) // 3

    for size in range(len(content) - 1, -1, -1):
        file.write_bytes(content[:size])
        log = open_log(tmp_path / "p")
        whole = size // batch_bytes
        assert log.log_end_offset == whole
        assert read_values(log) == values[:whole]
        assert file.stat().st_size == whole * batch_bytes
        assert log.damage == ()


@pytest.mark.parametrize("junk", [b"\0" * 200, b"\xff" * 200, b"\x02" * 200, b"\0" * 5])
def test_junk_behind_the_last_batch_is_cut_and_can_be_written_over(
    tmp_path: Path, junk: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(tmp_path / "p")
    values = fill(log, 5)
    (file,) = log_files(log)
    file.write_bytes(file.read_bytes() + junk)

    with caplog.at_level(logging.WARNING):
        log = open_log(tmp_path / "p")
    append(log, b"next")

    assert read_values(log) == [*values, b"next"]
    assert f"cut {len(junk)} bytes off {file}" in caplog.text


def test_any_flipped_bit_is_detected_and_all_else_is_served(tmp_path: Path) -> None:
    """At recovery: every bit of a batch in the middle."""
    log = open_log(tmp_path / "p")
    values = fill(log, 4)
    (file,) = log_files(log)
    content = file.read_bytes()
    size = len(content) // 4

    for position in range(size, 2 * size):
        for bit in (0, 7):
            file.write_bytes(content)
            flip_bit(file, position, bit)
            log = open_log(tmp_path / "p")
            (damage,) = log.damage
            assert (damage.offset, damage.next_offset) == (1, 2)
            assert (damage.path, damage.position) == (file, size)
            assert read_around_damage(log) == ([values[0], *values[2:]], [1])


def test_a_bit_that_flips_while_the_log_is_open_is_detected(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", index_interval_bytes=0)
    values = fill(log, 4)
    (file,) = log_files(log)
    size = file.stat().st_size // 4

    for position in range(size, 2 * size):
        flip_bit(file, position)
        assert read_around_damage(log) == ([values[0], *values[2:]], [1]), position
        (damage,) = log.damage
        assert (damage.offset, damage.position) == (1, size)
        flip_bit(file, position)
        # Readers pass over what was once found damaged, until the log is opened again.
        log = open_log(tmp_path / "p", index_interval_bytes=0)


def test_a_read_ends_before_a_damaged_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    fill(log, 4)
    (file,) = log_files(log)
    content = file.read_bytes()
    size = len(content) // 4
    flip_bit(file, 2 * size + 70)

    read = log.read(0, 1 << 20, up_to=4, at_least_one=True, may_block=False)

    assert read == (content[: 2 * size], 2)


def test_damage_in_one_segment_leaves_the_others_alone(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=400)
    values = fill(log, 12)
    log.close()
    second = log_files(log)[1]
    second.write_bytes(b"\xff" * second.stat().st_size)

    log = open_log(tmp_path / "p", segment_bytes=400, clean=True)

    for offset in (3, 4, 5):
        with pytest.raises(CorruptBatch, match="offsets 3 to 5 are damaged"):
            read_one(log, offset)
    for offset in (0, 1, 2, *range(6, 12)):
        assert read_one(log, offset).value == values[offset]
    assert append(log, b"still works")


def test_a_closed_segment_that_lost_its_end_is_damage_not_a_torn_tail(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=400)
    values = fill(log, 6)
    log.close()
    first = log_files(log)[0]
    content = first.read_bytes()
    first.write_bytes(content[: len(content) // 3 * 2])

    for clean in (True, False):
        log = open_log(tmp_path / "p", segment_bytes=400, clean=clean)
        assert read_around_damage(log) == ([*values[:2], *values[3:]], [2])
        assert log.log_end_offset == 6
        (damage,) = log.damage
        assert "ends too early" in damage.reason


def test_a_roll_that_tore_the_segment_before_it_is_undone(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=400)
    values = fill(log, 4)
    first, second = log_files(log)
    first.write_bytes(first.read_bytes()[:-1])
    second.write_bytes(b"")

    log = open_log(tmp_path / "p", segment_bytes=400)

    assert log.log_end_offset == 2
    assert log.damage == ()
    assert read_values(log) == values[:2]
    assert log_files(log) == [first]


def test_a_message_that_carries_a_batch_is_not_taken_for_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    append(log, b"before")
    carried = bytes(make_batch([b"phantom"], 100))
    append(log, carried)
    append(log, b"after")
    (file,) = log_files(log)
    content = file.read_bytes()
    # Damage the middle batch, once in its payload and once in its length.
    start = content.index(carried) - 5
    middle = log.read(0, 1, up_to=3, at_least_one=True, may_block=True)
    for position in (start, len(middle.data) + 10):
        file.write_bytes(content)
        flip_bit(file, position)
        log = open_log(tmp_path / "p")
        assert read_around_damage(log) == ([b"before", b"after"], [1])


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes()[:-16]),
        lambda path: path.write_bytes(b"\0" * path.stat().st_size),
        lambda path: path.write_bytes(b"junk" * 100),
        lambda path: flip_bit(path, 3, 5),
        lambda path: flip_bit(path, path.stat().st_size - 1),
    ],
    ids=["missing", "empty", "byte short", "entry short", "zeros", "junk", "bit", "seal bit"],
)
@pytest.mark.parametrize("clean", [True, False])
def test_bad_indexes_are_rebuilt(
    tmp_path: Path, suffix: str, damage: Callable[[Path], None], clean: bool
) -> None:
    settings: dict[str, Any] = {"segment_bytes": 2000, "index_interval_bytes": 300}
    log = open_log(tmp_path / "p", **settings)
    values = fill(log, 60)
    log.close()
    good = {path: path.read_bytes() for path in log.path.glob(f"*{suffix}")}
    assert len(good) > 2
    for path in good:
        damage(path)

    log = open_log(tmp_path / "p", clean=clean, **settings)

    assert [read_one(log, offset).value for offset in range(60)] == values
    assert log.damage == ()
    log.close()
    assert {path: path.read_bytes() for path in log.path.glob(f"*{suffix}")} == good


def test_an_index_of_other_log_content_is_not_used(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", index_interval_bytes=0)
    fill(log, 5)
    log.close()
    log = open_log(tmp_path / "p", index_interval_bytes=0, clean=True)
    fill(log, 5)
    log.flush()

    log = open_log(tmp_path / "p", index_interval_bytes=0, clean=True)

    assert log.log_end_offset == 10


def test_leftovers_of_a_crash_are_swept_up(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p")
    append(log, b"a")
    log.close()
    before = sorted(log.path.iterdir())
    for name in ("00000000000000000007.log.deleted", "checkpoint.json.tmp", f"{9:020d}.index"):
        (log.path / name).write_bytes(b"left over")

    log = open_log(tmp_path / "p")

    assert sorted(log.path.iterdir()) == before
    assert read_values(log) == [b"a"]


def test_a_damaged_checkpoint_costs_a_scan(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=400)
    values = fill(log, 10)
    log.close()
    flip_bit(log.path / "checkpoint.json", 20)
    seen: list[int] = []

    log = open_log(tmp_path / "p", on_recovered=lambda header, _: seen.append(header.base_offset))

    assert seen == list(range(10))
    assert read_values(log) == values


def test_leader_epochs_are_rebuilt_from_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p", segment_bytes=400)
    for epoch in (0, 0, 3, 3, 3, 4, 7, 7):
        append(log, b"x" * 50, epoch=epoch)
    entries = log.epochs.entries
    log.close()
    epochs_file = log.path / "leader-epochs.json"

    for damage in (Path.unlink, lambda path: flip_bit(path, 30)):
        damage(epochs_file)
        log = open_log(tmp_path / "p", clean=True)
        assert log.epochs.entries == entries == ((0, 0), (3, 2), (4, 5), (7, 6))
        assert len(read_bytes(log)) == log.size_bytes
        log.close()
