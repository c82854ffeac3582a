"""The policy of a queue as rules: what it allows and denies, or why it cannot be had here.

With rules in force nothing of a policy is passed over. What they cannot say, such as a condition,
is refused by name.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from goqueue.model.errors import InvalidRequest
from goqueue.model.queues.refusals import InvalidAttribute
from goqueue.model.queues.sqs_queue import SQS_GROUP
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.rules import ANY, Permission, Rule, check_rule

_EVERYONE: Final = "User:*"
_POLICY_ELEMENTS: Final = frozenset({"Version", "Id", "Statement"})
_ELEMENTS: Final = frozenset({"Sid", "Effect", "Principal", "Action", "Resource"})
_EFFECTS: Final = {"Allow": Permission.ALLOW, "Deny": Permission.DENY}
_USER_ARN: Final = re.compile(r"arn:aws:iam::\d{0,20}:user/(?P<name>[^/*]+)")
# What AddPermission makes of the name of a user in place of an account.
_ROOT_ARN: Final = re.compile(r"arn:aws:iam::(?P<name>[^:/*]+):root")
_QUEUE_ARN: Final = re.compile(r"arn:aws:sqs:[a-z0-9*-]*:\d{0,20}:(?P<name>.+)")
# As the table of needs has them (doors/sqs/actions.py). Not there: PurgeQueue, whose right would
# delete the queue as well, and what changes policies themselves.
_VERBS: Final[Mapping[str, Verb]] = {
    "sendmessage": Verb.WRITE,
    "sendmessagebatch": Verb.WRITE,
    "receivemessage": Verb.READ,
    "deletemessage": Verb.READ,
    "deletemessagebatch": Verb.READ,
    "changemessagevisibility": Verb.READ,
    "changemessagevisibilitybatch": Verb.READ,
    "getqueueattributes": Verb.DESCRIBE,
    "getqueueurl": Verb.DESCRIBE,
    "listqueuetags": Verb.DESCRIBE,
    "listdeadlettersourcequeues": Verb.DESCRIBE,
    "listmessagemovetasks": Verb.DESCRIBE,
    "setqueueattributes": Verb.ALTER_CONFIGS,
    "tagqueue": Verb.ALTER_CONFIGS,
    "untagqueue": Verb.ALTER_CONFIGS,
}
_ALL_ACTIONS: Final = "*"


def rules_of(policy: str, queue: str) -> list[Rule]:
    """The rules that say what the policy of this queue says; none without a policy."""
    if not policy:
        return []
    read = _json(policy)
    _known_only(read, _POLICY_ELEMENTS)
    rules: list[Rule] = []
    for statement in _many(read.get("Statement", [])):
        if not isinstance(statement, dict):
            raise _refused("Statement", statement, "it must be an object")
        rules += _statement_rules(statement, queue)
    for rule in rules:
        _check(rule)
    return list(dict.fromkeys(rules))


def _check(rule: Rule) -> None:
    """Before the policy is kept, which is too late to find that its rules cannot be."""
    try:
        check_rule(rule)
    except InvalidRequest as error:
        raise _refused("Principal", rule.principal, error.message) from None


def _statement_rules(statement: Mapping[str, Any], queue: str) -> Iterator[Rule]:
    _known_only(statement, _ELEMENTS)
    effect = statement.get("Effect")
    if not isinstance(effect, str) or effect not in _EFFECTS:
        raise _refused("Effect", effect, "it is Allow or Deny")
    for resource in _many(statement.get("Resource", _ALL_ACTIONS)):
        found = _QUEUE_ARN.fullmatch(resource) if isinstance(resource, str) else None
        if resource != ANY and (found is None or found["name"] != queue):
            raise _refused("Resource", resource, "it is the ARN of this queue, or *")
    for principal in _principals(statement.get("Principal")):
        for action in _many(statement.get("Action", [])):
            yield from _action_rules(_EFFECTS[effect], principal, action, queue)


def _action_rules(
    permission: Permission, principal: str, action: Any, queue: str
) -> Iterator[Rule]:
    word = action.lower().removeprefix("sqs:") if isinstance(action, str) else ""
    if word != _ALL_ACTIONS and word not in _VERBS:
        raise _refused("Action", action, "there is no right that is just this")
    verb = _VERBS.get(word)
    yield Rule(
        resource=Resource.TOPIC,
        name=queue,
        principal=principal,
        verb=verb,
        permission=permission,
    )
    # Whoever receives acts for the one group that SQS has, whatever the queue. To deny that would
    # deny it for all queues.
    if verb in (None, Verb.READ) and permission is Permission.ALLOW:
        yield Rule(resource=Resource.GROUP, name=SQS_GROUP, principal=principal, verb=Verb.READ)


def _principals(given: Any) -> list[str]:
    if given == ANY:
        return [_EVERYONE]
    if not isinstance(given, dict) or set(given) != {"AWS"}:
        raise _refused("Principal", given, 'it is "*", or {"AWS": …}')
    return [_principal(each) for each in _many(given["AWS"])]


def _principal(given: Any) -> str:
    if given == ANY:
        return _EVERYONE
    found = None
    if isinstance(given, str):
        found = _USER_ARN.fullmatch(given) or _ROOT_ARN.fullmatch(given)
        name = found["name"] if found else given
        if ":" not in name and not re.fullmatch(r"\d+|.*[/*].*|", name):
            return f"User:{name}"
    raise _refused(
        "Principal", given, "it is a user, such as arn:aws:iam::000000000000:user/alice, or *"
    )


def _json(policy: str) -> dict[str, Any]:
    try:
        read = json.loads(policy)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise InvalidAttribute("Invalid value for the parameter Policy.")
    return read


def _known_only(given: Mapping[str, Any], known: frozenset[str]) -> None:
    for element in given:
        if element not in known:
            raise _refused(element, given[element], "this element cannot be a rule here")


def _many(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]


def _refused(element: str, value: Any, reason: str) -> InvalidAttribute:
    said = f"{element[:64]} {str(value)[:200]}: {reason}."
    # JSON can name halves of characters, which no answer can hold.
    told = said.encode(errors="backslashreplace").decode()
    return InvalidAttribute(f"Invalid value for the parameter Policy. Reason: {told}")
