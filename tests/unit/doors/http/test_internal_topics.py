"""The broker's own records are nobody's to read over HTTP."""

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.broker.own_grants import own_state
from goqueue.model.topics import INTERNAL_TOPICS
from tests.unit.doors.http.answers import error_code

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", sorted(INTERNAL_TOPICS))
async def test_internal_topics_are_listed_and_not_read(
    client: httpx.AsyncClient, broker: Node, name: str
) -> None:
    await broker.topics.ensure_internal(own_state(name), partitions=1, config={})
    for path in (
        f"/topics/{name}/partitions/0/messages?offset=0",
        f"/topics/{name}/partitions/0/messages?timestamp=0",
        f"/topics/{name}/partitions/0/count",
        f"/groups/g/poll?topic={name}",
    ):
        assert error_code(await client.get(path), 403) == "topic_access_denied", path
    assert (await client.get(f"/topics/{name}")).status_code == 200
