"""TagQueue, UntagQueue, ListQueueTags."""

from goqueue.doors.sqs.addresses import queue_name
from goqueue.doors.sqs.answers import Done, Tags
from goqueue.doors.sqs.call import Call
from goqueue.doors.sqs.errors import missing
from goqueue.doors.sqs.requests import QueueRequest, TagQueue, UntagQueue
from goqueue.service.broker_service import BrokerService


async def tag_queue(service: BrokerService, call: Call, request: TagQueue) -> Done:
    name = queue_name(request.queue_url)
    if request.tags is None:
        raise missing("Tags")
    await service.sqs_queues.set_tags(call.caller, name, request.tags)
    return Done()


async def untag_queue(service: BrokerService, call: Call, request: UntagQueue) -> Done:
    name = queue_name(request.queue_url)
    if request.tag_keys is None:
        raise missing("TagKeys")
    removed = dict.fromkeys(request.tag_keys)
    await service.sqs_queues.set_tags(call.caller, name, removed)
    return Done()


async def list_queue_tags(service: BrokerService, call: Call, request: QueueRequest) -> Tags:
    queue = service.sqs_queues.find(call.caller, queue_name(request.queue_url))
    return Tags(tags=dict(queue.tags))
