from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.share_sessions import (
    ShareSession,
    ShareSessionError,
    ShareSessions,
)
from goqueue.model.queues.share import ShareMember, SharePart

TOPIC = UUID(int=1)
KEY = ShareMember("g", "m")
A, B, C = (SharePart(TOPIC, number) for number in range(3))


def made(limit: int, lost: list[ShareMember] | None = None) -> ShareSessions:
    return ShareSessions(limit, (lost if lost is not None else []).extend)


def fetch(
    sessions: ShareSessions,
    epoch: int,
    *wanted: SharePart,
    forgotten: tuple[SharePart, ...] = (),
    key: ShareMember = KEY,
    connection: str = "one",
    party: str = "",
) -> ShareSession:
    return sessions.fetch(
        key, epoch, wanted, forgotten, connection, has_acknowledgements=False, party=party
    )


def refused(sessions: ShareSessions, epoch: int, key: ShareMember = KEY) -> ErrorCode:
    with pytest.raises(ShareSessionError) as error:
        fetch(sessions, epoch, A, key=key)
    return error.value.code


def test_a_session_remembers_its_partitions() -> None:
    sessions = made(10)
    assert list(fetch(sessions, 0, A, B).parts) == [A, B]
    assert list(fetch(sessions, 1, C, forgotten=(A,)).parts) == [B, C]
    session = fetch(sessions, 2)
    session.serve_last(B)
    session.serve_last(A)
    assert list(session.parts) == [C, B]
    # Named and forgotten at once: forgotten.
    assert list(fetch(sessions, 3, A, forgotten=(A,)).parts) == [C, B]


def test_epochs() -> None:
    sessions = made(10)
    assert refused(sessions, 5) is ErrorCode.share_session_not_found
    fetch(sessions, 0, A)
    assert refused(sessions, 0, ShareMember("", "m")) is ErrorCode.invalid_request
    assert refused(sessions, 0, ShareMember("g", "")) is ErrorCode.invalid_request
    assert refused(sessions, 2) is ErrorCode.invalid_share_session_epoch
    sessions.acknowledge(KEY, 1)
    fetch(sessions, 2)
    assert refused(sessions, 2) is ErrorCode.invalid_share_session_epoch
    # The final epoch fits always; the session stays until it is closed.
    assert list(fetch(sessions, -1).parts) == [A]
    sessions.close(KEY)
    sessions.close(KEY)
    assert refused(sessions, -1) is ErrorCode.share_session_not_found


def test_epochs_begin_anew_after_the_last_one() -> None:
    sessions = made(10)
    fetch(sessions, 0).epoch = 2**31 - 1
    assert fetch(sessions, 2**31 - 1).epoch == 1


def test_sessions_end_with_their_connection() -> None:
    sessions = made(2)
    other = ShareMember("g", "other")
    fetch(sessions, 0, A)
    fetch(sessions, 0, A, key=other)
    assert refused(sessions, 0, ShareMember("g", "third")) is ErrorCode.share_session_limit_reached
    # Opened anew elsewhere: the first connection has nothing to do with it any more.
    fetch(sessions, 0, A, connection="two")
    assert sessions.connection_lost("one") == [other]
    assert sessions.connection_lost("one") == []
    assert len(sessions) == 1
    assert sessions.connection_lost("two") == [KEY]
    assert len(sessions) == 0


def test_who_has_most_gives_way() -> None:
    lost: list[ShareMember] = []
    sessions = made(3, lost)
    flood = [ShareMember("g", f"flood-{number}") for number in range(4)]
    for member in flood[:3]:
        fetch(sessions, 0, A, key=member, party="acme@")
    fetch(sessions, 1, key=flood[0], party="acme@")
    with pytest.raises(ShareSessionError, match="3 share sessions"):
        fetch(sessions, 0, A, key=flood[3], party="acme@")
    fetch(sessions, 0, A, key=KEY, party="zeta@")
    # The one that was not used for longest.
    assert lost == [flood[1]]
    assert refused(sessions, 1, key=flood[1]) is ErrorCode.share_session_not_found
    assert len(sessions) == 3
    # Nobody loses one to somebody who has as many.
    with pytest.raises(ShareSessionError):
        fetch(sessions, 0, A, key=flood[3], party="acme@")
    assert sessions.connection_lost("one") == sorted((flood[0], flood[2], KEY))
    assert len(sessions) == 0
