"""Rules and filters for them, as Kafka means them."""

import pytest

from goqueue.model.errors import InvalidRequest
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.rules import (
    Pattern,
    PatternFilter,
    Permission,
    Rule,
    RuleFilter,
    check_rule,
    rule_id,
)


def rule(
    name: str = "orders",
    pattern: Pattern = Pattern.LITERAL,
    *,
    resource: Resource = Resource.TOPIC,
    principal: str = "User:alice",
    host: str = "*",
    verb: Verb | None = Verb.READ,
    permission: Permission = Permission.ALLOW,
    tenant: str = "",
) -> Rule:
    return Rule(
        resource=resource,
        name=name,
        pattern=pattern,
        principal=principal,
        host=host,
        verb=verb,
        permission=permission,
        tenant=tenant,
    )


EVERY = {
    "orders": rule(),
    "*": rule("*"),
    "prefix ord": rule("ord", Pattern.PREFIXED),
    "prefix orders": rule("orders", Pattern.PREFIXED),
    "other": rule("other"),
}


@pytest.mark.parametrize(
    ("pattern", "name", "taken"),
    [
        (PatternFilter.ANY, None, set(EVERY)),
        (PatternFilter.ANY, "orders", {"orders", "prefix orders"}),
        (PatternFilter.MATCH, None, set(EVERY)),
        (PatternFilter.MATCH, "orders", {"orders", "*", "prefix ord", "prefix orders"}),
        (PatternFilter.MATCH, "ord", {"*", "prefix ord"}),
        (PatternFilter.LITERAL, None, {"orders", "*", "other"}),
        (PatternFilter.LITERAL, "orders", {"orders"}),
        (PatternFilter.LITERAL, "*", {"*"}),
        (PatternFilter.PREFIXED, "orders", {"prefix orders"}),
        (PatternFilter.PREFIXED, None, {"prefix ord", "prefix orders"}),
    ],
)
def test_names_by_pattern(pattern: PatternFilter, name: str | None, taken: set[str]) -> None:
    wanted = RuleFilter(pattern=pattern, name=name)
    assert {each for each, one in EVERY.items() if wanted.takes(one)} == taken


def test_other_fields_are_equal_or_any() -> None:
    one = rule(host="10.0.0.1", permission=Permission.DENY, tenant="acme")
    assert RuleFilter(tenant=None).takes(one)
    assert not RuleFilter().takes(one)
    for wanted in (
        RuleFilter(tenant=None, resource=Resource.GROUP),
        RuleFilter(tenant=None, principal="User:bob"),
        RuleFilter(tenant=None, host="*"),
        RuleFilter(tenant=None, verb=Verb.WRITE),
        RuleFilter(tenant=None, verb="all"),
        RuleFilter(tenant=None, permission=Permission.ALLOW),
    ):
        assert not wanted.takes(one), wanted
    assert RuleFilter(
        tenant="acme",
        resource=Resource.TOPIC,
        principal="User:alice",
        host="10.0.0.1",
        verb=Verb.READ,
        permission=Permission.DENY,
    ).takes(one)


def test_all_is_a_verb_of_its_own_in_filters() -> None:
    assert RuleFilter(verb="all").takes(rule(verb=None))
    assert not RuleFilter(verb=Verb.READ).takes(rule(verb=None))


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (rule(""), "name"),
        (rule("x" * 1_025), "name"),
        (rule("kafka", resource=Resource.CLUSTER), "kafka-cluster"),
        (rule(principal="alice"), "User:alice"),
        (rule(principal="User:"), "User:alice"),
        (rule(host=""), "host"),
        (rule(host="example.org"), "IP address"),
        (rule(host="010.0.0.1"), "IP address"),
    ],
)
def test_what_cannot_count_is_refused(bad: Rule, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        check_rule(bad)


def test_an_id_tells_the_content() -> None:
    different = [
        rule(),
        rule("*"),
        rule(pattern=Pattern.PREFIXED),
        rule(resource=Resource.GROUP),
        rule(principal="User:bob"),
        rule(host="10.0.0.1"),
        rule(verb=None),
        rule(permission=Permission.DENY),
        rule(tenant="acme"),
    ]
    assert len({rule_id(each) for each in different}) == len(different)
    assert rule_id(rule()) == rule_id(rule())
