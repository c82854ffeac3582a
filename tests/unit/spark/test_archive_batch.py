"""What an archive refuses before it writes anything."""

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from goqueue.spark.archive import archive as archiving
from goqueue.spark.archive.archive import Archive, archive_batch
from goqueue.spark.archive.table import NotThisArchive, archive_target, make_archive
from goqueue.spark.source.stream_offsets import StreamOffsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ARCHIVED_ID = uuid.UUID(int=1)
MADE_ANEW_ID = uuid.UUID(int=2)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    made = Archive(
        bootstrap_servers="127.0.0.1:1",
        topic="orders",
        table=str(tmp_path / "table"),
        group="archive-orders",
        checkpoint=str(tmp_path / "checkpoint"),
        fail_on_data_loss=False,
    )
    make_archive(archive_target(made.table), made.topic, ARCHIVED_ID)
    return made


def _note_batch(archive: Archive, topic_id: uuid.UUID) -> None:
    """As Spark does before a batch begins."""
    end = StreamOffsets({("orders", 0): 10}, {"orders": topic_id})
    path = Path(archive.checkpoint) / "offsets" / "0"
    path.parent.mkdir(parents=True)
    path.write_text(f"v1\n{{}}\n{json.dumps(end.to_json())}")


@pytest.mark.parametrize(
    ("topic_id", "is_taken"), [(ARCHIVED_ID, True), (MADE_ANEW_ID, False)], ids=["same", "anew"]
)
def test_a_topic_that_was_made_anew_is_not_taken_for_the_archived_one(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, topic_id: uuid.UUID, is_taken: bool
) -> None:
    written: list[Any] = []
    monkeypatch.setattr(archiving, "write_batch", lambda *given, **_: written.append(given))
    monkeypatch.setattr(archiving, "stream_app_id", lambda _: "spark-query.q")
    monkeypatch.setattr(archiving, "publish_offsets", lambda *_: None)
    monkeypatch.setattr(archiving, "lost_offsets", lambda *_: {})
    _note_batch(archive, topic_id)
    batch = cast("DataFrame", None)
    if is_taken:
        archive_batch(archive, batch, 0)
    else:
        with pytest.raises(NotThisArchive, match="archive into another table"):
            archive_batch(archive, batch, 0)
    assert bool(written) == is_taken
