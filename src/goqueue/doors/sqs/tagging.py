"""TagQueue, UntagQueue, ListQueueTags."""

from goqueue.doors.sqs.addresses import queue_name
from goqueue.doors.sqs.answers import Done, Tags
from goqueue.doors.sqs.errors import missing
from goqueue.doors.sqs.requests import QueueRequest, TagQueue, UntagQueue
from goqueue.doors.sqs.session import Call, Session


async def tag_queue(session: Session, call: Call, request: TagQueue) -> Done:
    name = queue_name(request.queue_url)
    if request.tags is None:
        raise missing("Tags")
    await session.service.sqs_queues.set_tags(call.caller, name, request.tags)
    return Done()


async def untag_queue(session: Session, call: Call, request: UntagQueue) -> Done:
    name = queue_name(request.queue_url)
    if request.tag_keys is None:
        raise missing("TagKeys")
    removed = dict.fromkeys(request.tag_keys)
    await session.service.sqs_queues.set_tags(call.caller, name, removed)
    return Done()


async def list_queue_tags(session: Session, call: Call, request: QueueRequest) -> Tags:
    queue = session.service.sqs_queues.find(call.caller, queue_name(request.queue_url))
    return Tags(tags=dict(queue.tags))
