"""TagQueue, UntagQueue, ListQueueTags."""

from collections.abc import Mapping
from typing import Final

from goqueue.doors.sqs.answers import Done, Tags
from goqueue.doors.sqs.errors import invalid_value, missing
from goqueue.doors.sqs.requests import QueueRequest, TagQueue, UntagQueue
from goqueue.doors.sqs.session import Call, Session

# SQS Developer Guide, "Tagging quotas".
TAGS_MAX: Final = 50
KEY_MAX_LENGTH: Final = 128
VALUE_MAX_LENGTH: Final = 256


def check_tags(tags: Mapping[str, str]) -> None:
    if len(tags) > TAGS_MAX:
        raise invalid_value(f"Too many tags added: {len(tags)}; a queue has at most {TAGS_MAX}.")
    for key, value in tags.items():
        if not 1 <= len(key) <= KEY_MAX_LENGTH or key.lower().startswith("aws:"):
            raise invalid_value(
                f"Tag keys must be between 1 and {KEY_MAX_LENGTH} characters in length and must "
                "not begin with aws:."
            )
        if len(value) > VALUE_MAX_LENGTH:
            raise invalid_value(
                f"Tag values must be at most {VALUE_MAX_LENGTH} characters in length."
            )


async def tag_queue(session: Session, _call: Call, request: TagQueue) -> Done:
    queue = session.catalogue.at(request.queue_url)
    if request.tags is None:
        raise missing("Tags")
    check_tags({**(queue.entry.tags if queue.entry else {}), **request.tags})
    await session.catalogue.set_tags(queue.name, request.tags)
    return Done()


async def untag_queue(session: Session, _call: Call, request: UntagQueue) -> Done:
    queue = session.catalogue.at(request.queue_url)
    if request.tag_keys is None:
        raise missing("TagKeys")
    await session.catalogue.set_tags(queue.name, dict.fromkeys(request.tag_keys))
    return Done()


async def list_queue_tags(session: Session, _call: Call, request: QueueRequest) -> Tags:
    queue = session.catalogue.at(request.queue_url)
    return Tags(tags=dict(queue.entry.tags) if queue.entry else {})
