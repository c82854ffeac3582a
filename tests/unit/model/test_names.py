"""Topic names and partition names."""

import pytest

from goqueue.model.errors import InvalidRequest, InvalidTopicName
from goqueue.model.names import TOPIC_NAME_MAX_LENGTH, check_topic_name, topic_partition


@pytest.mark.parametrize("name", ["a", "orders", "a.b_c-9", "...", "A" * TOPIC_NAME_MAX_LENGTH])
def test_legal_names(name: str) -> None:
    assert check_topic_name(name) == name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        (".", "not allowed"),
        ("..", "not allowed"),
        ("A" * (TOPIC_NAME_MAX_LENGTH + 1), "250 characters; the limit is 249"),
        ("../etc/passwd", "character outside"),
        ("with space", "character outside"),
        ("line\n", "character outside"),
        ("naïve", "character outside"),
        ("nul\0", "character outside"),
    ],
)
def test_illegal_names_say_which_rule_they_break(name: str, reason: str) -> None:
    with pytest.raises(InvalidTopicName, match=reason) as caught:
        check_topic_name(name)
    assert isinstance(caught.value, InvalidRequest)


def test_a_partition_is_named_like_its_folder() -> None:
    assert str(topic_partition("orders", 3)) == "orders-3"


def test_a_tenant_may_stand_before_a_topic_and_counts() -> None:
    assert check_topic_name("acme@orders") == "acme@orders"
    limit = TOPIC_NAME_MAX_LENGTH - len("acme@")
    assert check_topic_name("acme@" + "t" * limit)
    with pytest.raises(InvalidTopicName, match=f"the limit is {limit}$"):
        check_topic_name("acme@" + "t" * (limit + 1))


@pytest.mark.parametrize(
    "name", ["@orders", "acme@", "acme@..", "acme@a@b", "Acme@orders", "a b@c"]
)
def test_a_tenant_before_a_topic_is_one(name: str) -> None:
    with pytest.raises(InvalidTopicName):
        check_topic_name(name)
