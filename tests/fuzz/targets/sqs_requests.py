"""A request of SQS in either protocol, up to the message that would be stored.

The first line is `JSON <action>` or `FORM`; the rest is the body.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from uuid import UUID
from xml.etree import ElementTree

from goqueue.doors.sqs import query_protocol, requests
from goqueue.doors.sqs.addresses import queue_name
from goqueue.doors.sqs.answering import _convert, _decode, _find
from goqueue.doors.sqs.batches import check_entries
from goqueue.doors.sqs.errors import SqsError
from goqueue.doors.sqs.new_messages import prepare
from goqueue.model.errors import GoQueueError
from goqueue.model.queues import policies, tags
from goqueue.model.queues.attributes import check_attributes, check_name, plain_attributes
from goqueue.model.queues.receipts import parse_receipt
from goqueue.model.queues.sqs_queue import QueueEntry, SqsQueue
from goqueue.model.topic_config import TopicConfig
from goqueue.model.topics import TopicView
from tests.fuzz.target import Target, Verdict

_ID: Final = UUID(int=1)
_ARN: Final = "arn:aws:sqs:us-east-1:000000000000:q"


def _queue(name: str, **attributes: str) -> SqsQueue:
    entry = QueueEntry(topic_id=_ID, created_s=0, modified_s=0, attributes=attributes)
    return SqsQueue(TopicView(name, _ID, (), {}), TopicConfig(), entry, None)  # type: ignore[arg-type]


QUEUES: Final = (
    _queue("q", DelaySeconds="5"),
    _queue("q.fifo"),
    _queue("deduplicated.fifo", ContentBasedDeduplication="true"),
)


def run(data: bytes) -> Verdict:
    line, _, body = data.partition(b"\n")
    protocol, _, name = line.decode("latin-1").partition(" ")
    try:
        request = _json(name, body) if protocol == "JSON" else _form(body)
    except SqsError as error:
        return _written(error)
    return request, [_tried(step) for step in _steps(request)]


def _json(name: str, body: bytes) -> Any:
    return _decode(_find(name), body)


def _form(body: bytes) -> Any:
    form = query_protocol.parse_form(body)
    name = form.pop("Action", "")
    action = _find(name)
    return _convert(action, query_protocol.unflatten(name, form))


def _written(error: SqsError) -> Verdict:
    """As the query protocol writes it: XML that can be read, whatever the client sent."""
    document = query_protocol.error_xml(error, "id")
    return error.kind, ElementTree.fromstring(document).findtext(".//{*}Message")


def _tried(step: Callable[[], Verdict]) -> Verdict:
    try:
        return step()
    except SqsError as error:
        return _written(error)
    except GoQueueError as error:
        return type(error).__name__, str(error)


def _steps(request: Any) -> Iterator[Callable[[], Verdict]]:
    """What the action does with its request before it needs a broker."""
    if isinstance(request, requests.QueueRequest | requests.SendMessage):
        yield partial(queue_name, request.queue_url)
    match request:
        case requests.CreateQueue() | requests.SetQueueAttributes():
            yield partial(_attributes, request)
        case requests.NewMessage():
            yield from _sending(request)
        case requests.SendMessageBatch():
            yield partial(check_entries, "SendMessageBatch", request.entries)
            for entry in request.entries[:10]:
                yield from _sending(entry)
        case requests.DeleteMessage() | requests.ChangeVisibility():
            yield partial(parse_receipt, request.receipt_handle or "")
        case requests.TagQueue():
            yield partial(tags.check_tags, request.tags or {})
        case requests.AddPermission():
            yield partial(_permission, request)


def _attributes(request: requests.CreateQueue | requests.SetQueueAttributes) -> Verdict:
    attributes = plain_attributes(request.attributes or {})
    name = "q.fifo"
    if isinstance(request, requests.CreateQueue):
        name = request.queue_name or ""
        check_name(name, attributes)
    check_attributes(name, attributes, is_new=isinstance(request, requests.CreateQueue))
    if "Policy" in attributes:
        added = policies.Permission("label", ["1"], ["SendMessage"])
        policies.without_statement(
            policies.with_statement(attributes["Policy"], _ARN, added), _ARN, "label"
        )
    return _queue(name, **attributes).redrive


def _permission(request: requests.AddPermission) -> Verdict:
    added = policies.Permission(request.label or "", request.account_ids, request.actions)
    policies.check_permission(added)
    return policies.with_statement("", _ARN, added)


def _sending(message: requests.NewMessage) -> Iterator[Callable[[], Verdict]]:
    for queue in QUEUES:
        yield partial(_prepared, queue, message)


def _prepared(queue: SqsQueue, message: requests.NewMessage) -> Verdict:
    """Without the id, which is another one each time."""
    prepared = prepare(queue, message)
    record = prepared.fifo() if queue.is_fifo else prepared.record(1_000)
    return prepared.body_md5, prepared.attributes_md5, record.headers[1:]


TARGET: Final = Target(
    name="sqs_requests",
    promise="a request is understood in both protocols or refused with a code of SQS",
    run=run,
)
