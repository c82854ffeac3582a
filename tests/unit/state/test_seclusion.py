"""Whether the others go on without a broker that is cut off."""

from uuid import UUID

import pytest

from goqueue.model.names import NodeId
from goqueue.state.membership.seclusion import Knowledge, goes_on_without

ONE, TWO, THREE = (NodeId(i) for i in (1, 2, 3))
DIRECTORIES = {node: UUID(int=node) for node in (ONE, TWO, THREE)}
OWN = Knowledge(10, DIRECTORIES)
WITHOUT_ONE = {TWO: DIRECTORIES[TWO], THREE: DIRECTORIES[THREE]}


def asked(**heard: Knowledge) -> int | None:
    words = {NodeId(int(name.removeprefix("node_"))): word for name, word in heard.items()}
    return goes_on_without(ONE, DIRECTORIES[ONE], OWN, words)


@pytest.mark.parametrize("revision", [9, 10])
def test_who_knows_nothing_newer_says_nothing(revision: int) -> None:
    assert asked(node_2=Knowledge(revision, WITHOUT_ONE)) is None


def test_who_knows_a_later_revision_without_this_broker_ends_it() -> None:
    behind = Knowledge(10, DIRECTORIES)
    assert asked(node_2=behind, node_3=Knowledge(11, WITHOUT_ONE)) == THREE


def test_who_still_finds_this_broker_there_ends_nothing() -> None:
    assert asked(node_2=Knowledge(99, DIRECTORIES)) is None


def test_nobody_is_heard() -> None:
    assert asked() is None


def test_another_folder_has_the_node_id() -> None:
    assert asked(node_2=Knowledge(11, {**WITHOUT_ONE, ONE: UUID(int=77)})) == TWO


def test_a_broker_of_another_cluster_is_not_believed() -> None:
    foreign = {TWO: UUID(int=1002), THREE: None}
    assert asked(node_2=Knowledge(99, foreign)) is None
    # Nor one that knows of nobody: all registrations ended at once.
    assert asked(node_2=Knowledge(99, {})) is None


def test_a_node_without_others_has_nobody_to_believe() -> None:
    alone = Knowledge(10, {ONE: DIRECTORIES[ONE]})
    heard = {TWO: Knowledge(11, WITHOUT_ONE)}
    assert goes_on_without(ONE, DIRECTORIES[ONE], alone, heard) is None
