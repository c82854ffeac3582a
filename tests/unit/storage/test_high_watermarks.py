"""How far partitions were committed, kept in one file over a restart."""

from pathlib import Path
from uuid import UUID

from goqueue.storage.disk import Disk
from goqueue.storage.high_watermarks import (
    FILE_NAME,
    load_high_watermarks,
    save_high_watermarks,
    watermark_key,
)
from tests.unit.storage.stored_log import flip_bit

TOPIC_ID = UUID("7b9b5d0e-6f0e-4c67-9a3f-1f6d1c1a2b3c")


def test_they_are_found_again(tmp_path: Path) -> None:
    assert load_high_watermarks(Disk(), tmp_path) == {}
    noted = {watermark_key(TOPIC_ID, index): index * 10 for index in range(3)}
    save_high_watermarks(Disk(), tmp_path, noted)
    assert load_high_watermarks(Disk(), tmp_path) == noted


def test_a_damaged_file_is_as_none(tmp_path: Path) -> None:
    save_high_watermarks(Disk(), tmp_path, {watermark_key(TOPIC_ID, 0): 10})
    flip_bit(tmp_path / FILE_NAME, 40)
    assert load_high_watermarks(Disk(), tmp_path) == {}
