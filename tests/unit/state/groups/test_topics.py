"""Topics as the coordinator knows them, from one moment to the next."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from goqueue.state.groups.topics import TopicInfo, Topics

topics_by_name = st.dictionaries(
    st.sampled_from("abcdef"),
    st.tuples(st.integers(0, 3), st.integers(1, 3), st.booleans()),
).map(
    lambda drawn: {
        name: TopicInfo(name, UUID(int=ord(name) * 10 + number), partitions, internal)
        for name, (number, partitions, internal) in drawn.items()
    }
)


@given(topics_by_name, topics_by_name)
def test_edited_topics_are_as_if_made_anew(
    before: dict[str, TopicInfo], after: dict[str, TopicInfo]
) -> None:
    old, new = Topics(before.values()), Topics(after.values())
    edits: dict[str, TopicInfo | None] = {name: after.get(name) for name in before | after}
    edited = old.edited(edits)

    assert edited.by_name == new.by_name
    assert edited.by_id == new.by_id
    assert edited.public_names == new.public_names
    assert edited.changes_since(old) == new.changes_since(old)
