"""Every action: what it takes, and the function that carries it out."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import msgspec

from goqueue.doors.sqs import (
    acknowledging,
    moving,
    permissions,
    queue_actions,
    receiving,
    requests,
    sending,
    tagging,
)
from goqueue.doors.sqs.answers import Answer
from goqueue.doors.sqs.session import Call, Session
from goqueue.service.needs import Need


class Action(NamedTuple):
    request: type[msgspec.Struct]
    decoder: msgspec.json.Decoder[Any]
    carry_out: Callable[[Session, Call, Any], Awaitable[Answer]]
    needs: tuple[Need, ...] | None


def _action(
    request: type[msgspec.Struct],
    carry_out: Callable[[Session, Call, Any], Awaitable[Answer]],
    *needs: Need,
) -> Action:
    return Action(request, msgspec.json.Decoder(request), carry_out, needs or None)


ACTIONS: Final = {
    "AddPermission": _action(requests.AddPermission, permissions.add_permission),
    "CancelMessageMoveTask": _action(requests.CancelMoveTask, moving.cancel_message_move_task),
    "ChangeMessageVisibility": _action(
        requests.ChangeVisibility, acknowledging.change_message_visibility
    ),
    "ChangeMessageVisibilityBatch": _action(
        requests.ChangeVisibilityBatch, acknowledging.change_message_visibility_batch
    ),
    "CreateQueue": _action(requests.CreateQueue, queue_actions.create_queue),
    "DeleteMessage": _action(requests.DeleteMessage, acknowledging.delete_message),
    "DeleteMessageBatch": _action(requests.DeleteMessageBatch, acknowledging.delete_message_batch),
    "DeleteQueue": _action(requests.QueueRequest, queue_actions.delete_queue),
    "GetQueueAttributes": _action(requests.GetQueueAttributes, queue_actions.get_queue_attributes),
    "GetQueueUrl": _action(requests.GetQueueUrl, queue_actions.get_queue_url),
    "ListDeadLetterSourceQueues": _action(
        requests.ListSources, queue_actions.list_dead_letter_source_queues
    ),
    "ListMessageMoveTasks": _action(requests.ListMoveTasks, moving.list_message_move_tasks),
    "ListQueueTags": _action(requests.QueueRequest, tagging.list_queue_tags),
    "ListQueues": _action(requests.ListQueues, queue_actions.list_queues),
    "PurgeQueue": _action(requests.QueueRequest, queue_actions.purge_queue),
    "ReceiveMessage": _action(requests.ReceiveMessage, receiving.receive_message),
    "RemovePermission": _action(requests.RemovePermission, permissions.remove_permission),
    "SendMessage": _action(requests.SendMessage, sending.send_message),
    "SendMessageBatch": _action(requests.SendMessageBatch, sending.send_message_batch),
    "SetQueueAttributes": _action(requests.SetQueueAttributes, queue_actions.set_queue_attributes),
    "StartMessageMoveTask": _action(requests.StartMoveTask, moving.start_message_move_task),
    "TagQueue": _action(requests.TagQueue, tagging.tag_queue),
    "UntagQueue": _action(requests.UntagQueue, tagging.untag_queue),
}
