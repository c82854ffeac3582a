"""What each action takes. Fields are named as in the API; both protocols decode into these."""

from typing import Annotated

import msgspec
from msgspec import Meta

# Enough for every action; far beyond it a request is a mistake or an attack. Batches are limited
# to ten with an error of their own.
_ListMax = Meta(max_length=1_000)

Texts = Annotated[list[str], _ListMax]
TextMap = Annotated[dict[str, str], _ListMax]


class _Request(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    pass


class AttributeValue(_Request, frozen=True, kw_only=True, rename="pascal", omit_defaults=True):
    """A message attribute; in JSON binary values are base64."""

    data_type: str | None = None
    string_value: str | None = None
    binary_value: str | None = None

    @property
    def is_binary(self) -> bool:
        """The type says which of the two values counts; the other one is not looked at."""
        return (self.data_type or "").startswith("Binary")


AttributeMap = Annotated[dict[str, AttributeValue], _ListMax]


class QueueRequest(_Request, frozen=True, kw_only=True, rename="pascal"):
    """Of DeleteQueue, PurgeQueue and ListQueueTags; the base of most others."""

    queue_url: str | None = None


class CreateQueue(_Request, frozen=True, kw_only=True, rename="pascal"):
    queue_name: str | None = None
    attributes: TextMap | None = None
    tags: TextMap | None = msgspec.field(default=None, name="tags")
    upper_tags: TextMap | None = msgspec.field(default=None, name="Tags")


class GetQueueUrl(_Request, frozen=True, kw_only=True, rename="pascal"):
    queue_name: str | None = None
    queue_owner_account: str | None = msgspec.field(default=None, name="QueueOwnerAWSAccountId")


class ListQueues(_Request, frozen=True, kw_only=True, rename="pascal"):
    queue_name_prefix: str = ""
    next_token: str | None = None
    max_results: int | None = None


class ListSources(QueueRequest, frozen=True, kw_only=True, rename="pascal"):
    next_token: str | None = None
    max_results: int | None = None


class GetQueueAttributes(QueueRequest, frozen=True, kw_only=True, rename="pascal"):
    attribute_names: Texts = []


class SetQueueAttributes(QueueRequest, frozen=True, kw_only=True, rename="pascal"):
    attributes: TextMap | None = None


class NewMessage(_Request, frozen=True, kw_only=True, rename="pascal"):
    message_body: str | None = None
    delay_seconds: int | None = None
    message_attributes: AttributeMap | None = None
    message_system_attributes: AttributeMap | None = None
    message_deduplication_id: str | None = None
    message_group_id: str | None = None


class SendMessage(NewMessage, frozen=True, kw_only=True, rename="pascal"):
    queue_url: str | None = None


class SendEntry(NewMessage, frozen=True, kw_only=True, rename="pascal"):
    id: str | None = None


class SendMessageBatch(QueueRequest, frozen=True, kw_only=True, rename="pascal"):
    entries: Annotated[list[SendEntry], _ListMax] = []


class ReceiveMessage(QueueRequest, frozen=True, kw_only=True, rename="pascal"):
    attribute_names: Texts = []
    message_system_attribute_names: Texts = []
    message_attribute_names: Texts = []
    max_number_of_messages: int | None = None
    visibility_timeout: int | None = None
    wait_time_seconds: int | None = None
    receive_request_attempt_id: str | None = None


class DeleteMessage(QueueRequest, frozen=True, kw_only=True, rename="pascal"):
    receipt_handle: str | None = None


class DeleteEntry(_Request, frozen=True, kw_only=True, rename="pascal"):
    id: str | None = None
    receipt_handle: str | None = None


class DeleteMessageBatch(QueueRequest, frozen=True, kw_only=True, rename="pascal"):
    entries: Annotated[list[DeleteEntry], _ListMax] = []


class ChangeVisibility(QueueRequest, frozen=True, kw_only=True, rename="pascal"):
    receipt_handle: str | None = None
    visibility_timeout: int | None = None


class VisibilityEntry(_Request, frozen=True, kw_only=True, rename="pascal"):
    id: str | None = None
    receipt_handle: str | None = None
    visibility_timeout: int | None = None


class ChangeVisibilityBatch(QueueRequest, frozen=True, kw_only=True, rename="pascal"):
    entries: Annotated[list[VisibilityEntry], _ListMax] = []


class TagQueue(QueueRequest, frozen=True, kw_only=True, rename="pascal"):
    tags: TextMap | None = None


class UntagQueue(QueueRequest, frozen=True, kw_only=True, rename="pascal"):
    tag_keys: Texts | None = None


class AddPermission(QueueRequest, frozen=True, kw_only=True, rename="pascal"):
    label: str | None = None
    account_ids: Texts = msgspec.field(default_factory=list, name="AWSAccountIds")
    actions: Texts = []


class RemovePermission(QueueRequest, frozen=True, kw_only=True, rename="pascal"):
    label: str | None = None


class StartMoveTask(_Request, frozen=True, kw_only=True, rename="pascal"):
    source_arn: str | None = None
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None


class ListMoveTasks(_Request, frozen=True, kw_only=True, rename="pascal"):
    source_arn: str | None = None
    max_results: int | None = None


class CancelMoveTask(_Request, frozen=True, kw_only=True, rename="pascal"):
    task_handle: str | None = None
