"""Every action: what it takes, the function that carries it out, and the rights it needs."""

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
from goqueue.doors.sqs.call import Call
from goqueue.model.rights import Resource, Verb
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need, Refused


class Action(NamedTuple):
    request: type[msgspec.Struct]
    decoder: msgspec.json.Decoder[Any]
    carry_out: Callable[[BrokerService, Call, Any], Awaitable[Answer]]
    needs: tuple[Need, ...]


def _action(
    request: type[msgspec.Struct],
    carry_out: Callable[[BrokerService, Call, Any], Awaitable[Answer]],
    *needs: Need,
) -> Action:
    """Every action touches a queue, so that each has needs."""
    if not needs:
        raise ValueError(f"{request.__name__}: an action must say what it needs")
    return Action(request, msgspec.json.Decoder(request), carry_out, needs)


def _queue(verb: Verb, names: str = "queue_url") -> Need:
    """A queue is a topic. Requests name it by its URL, its name or its ARN."""
    return Need(Resource.TOPIC, verb, names=names)


# Whoever receives or deletes acts for the one group that SQS has; no request names it.
_GROUP: Final = Need(Resource.GROUP, Verb.READ)
_RECEIVE: Final = (_queue(Verb.READ), _GROUP)
# Where a RedrivePolicy sends dead letters, if one is given.
_DEAD_LETTERS: Final = _queue(Verb.WRITE, "attributes.RedrivePolicy.deadLetterTargetArn")
# A policy becomes rules, which concern everybody.
_RULES: Final = Need(Resource.CLUSTER, Verb.ALTER)
_LISTED: Final = Need(Resource.TOPIC, Verb.DESCRIBE, refused=Refused.LEFT_OUT)

ACTIONS: Final = {
    "AddPermission": _action(
        requests.AddPermission, permissions.add_permission, _queue(Verb.ALTER_CONFIGS), _RULES
    ),
    "CancelMessageMoveTask": _action(
        requests.CancelMoveTask,
        moving.cancel_message_move_task,
        _queue(Verb.READ, "task_handle"),
    ),
    "ChangeMessageVisibility": _action(
        requests.ChangeVisibility, acknowledging.change_message_visibility, *_RECEIVE
    ),
    "ChangeMessageVisibilityBatch": _action(
        requests.ChangeVisibilityBatch, acknowledging.change_message_visibility_batch, *_RECEIVE
    ),
    "CreateQueue": _action(
        requests.CreateQueue,
        queue_actions.create_queue,
        Need(Resource.TOPIC, Verb.CREATE, names="queue_name", or_cluster=True),
        # Of a topic that is there and becomes a queue.
        _queue(Verb.ALTER_CONFIGS, "queue_name"),
        _DEAD_LETTERS,
        _RULES,
    ),
    "DeleteMessage": _action(requests.DeleteMessage, acknowledging.delete_message, *_RECEIVE),
    "DeleteMessageBatch": _action(
        requests.DeleteMessageBatch, acknowledging.delete_message_batch, *_RECEIVE
    ),
    "DeleteQueue": _action(requests.QueueRequest, queue_actions.delete_queue, _queue(Verb.DELETE)),
    "GetQueueAttributes": _action(
        requests.GetQueueAttributes, queue_actions.get_queue_attributes, _queue(Verb.DESCRIBE)
    ),
    "GetQueueUrl": _action(
        requests.GetQueueUrl, queue_actions.get_queue_url, _queue(Verb.DESCRIBE, "queue_name")
    ),
    "ListDeadLetterSourceQueues": _action(
        requests.ListSources,
        queue_actions.list_dead_letter_source_queues,
        _queue(Verb.DESCRIBE),
        _LISTED,
    ),
    "ListMessageMoveTasks": _action(
        requests.ListMoveTasks,
        moving.list_message_move_tasks,
        _queue(Verb.DESCRIBE, "source_arn"),
    ),
    "ListQueueTags": _action(requests.QueueRequest, tagging.list_queue_tags, _queue(Verb.DESCRIBE)),
    "ListQueues": _action(requests.ListQueues, queue_actions.list_queues, _LISTED),
    "PurgeQueue": _action(requests.QueueRequest, queue_actions.purge_queue, _queue(Verb.DELETE)),
    "ReceiveMessage": _action(requests.ReceiveMessage, receiving.receive_message, *_RECEIVE),
    "RemovePermission": _action(
        requests.RemovePermission,
        permissions.remove_permission,
        _queue(Verb.ALTER_CONFIGS),
        _RULES,
    ),
    "SendMessage": _action(requests.SendMessage, sending.send_message, _queue(Verb.WRITE)),
    "SendMessageBatch": _action(
        requests.SendMessageBatch, sending.send_message_batch, _queue(Verb.WRITE)
    ),
    "SetQueueAttributes": _action(
        requests.SetQueueAttributes,
        queue_actions.set_queue_attributes,
        _queue(Verb.ALTER_CONFIGS),
        _DEAD_LETTERS,
        _RULES,
    ),
    # Without a destination, messages go back to where they came from: to be written, too.
    "StartMessageMoveTask": _action(
        requests.StartMoveTask,
        moving.start_message_move_task,
        _queue(Verb.READ, "source_arn"),
        _queue(Verb.WRITE, "destination_arn"),
    ),
    "TagQueue": _action(requests.TagQueue, tagging.tag_queue, _queue(Verb.ALTER_CONFIGS)),
    "UntagQueue": _action(requests.UntagQueue, tagging.untag_queue, _queue(Verb.ALTER_CONFIGS)),
}
