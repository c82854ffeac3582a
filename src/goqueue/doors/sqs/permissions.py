"""AddPermission and RemovePermission: the queue's policy, which is kept and not applied."""

import json
from typing import Any, Final

from goqueue.doors.sqs.addresses import queue_arn
from goqueue.doors.sqs.answers import Done
from goqueue.doors.sqs.catalogue import Queue
from goqueue.doors.sqs.errors import ErrorKind, SqsError, invalid_parameter, missing
from goqueue.doors.sqs.requests import AddPermission, RemovePermission
from goqueue.doors.sqs.session import Call, Session

# API reference, AddPermission.
ACTIONS_MAX: Final = 7
STATEMENTS_MAX: Final = 20
_ACTIONS: Final = frozenset(
    {
        "*",
        "SendMessage",
        "ReceiveMessage",
        "DeleteMessage",
        "ChangeMessageVisibility",
        "GetQueueAttributes",
        "GetQueueUrl",
        "ListDeadLetterSourceQueues",
        "PurgeQueue",
        "SendMessageBatch",
        "DeleteMessageBatch",
        "ChangeMessageVisibilityBatch",
    }
)


async def add_permission(session: Session, call: Call, request: AddPermission) -> Done:
    queue = session.catalogue.at(request.queue_url)
    if not request.label:
        raise missing("Label")
    if not request.account_ids:
        raise missing("AWSAccountIds")
    if not request.actions:
        raise missing("Actions")
    if len(request.actions) > ACTIONS_MAX:
        raise SqsError(
            ErrorKind.OVER_LIMIT,
            f"{len(request.actions)} Actions were found, maximum allowed is {ACTIONS_MAX}.",
        )
    for action in request.actions:
        if action not in _ACTIONS:
            raise invalid_parameter(
                "ActionName",
                f"SQS:{action}",
                "Please refer to the appropriate WSDL for a list of valid actions. ",
            )
    policy = _policy(queue, call)
    if any(statement.get("Sid") == request.label for statement in policy["Statement"]):
        raise invalid_parameter("Label", request.label, "Already exists.")
    if len(policy["Statement"]) >= STATEMENTS_MAX:
        raise SqsError(
            ErrorKind.OVER_LIMIT,
            f"{STATEMENTS_MAX} statements are in the policy, which is the maximum allowed.",
        )
    accounts = [f"arn:aws:iam::{account}:root" for account in request.account_ids]
    actions = [f"SQS:{action}" for action in request.actions]
    policy["Statement"].append(
        {
            "Sid": request.label,
            "Effect": "Allow",
            "Principal": {"AWS": _one_or_many(accounts)},
            "Action": _one_or_many(actions),
            "Resource": queue_arn(call.region, queue.name),
        }
    )
    await session.catalogue.set_attributes(queue.name, {"Policy": json.dumps(policy)})
    return Done()


async def remove_permission(session: Session, call: Call, request: RemovePermission) -> Done:
    queue = session.catalogue.at(request.queue_url)
    if not request.label:
        raise missing("Label")
    policy = _policy(queue, call)
    kept = [s for s in policy["Statement"] if s.get("Sid") != request.label]
    if len(kept) == len(policy["Statement"]):
        raise invalid_parameter("Label", request.label, "can't find label.")
    text = json.dumps({**policy, "Statement": kept}) if kept else ""
    await session.catalogue.set_attributes(queue.name, {"Policy": text})
    return Done()


def _policy(queue: Queue, call: Call) -> dict[str, Any]:
    policy: dict[str, Any] = {
        "Version": "2008-10-17",
        "Id": f"{queue_arn(call.region, queue.name)}/SQSDefaultPolicy",
        "Statement": [],
    }
    policy.update(json.loads(queue.attributes.get("Policy") or "{}"))
    if not isinstance(policy["Statement"], list):
        policy["Statement"] = [policy["Statement"]]
    return policy


def _one_or_many(items: list[str]) -> str | list[str]:
    return items[0] if len(items) == 1 else items
