"""Where a batch of a streaming query ends, as Spark noted it before the batch began."""

import json
from typing import Final

from goqueue.model.errors import GoQueueError
from goqueue.spark.archive.delta_files import TableFolder
from goqueue.spark.archive.object_store import storage_options
from goqueue.spark.source.stream_offsets import StreamOffsets

# A line with the version, one with Spark's own facts, and one for each source.
_VERSION: Final = "v1"
_FIRST_SOURCE: Final = 2


class UnreadableCheckpoint(GoQueueError):
    code = "unreadable_checkpoint"


def batch_end(checkpoint: str, batch_id: int) -> StreamOffsets:
    """Of a query whose only source is ours."""
    place = f"offsets/{batch_id}"
    try:
        folder = TableFolder(checkpoint, storage_options(checkpoint))
        lines = folder.read(place).decode().splitlines()
        if lines[0] != _VERSION:
            raise ValueError(f"its format is {lines[0]!r}, not {_VERSION!r}")
        return StreamOffsets.from_json(json.loads(lines[_FIRST_SOURCE]))
    except (OSError, ValueError, LookupError) as error:
        raise UnreadableCheckpoint(
            f"checkpoint {checkpoint}: {place} cannot be read: {error}; start the pipeline with "
            "another checkpoint: it goes on where its table ends"
        ) from None
