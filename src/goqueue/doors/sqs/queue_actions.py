"""Creating, finding, configuring, purging and deleting queues."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from goqueue.doors.sqs.addresses import queue_arn, queue_url
from goqueue.doors.sqs.answers import (
    Attributes,
    Done,
    QueueUrl,
    QueueUrls,
    SourceQueueUrls,
)
from goqueue.doors.sqs.catalogue import GROUP, Queue
from goqueue.doors.sqs.delays import cancel_delayed, delayed_count
from goqueue.doors.sqs.errors import ErrorKind, SqsError, invalid_parameter, missing
from goqueue.doors.sqs.queue_attributes import ALL_NAMES
from goqueue.doors.sqs.requests import (
    CreateQueue,
    GetQueueAttributes,
    GetQueueUrl,
    ListQueues,
    ListSources,
    QueueRequest,
    SetQueueAttributes,
)
from goqueue.doors.sqs.session import Call, Session
from goqueue.doors.sqs.tagging import check_tags

PAGE_MAX: Final = 1_000
PURGE_PAUSE_MS: Final = 60_000
_COUNTS: Final = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)

T = TypeVar("T")


async def create_queue(session: Session, call: Call, request: CreateQueue) -> QueueUrl:
    if not request.queue_name:
        raise missing("QueueName")
    tags = request.tags or request.upper_tags or {}
    check_tags(tags)
    queue = await session.catalogue.create(request.queue_name, request.attributes or {}, tags)
    return QueueUrl(queue_url=queue_url(call.host, queue.name))


async def get_queue_url(session: Session, call: Call, request: GetQueueUrl) -> QueueUrl:
    if not request.queue_name:
        raise missing("QueueName")
    queue = session.catalogue.find(request.queue_name)
    return QueueUrl(queue_url=queue_url(call.host, queue.name))


async def delete_queue(session: Session, _call: Call, request: QueueRequest) -> Done:
    await session.catalogue.delete(session.catalogue.at(request.queue_url).name)
    return Done()


async def list_queues(session: Session, call: Call, request: ListQueues) -> QueueUrls:
    names = [n for n in session.catalogue.names() if n.startswith(request.queue_name_prefix)]
    page, token = _page(names, request.next_token, request.max_results, lambda name: name)
    urls = [queue_url(call.host, name) for name in page]
    # Without MaxResults there is no token, and whoever has more queues must ask for pages.
    return QueueUrls(queue_urls=urls, next_token=token if request.max_results else None)


async def list_dead_letter_source_queues(
    session: Session, call: Call, request: ListSources
) -> SourceQueueUrls:
    target = session.catalogue.at(request.queue_url)
    sources = sorted(queue.name for queue in sources_of(session, target.name))
    page, token = _page(sources, request.next_token, request.max_results, lambda name: name)
    answer = SourceQueueUrls(queue_urls=[queue_url(call.host, name) for name in page])
    if token is None or not request.max_results:
        return answer
    return SourceQueueUrls(queue_urls=answer.queue_urls, next_token=token)


def sources_of(session: Session, target: str) -> list[Queue]:
    """The queues whose dead letters go to `target`."""
    return [
        queue
        for queue in session.catalogue.all()
        if queue.redrive is not None and queue.redrive.target == target
    ]


def _page(
    items: Sequence[T], token: str | None, max_results: int | None, name_of: Callable[[T], str]
) -> tuple[Sequence[T], str | None]:
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
        items = [item for item in items if name_of(item) > after]
    page = items[:size]
    is_last = len(page) == len(items)
    return page, None if is_last else name_of(page[-1]).encode().hex()


# --- attributes ---------------------------------------------------------------------------


async def get_queue_attributes(
    session: Session, call: Call, request: GetQueueAttributes
) -> Attributes:
    queue = session.catalogue.at(request.queue_url)
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
        found.update(await _counts(session, queue))
    if "All" in names:
        return Attributes(attributes=found)
    return Attributes(attributes={name: found[name] for name in names if name in found})


async def _counts(session: Session, queue: Queue) -> dict[str, str]:
    await session.catalogue.open(queue)
    parts = await session.broker.queues.describe(GROUP, queue.name)
    visible = sum(part.ready + part.waiting for part in parts)
    in_flight = sum(part.in_flight for part in parts)
    delayed = delayed_count(session.broker, queue)
    return dict(zip(_COUNTS, (str(visible), str(in_flight), str(delayed)), strict=True))


async def set_queue_attributes(session: Session, _call: Call, request: SetQueueAttributes) -> Done:
    queue = session.catalogue.at(request.queue_url)
    if request.attributes is None:
        raise missing("Attributes")
    await session.catalogue.set_attributes(queue.name, request.attributes)
    return Done()


# --- purging ------------------------------------------------------------------------------


async def purge_queue(session: Session, _call: Call, request: QueueRequest) -> Done:
    """Nothing of what is there now is delivered any more; readers by offset keep it."""
    queue = session.catalogue.at(request.queue_url)
    now_ms = session.broker.clock_ms()
    purged_ms = session.purged_ms.get(queue.topic.id)
    if purged_ms is not None and now_ms < purged_ms + PURGE_PAUSE_MS:
        raise SqsError(
            ErrorKind.PURGE_QUEUE_IN_PROGRESS,
            f"Only one PurgeQueue operation on {queue.name} is allowed every 60 seconds.",
        )
    session.purged_ms = {
        topic_id: at_ms
        for topic_id, at_ms in session.purged_ms.items()
        if now_ms < at_ms + PURGE_PAUSE_MS
    }
    session.purged_ms[queue.topic.id] = now_ms
    await session.catalogue.open(queue)
    await cancel_delayed(session.broker, queue)
    for part in queue.topic.partitions:
        partition = session.broker.partition(queue.name, part.index)
        await session.broker.queues.reset(GROUP, queue.name, part.index, partition.high_watermark)
    return Done()
