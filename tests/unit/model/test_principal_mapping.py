"""Kafka's rules from the name in a certificate to a principal (KIP-371)."""

import pytest

from goqueue.model.errors import InvalidConfig
from goqueue.model.security.principal_mapping import RULES_MAX, parse_mapping


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        ("DEFAULT", "CN=alice,OU=sales", "CN=alice,OU=sales"),
        ("", "CN=alice", "CN=alice"),
        (r"RULE:^CN=(.*?),OU=Users.*$/$1/", "CN=Alice,OU=Users,O=x", "Alice"),
        (r"RULE:^CN=(.*?),OU=Users.*$/$1/L", "CN=Alice,OU=Users,O=x", "alice"),
        (r"RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U", "CN=a,OU=b,O=c", "A@B"),
        # It must fit the whole name.
        (r"RULE:CN=(\w+)/$1/", "CN=alice,OU=sales", None),
        # The first that fits.
        (r"RULE:^CN=x$/first/, RULE:^CN=.*$/second/,DEFAULT", "CN=y", "second"),
        (r"RULE:^OU=.*$/x/ , DEFAULT", "CN=y", "CN=y"),
        # A group that is not there stands for itself; what is escaped, too.
        (r"RULE:^CN=(.*)$/$1-$4/", "CN=a", "a-$4"),
        (r"RULE:^CN=(.*)$/\$1\/x/", "CN=a", "$1/x"),
        (r"RULE:^CN=a\,b$/ab/", "CN=a,b", "ab"),
        # Nobody.
        (r"RULE:^CN=(.*)$//", "CN=a", None),
    ],
)
def test_rules(rules: str, name: str, expected: str | None) -> None:
    assert parse_mapping(rules).name(name) == expected


@pytest.mark.parametrize(
    "rules",
    ["RULE:a", "RULE:a/b", "RULE:a/b/X", "default", "DEFAULT DEFAULT", "RULE:(/x/", "x,DEFAULT"],
)
def test_what_is_no_rule(rules: str) -> None:
    with pytest.raises(InvalidConfig, match=r"tls\.principal\.mapping\.rules"):
        parse_mapping(rules)


def test_too_many_rules() -> None:
    with pytest.raises(InvalidConfig, match=f"more than {RULES_MAX}"):
        parse_mapping(",".join(["DEFAULT"] * (RULES_MAX + 1)))
