"""The policy of a queue: statements added and removed. What it says counts only as rules
(policy_rules.py), while there are any."""

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from goqueue.model.queues.attributes import POLICY_MAX_BYTES, invalid_parameter
from goqueue.model.queues.refusals import OverLimit

# API reference, AddPermission.
ACTIONS_MAX: Final = 7
STATEMENTS_MAX: Final = 20
_LABEL: Final = re.compile(r"[A-Za-z0-9_-]{1,80}", re.ASCII)
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


class Permission(NamedTuple):
    label: str
    accounts: Sequence[str]
    actions: Sequence[str]


def check_permission(permission: Permission) -> None:
    if not _LABEL.fullmatch(permission.label):
        raise invalid_parameter(
            "Label",
            permission.label,
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length.",
        )
    if len(permission.actions) > ACTIONS_MAX:
        raise OverLimit(
            f"{len(permission.actions)} Actions were found, maximum allowed is {ACTIONS_MAX}."
        )
    for action in permission.actions:
        if action not in _ACTIONS:
            raise invalid_parameter(
                "ActionName",
                f"SQS:{action}",
                "Please refer to the appropriate WSDL for a list of valid actions. ",
            )


def with_statement(text: str, arn: str, permission: Permission) -> str:
    """The policy `text` of the queue `arn` with one statement more."""
    policy = _policy(text, arn)
    if any(_label(statement) == permission.label for statement in policy["Statement"]):
        raise invalid_parameter("Label", permission.label, "Already exists.")
    if len(policy["Statement"]) >= STATEMENTS_MAX:
        raise OverLimit(
            f"{STATEMENTS_MAX} statements are in the policy, which is the maximum allowed."
        )
    accounts = [f"arn:aws:iam::{account}:root" for account in permission.accounts]
    actions = [f"SQS:{action}" for action in permission.actions]
    policy["Statement"].append(
        {
            "Sid": permission.label,
            "Effect": "Allow",
            "Principal": {"AWS": _one_or_many(accounts)},
            "Action": _one_or_many(actions),
            "Resource": arn,
        }
    )
    changed = json.dumps(policy)
    if len(changed) > POLICY_MAX_BYTES:
        raise OverLimit(
            f"The policy would have {len(changed)} bytes, maximum allowed is {POLICY_MAX_BYTES}."
        )
    return changed


def without_statement(text: str, arn: str, label: str) -> str:
    """Empty once the last statement is gone."""
    policy = _policy(text, arn)
    kept = [s for s in policy["Statement"] if _label(s) != label]
    if len(kept) == len(policy["Statement"]):
        raise invalid_parameter("Label", label, "can't find label.")
    return json.dumps({**policy, "Statement": kept}) if kept else ""


def _policy(text: str, arn: str) -> dict[str, Any]:
    policy: dict[str, Any] = {
        "Version": "2008-10-17",
        "Id": f"{arn}/SQSDefaultPolicy",
        "Statement": [],
    }
    policy.update(json.loads(text or "{}"))
    if not isinstance(policy["Statement"], list):
        policy["Statement"] = [policy["Statement"]]
    return policy


def _label(statement: Any) -> Any:
    """A policy may be any JSON object, and have in it what is no statement."""
    return statement.get("Sid") if isinstance(statement, dict) else None


def _one_or_many(items: list[str]) -> str | list[str]:
    return items[0] if len(items) == 1 else items
