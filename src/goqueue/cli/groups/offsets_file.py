"""Offsets in a file: lines of `topic,partition,offset`, as Kafka's own tool exports them."""

import csv
import io
from collections.abc import Mapping

TopicAndPartition = tuple[str, int]


def read_offsets(text: str) -> dict[TopicAndPartition, int]:
    """`ValueError` names the line that is wrong."""
    offsets: dict[TopicAndPartition, int] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row or row[0].startswith("#"):
            continue
        try:
            topic, partition, offset = (field.strip() for field in row)
            named = (topic, int(partition))
            value = int(offset)
            if not topic or named[1] < 0 or value < 0:
                raise ValueError
        except ValueError:
            raise ValueError(f"line {number} is not of the form topic,partition,offset") from None
        if named in offsets:
            raise ValueError(f"line {number} names partition {partition} of {topic} again")
        offsets[named] = value
    if not offsets:
        raise ValueError("there are no offsets in it")
    return offsets


def write_offsets(offsets: Mapping[TopicAndPartition, int]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for (topic, partition), offset in sorted(offsets.items()):
        writer.writerow((topic, partition, offset))
    return text.getvalue()
