"""Creating, finding, configuring, purging and deleting queues."""

from collections.abc import Sequence
from typing import Final

from goqueue.doors.sqs.addresses import queue_arn, queue_name, queue_url
from goqueue.doors.sqs.answers import (
    Attributes,
    Done,
    QueueUrl,
    QueueUrls,
    SourceQueueUrls,
)
from goqueue.doors.sqs.call import Call
from goqueue.doors.sqs.errors import ErrorKind, SqsError, invalid_parameter, missing
from goqueue.doors.sqs.requests import (
    CreateQueue,
    GetQueueAttributes,
    GetQueueUrl,
    ListQueues,
    ListSources,
    QueueRequest,
    SetQueueAttributes,
)
from goqueue.model.queues.attributes import ALL_NAMES
from goqueue.service.broker_service import BrokerService

PAGE_MAX: Final = 1_000
_COUNTS: Final = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


async def create_queue(service: BrokerService, call: Call, request: CreateQueue) -> QueueUrl:
    if not request.queue_name:
        raise missing("QueueName")
    queue = await service.sqs_queues.create(
        call.caller,
        request.queue_name,
        request.attributes or {},
        request.tags or request.upper_tags or {},
    )
    return QueueUrl(queue_url=queue_url(call, queue.name))


async def get_queue_url(service: BrokerService, call: Call, request: GetQueueUrl) -> QueueUrl:
    if not request.queue_name:
        raise missing("QueueName")
    queue = service.sqs_queues.find(call.caller, request.queue_name)
    return QueueUrl(queue_url=queue_url(call, queue.name))


async def delete_queue(service: BrokerService, call: Call, request: QueueRequest) -> Done:
    await service.sqs_queues.delete(call.caller, queue_name(request.queue_url))
    return Done()


async def purge_queue(service: BrokerService, call: Call, request: QueueRequest) -> Done:
    await service.sqs_queues.purge(call.caller, queue_name(request.queue_url))
    return Done()


# --- lists --------------------------------------------------------------------------------


async def list_queues(service: BrokerService, call: Call, request: ListQueues) -> QueueUrls:
    names = service.sqs_queues.names(call.caller)
    names = [name for name in names if name.startswith(request.queue_name_prefix)]
    page, token = _page(names, request.next_token, request.max_results)
    urls = [queue_url(call, name) for name in page]
    # Without MaxResults there is no token, and whoever has more queues must ask for pages.
    return QueueUrls(queue_urls=urls, next_token=token if request.max_results else None)


async def list_dead_letter_source_queues(
    service: BrokerService, call: Call, request: ListSources
) -> SourceQueueUrls:
    sources = service.sqs_queues.sources_of(call.caller, queue_name(request.queue_url))
    page, token = _page(sources, request.next_token, request.max_results)
    answer = SourceQueueUrls(queue_urls=[queue_url(call, name) for name in page])
    if token is None or not request.max_results:
        return answer
    return SourceQueueUrls(queue_urls=answer.queue_urls, next_token=token)


def _page(
    names: Sequence[str], token: str | None, max_results: int | None
) -> tuple[Sequence[str], str | None]:
    """A token is the last name of the page before, in hexadecimal."""
    size = PAGE_MAX if max_results is None else max_results
    if not 1 <= size <= PAGE_MAX:
        raise invalid_parameter("MaxResults", size, f"Must be between 1 and {PAGE_MAX}.")
    if token is not None:
        try:
            after = bytes.fromhex(token).decode()
        except ValueError:
            raise invalid_parameter(
                "NextToken", token, "It is not one that was given out."
            ) from None
        names = [name for name in names if name > after]
    page = names[:size]
    is_last = len(page) == len(names)
    return page, None if is_last else page[-1].encode().hex()


# --- attributes ---------------------------------------------------------------------------


async def get_queue_attributes(
    service: BrokerService, call: Call, request: GetQueueAttributes
) -> Attributes:
    queue = service.sqs_queues.find(call.caller, queue_name(request.queue_url))
    names = request.attribute_names
    for name in names:
        if name not in ALL_NAMES and name != "All":
            raise SqsError(ErrorKind.INVALID_ATTRIBUTE_NAME, f"Unknown Attribute {name}.")
    if not names:
        return Attributes()
    found = dict(queue.attributes)
    found["QueueArn"] = queue_arn(call.region, queue.name)
    created_s = queue.entry.created_s if queue.entry else 0
    modified_s = queue.entry.modified_s if queue.entry else 0
    found["CreatedTimestamp"] = str(created_s)
    found["LastModifiedTimestamp"] = str(modified_s)
    if "All" in names or any(name in _COUNTS for name in names):
        counts = await service.sqs_queues.counts(call.caller, queue.name)
        found.update(zip(_COUNTS, map(str, counts), strict=True))
    if "All" in names:
        return Attributes(attributes=found)
    return Attributes(attributes={name: found[name] for name in names if name in found})


async def set_queue_attributes(
    service: BrokerService, call: Call, request: SetQueueAttributes
) -> Done:
    name = queue_name(request.queue_url)
    if request.attributes is None:
        raise missing("Attributes")
    await service.sqs_queues.set_attributes(call.caller, name, request.attributes)
    return Done()
