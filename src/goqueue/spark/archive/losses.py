"""Records that a topic deleted before they were archived."""

import logging
from collections.abc import Mapping

from goqueue.spark.source.stream_planning import DataLoss

log = logging.getLogger(__name__)


def loss_text(topic: str, lost: Mapping[int, tuple[int, int]]) -> str:
    """`lost` has the first lost offset of a partition, and the first that is there again."""
    places = ", ".join(
        f"{topic}-{partition} offsets {first} to {after - 1}"
        for partition, (first, after) in sorted(lost.items())
    )
    return f"{places}: deleted before they were archived"


def tell_loss(
    table: str, topic: str, lost: Mapping[int, tuple[int, int]], *, is_error: bool
) -> None:
    """For whoever reads archive and log as one."""
    text = f"table {table}: {loss_text(topic, lost)}"
    if is_error:
        raise DataLoss(
            f"{text}; set fail_on_data_loss=False to go without them, and see docs/archives.md on "
            "retention that waits for the archive"
        )
    log.warning("%s; going on without them", text)
