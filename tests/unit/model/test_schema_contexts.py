"""How subjects and contexts are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.errors import InvalidConfig
from goqueue.model.schemas.contexts import parse_context, parse_subject, qualified, scope_of
from goqueue.model.schemas.errors import RegistryRefusal
from goqueue.model.topic_config import topic_config


def test_a_subject_has_one_name_behind_the_doors() -> None:
    assert qualified(".", "orders") == "orders"
    assert qualified(".", ":.:orders") == "orders"
    assert qualified(".staging", "orders") == ":.staging:orders"
    assert qualified(".staging", ":.other:orders") == ":.other:orders"
    assert qualified(".staging", ":.:orders") == "orders"
    assert qualified(".staging", "") == qualified(".", ":.staging") == ":.staging:"
    assert parse_subject(":.staging:a:b") == (".staging", "a:b")


@given(
    context=st.sampled_from([".", ".a", ".b"]),
    text=st.text(alphabet=":.ab*", max_size=12),
)
def test_a_name_that_has_been_qualified_means_the_same_everywhere(context: str, text: str) -> None:
    """Rights are asked for one name, and what it stands for must not move afterwards."""
    try:
        name = qualified(context, text)
    except RegistryRefusal:
        return
    assert qualified(".", name) == name
    if parse_subject(name).context != ".":
        assert qualified(".b", name) == name


def test_contexts_by_themselves() -> None:
    assert {parse_context(text) for text in ("a", ".a", ":.a:", ":a:")} == {".a"}
    assert parse_context(":.:") == parse_context("") == "."
    assert (scope_of("."), scope_of(".a")) == ("", ":.a:")
    for bad in ("a:b", "a\nb", "x" * 256):
        with pytest.raises(RegistryRefusal):
            parse_context(bad)


def test_the_context_of_a_topic() -> None:
    name = "schema.validation.context.name"
    assert topic_config({}).schema_context == topic_config({name: "default"}).schema_context == "."
    assert topic_config({name: ".staging"}).schema_context == ".staging"
    with pytest.raises(InvalidConfig, match=name):
        topic_config({name: "a:b"})
