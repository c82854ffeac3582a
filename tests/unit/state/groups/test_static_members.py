"""Instance ids of a consumer group's members, as records change them."""

from goqueue.state.groups.consumer_group import ConsumerGroup
from goqueue.state.groups.records import ConsumerMemberValue
from goqueue.state.groups.topic_regex import RegexCache


def test_a_member_that_takes_another_instance_id_frees_the_first() -> None:
    group = ConsumerGroup("g", RegexCache())
    group.set_said("ada", ConsumerMemberValue(instance_id="one"))
    group.set_said("ada", ConsumerMemberValue(instance_id="two"))
    assert group.static_member("one") is None
    group.remove_member("ada")
    assert group.static_member("two") is None


def test_an_instance_id_that_was_taken_over_stays_with_the_new_member() -> None:
    group = ConsumerGroup("g", RegexCache())
    group.set_said("ada", ConsumerMemberValue(instance_id="one"))
    group.set_said("bob", ConsumerMemberValue(instance_id="one"))
    group.remove_member("ada")
    known = group.static_member("one")
    assert known is not None
    assert known.member_id == "bob"
