"""The policy of a queue, which is kept as it is and becomes rules."""

from typing import Final

from goqueue.model.errors import GoQueueError
from goqueue.model.queues import policies
from goqueue.model.queues.attributes import check_attributes
from goqueue.model.queues.policy_rules import rules_of
from goqueue.model.security.rules import check_rule, rule_id
from tests.fuzz.target import Finding, Target, Verdict

_QUEUE: Final = "q"
_ARN: Final = "arn:aws:sqs:us-east-1:000000000000:q"
_ADDED: Final = policies.Permission("fuzz", ["alice"], ["SendMessage"])


def run(data: bytes) -> Verdict:
    text = data.decode("utf-8", "replace")
    try:
        check_attributes(_QUEUE, {"Policy": text}, is_new=False)
        rules = rules_of(text, _QUEUE)
    except GoQueueError as error:
        return type(error).__name__, error.message.encode()
    for rule in rules:
        # Else it would be refused once the policy is kept.
        check_rule(rule)
    return [rule_id(rule) for rule in rules], _changed(text)


def _changed(text: str) -> Verdict:
    try:
        added = policies.with_statement(text, _ARN, _ADDED)
    except GoQueueError as error:
        return type(error).__name__, error.message
    if set(rules_of(text, _QUEUE)) - set(rules_of(added, _QUEUE)):
        raise Finding(f"{text} allows less with one permission more")
    kept = policies.without_statement(added, _ARN, _ADDED.label)
    if rules_of(kept, _QUEUE) != rules_of(text, _QUEUE):
        raise Finding(f"{text} is another one after a permission came and went")
    return added


TARGET: Final = Target(
    name="queue_policies",
    promise="a policy becomes rules that can be kept, or is refused by name",
    run=run,
)
