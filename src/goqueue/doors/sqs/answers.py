"""What each action answers. What is empty is left out, as the service does."""

import msgspec

from goqueue.doors.sqs.requests import AttributeValue


class _Answer(msgspec.Struct, frozen=True, kw_only=True, rename="pascal", omit_defaults=True):
    pass


class Done(_Answer, frozen=True, kw_only=True):
    """Of actions that answer nothing."""


class QueueUrl(_Answer, frozen=True, kw_only=True, rename="pascal", omit_defaults=True):
    queue_url: str


class QueueUrls(_Answer, frozen=True, kw_only=True, rename="pascal", omit_defaults=True):
    queue_urls: list[str] = []
    next_token: str | None = None


class SourceQueueUrls(_Answer, frozen=True, kw_only=True, rename="pascal"):
    # The one list that the API spells like this, and that is there when empty.
    queue_urls: list[str] = msgspec.field(name="queueUrls")
    next_token: str | msgspec.UnsetType = msgspec.UNSET


class Attributes(_Answer, frozen=True, kw_only=True, rename="pascal", omit_defaults=True):
    attributes: dict[str, str] = {}


class Tags(_Answer, frozen=True, kw_only=True, rename="pascal", omit_defaults=True):
    tags: dict[str, str] = {}


class Sent(_Answer, frozen=True, kw_only=True, rename="pascal", omit_defaults=True):
    message_id: str
    body_md5: str = msgspec.field(name="MD5OfMessageBody")
    attributes_md5: str | None = msgspec.field(default=None, name="MD5OfMessageAttributes")
    system_attributes_md5: str | None = msgspec.field(
        default=None, name="MD5OfMessageSystemAttributes"
    )
    sequence_number: str | None = None


class SentEntry(Sent, frozen=True, kw_only=True, rename="pascal", omit_defaults=True):
    id: str


class DoneEntry(_Answer, frozen=True, kw_only=True, rename="pascal", omit_defaults=True):
    id: str


class FailedEntry(_Answer, frozen=True, kw_only=True, rename="pascal"):
    id: str
    sender_fault: bool
    code: str
    message: str


class Batch(_Answer, frozen=True, kw_only=True, rename="pascal", omit_defaults=True):
    successful: list[SentEntry] | list[DoneEntry] = []
    failed: list[FailedEntry] = []


class Message(_Answer, frozen=True, kw_only=True, rename="pascal", omit_defaults=True):
    message_id: str
    receipt_handle: str
    body_md5: str = msgspec.field(name="MD5OfBody")
    # Without a default, so that the body of a tombstone, which is empty, is there too.
    body: str
    attributes: dict[str, str] = {}
    attributes_md5: str | None = msgspec.field(default=None, name="MD5OfMessageAttributes")
    message_attributes: dict[str, AttributeValue] = {}


class Messages(_Answer, frozen=True, kw_only=True, rename="pascal", omit_defaults=True):
    messages: list[Message] = []


class TaskHandle(_Answer, frozen=True, kw_only=True, rename="pascal"):
    task_handle: str


class MovedSoFar(_Answer, frozen=True, kw_only=True, rename="pascal"):
    approximate_number_of_messages_moved: int


class MoveTask(_Answer, frozen=True, kw_only=True, rename="pascal"):
    task_handle: str | msgspec.UnsetType = msgspec.UNSET
    status: str
    source_arn: str
    destination_arn: str | msgspec.UnsetType = msgspec.UNSET
    max_number_of_messages_per_second: int | msgspec.UnsetType = msgspec.UNSET
    approximate_number_of_messages_moved: int
    approximate_number_of_messages_to_move: int | msgspec.UnsetType = msgspec.UNSET
    failure_reason: str | msgspec.UnsetType = msgspec.UNSET
    started_timestamp: int


class MoveTasks(_Answer, frozen=True, kw_only=True, rename="pascal", omit_defaults=True):
    results: list[MoveTask] = []


Answer = (
    Done
    | QueueUrl
    | QueueUrls
    | SourceQueueUrls
    | Attributes
    | Tags
    | Sent
    | Batch
    | Messages
    | TaskHandle
    | MovedSoFar
    | MoveTasks
)
