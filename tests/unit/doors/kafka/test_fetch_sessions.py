"""Fetch sessions by KIP-227."""

import contextlib
import random
from collections.abc import Hashable
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.fetch_sessions import (
    FetchPlan,
    FetchSessions,
    PartitionKey,
    SentState,
    SessionError,
)
from goqueue.model.caller import Principal
from goqueue.model.errors import UnknownTopicId
from goqueue.model.log import FetchPart

A0, A1, B0 = (PartitionKey(None, topic, index) for topic, index in (("a", 0), ("a", 1), ("b", 0)))
PART = FetchPart("a", 0, 0, 1000)
STATE = SentState(5, 5, 0)
ACME, ZETA = (Principal("User", "boss", tenant) for tenant in ("acme", "zeta"))


def sessions(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots, random.Random(1))


def begin(cache: FetchSessions, *keys: PartitionKey) -> FetchPlan:
    return cache.plan(0, 0, dict.fromkeys(keys, PART), (), uses_topic_ids=False)


def go_on(
    cache: FetchSessions,
    session_id: int,
    epoch: int,
    *,
    wanted: tuple[PartitionKey, ...] = (),
    forgotten: tuple[PartitionKey, ...] = (),
) -> FetchPlan:
    return cache.plan(
        session_id, epoch, dict.fromkeys(wanted, PART), forgotten, uses_topic_ids=False
    )


@pytest.mark.parametrize("epoch", [0, -1, 1])
@pytest.mark.parametrize("other", [Principal("User", "bob"), Principal("User", "alice", "acme")])
def test_nobody_else_goes_on_with_a_session_or_ends_it(other: Principal, epoch: int) -> None:
    """Whose number may be guessed."""
    cache = sessions()
    alice = Principal("User", "alice")
    begun = cache.plan(0, 0, {A0: PART}, (), uses_topic_ids=False, reader=alice)
    with contextlib.suppress(SessionError):
        cache.plan(begun.session_id, epoch, {}, (A0,), uses_topic_ids=False, reader=other)
    plan = cache.plan(begun.session_id, 1, {}, (), uses_topic_ids=False, reader=alice)
    assert wanted_by(plan) == [A0]


def wanted_by(plan: FetchPlan) -> list[Hashable]:
    assert plan.session is not None
    return list(plan.session.parts)


def test_a_full_fetch_makes_a_session_that_the_next_one_goes_on_with() -> None:
    cache = sessions()
    plan = begin(cache, A0, A1)
    assert plan.session_id > 0
    assert not plan.is_incremental
    following = go_on(cache, plan.session_id, 1)
    assert following.is_incremental
    assert wanted_by(following) == [A0, A1]


def test_changes_are_added_replaced_and_forgotten() -> None:
    cache = sessions()
    session_id = begin(cache, A0, A1).session_id
    plan = go_on(cache, session_id, 1, wanted=(B0,), forgotten=(A0,))
    assert wanted_by(plan) == [A1, B0]


def test_a_sessionless_fetch_makes_none_and_ends_one() -> None:
    cache = sessions()
    session_id = begin(cache, A0).session_id
    plan = cache.plan(session_id, -1, {A0: PART}, (), uses_topic_ids=False)
    assert plan.session_id == 0
    assert len(cache) == 0


@pytest.mark.parametrize("epoch", [2, 7, -2])
def test_a_wrong_epoch_is_refused_and_changes_nothing(epoch: int) -> None:
    cache = sessions()
    session_id = begin(cache, A0).session_id
    with pytest.raises(SessionError) as refused:
        go_on(cache, session_id, epoch, wanted=(B0,))
    assert refused.value.code is ErrorCode.invalid_fetch_session_epoch
    assert wanted_by(go_on(cache, session_id, 1)) == [A0]


def test_an_unknown_session_is_refused() -> None:
    with pytest.raises(SessionError) as refused:
        go_on(sessions(), 5, 1)
    assert refused.value.code is ErrorCode.fetch_session_id_not_found


def test_names_and_ids_do_not_mix_in_a_session() -> None:
    cache = sessions()
    session_id = begin(cache, A0).session_id
    with pytest.raises(SessionError) as refused:
        cache.plan(session_id, 1, {PartitionKey(UUID(int=1), "", 0): PART}, (), uses_topic_ids=True)
    assert refused.value.code is ErrorCode.fetch_session_topic_id_error


def test_a_session_without_partitions_ends() -> None:
    cache = sessions()
    session_id = begin(cache, A0).session_id
    plan = go_on(cache, session_id, 1, forgotten=(A0,))
    assert plan.session_id == 0
    assert len(cache) == 0


def test_the_least_recently_used_session_makes_room() -> None:
    cache = sessions(slots=2)
    first, second = begin(cache, A0).session_id, begin(cache, A0).session_id
    go_on(cache, first, 1)
    begin(cache, A0)
    go_on(cache, first, 2)
    with pytest.raises(SessionError):
        go_on(cache, second, 1)


def test_without_slots_there_are_no_sessions() -> None:
    assert begin(sessions(slots=0), A0).session_id == 0


def test_the_epoch_starts_again_after_the_largest() -> None:
    cache = sessions()
    plan = begin(cache, A0)
    assert plan.session is not None
    plan.session.epoch = 2**31 - 1
    go_on(cache, plan.session_id, 2**31 - 1)
    assert go_on(cache, plan.session_id, 1).is_incremental


def test_only_news_is_told() -> None:
    cache = sessions()
    session = begin(cache, A0, A1).session
    assert session is not None
    assert session.has_news(A0, STATE, has_data=False, error=None)
    assert not session.has_news(A0, STATE, has_data=False, error=None)
    assert session.has_news(A0, SentState(6, 6, 0), has_data=False, error=None)
    assert session.has_news(A0, SentState(6, 6, 0), has_data=True, error=None)
    assert session.has_news(A1, STATE, has_data=False, error=UnknownTopicId("gone"))
    assert session.has_news(A1, STATE, has_data=False, error=None)


def test_all_sessions_share_a_number_of_partitions() -> None:
    cache = FetchSessions(10, random.Random(1), max_parts=4)
    first, second = begin(cache, A0, A1), begin(cache, B0)
    third = begin(cache, A0, B0)
    assert len(cache) == 2, "the first went"
    with pytest.raises(SessionError):
        go_on(cache, first.session_id, 1)
    go_on(cache, second.session_id, 1, wanted=(A0, A1))
    with pytest.raises(SessionError):
        go_on(cache, third.session_id, 1)
    go_on(cache, second.session_id, 2, forgotten=(A0,))
    begin(cache, A0, A1)
    assert len(cache) == 2
    # One that is larger than all may have together is answered, and not remembered for long.
    alone = cache.plan(
        0,
        0,
        {PartitionKey(None, "many", n): PART for n in range(9)},
        (),
        uses_topic_ids=False,
    )
    assert len(wanted_by(alone)) == 9
    assert len(cache) == 1


def begin_as(cache: FetchSessions, reader: Principal, *keys: PartitionKey) -> FetchPlan:
    return cache.plan(0, 0, dict.fromkeys(keys, PART), (), uses_topic_ids=False, reader=reader)


def go_on_as(cache: FetchSessions, reader: Principal, session_id: int) -> FetchPlan:
    return cache.plan(session_id, 1, {}, (), uses_topic_ids=False, reader=reader)


def test_who_has_most_sessions_gives_way() -> None:
    cache = sessions(slots=3)
    zeta = begin_as(cache, ZETA, A0).session_id
    acme = [begin_as(cache, ACME, A0).session_id for _ in range(10)]
    assert len(cache) == 3
    assert go_on_as(cache, ZETA, zeta).session_id == zeta
    for gone in acme[:8]:
        with pytest.raises(SessionError):
            go_on_as(cache, ACME, gone)
    # The second of another takes one of those that has two.
    begin_as(cache, ZETA, A0)
    assert go_on_as(cache, ACME, acme[9]).session_id == acme[9]
    with pytest.raises(SessionError):
        go_on_as(cache, ACME, acme[8])


def test_who_has_most_partitions_gives_way() -> None:
    cache = FetchSessions(10, random.Random(1), max_parts=4)
    zeta = begin_as(cache, ZETA, A0).session_id
    acme = begin_as(cache, ACME, A0, A1, B0).session_id
    begin_as(cache, ZETA, A0)
    with pytest.raises(SessionError):
        go_on_as(cache, ACME, acme)
    # One that would have most gets none, and is answered without.
    wide = [PartitionKey(None, "wide", index) for index in range(4)]
    assert begin_as(cache, ACME, *wide).session_id == 0
    assert go_on_as(cache, ZETA, zeta).session_id == zeta


def test_a_session_that_grows_makes_room_itself() -> None:
    cache = FetchSessions(10, random.Random(1), max_parts=4)
    zeta = begin_as(cache, ZETA, A0).session_id
    acme = begin_as(cache, ACME, A0).session_id
    wide = {PartitionKey(None, "wide", index): PART for index in range(4)}
    cache.plan(acme, 1, wide, (), uses_topic_ids=False, reader=ACME)
    assert go_on_as(cache, ZETA, zeta).session_id == zeta
