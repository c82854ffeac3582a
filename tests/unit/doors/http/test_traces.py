"""Traces over HTTP: listed, searched, shown, and begun by a request's own trace context."""

from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.anyio

TRACE = "ab" * 16
GIVEN = f"00-{TRACE}-{'cd' * 8}-01"


@pytest.fixture
def settings() -> dict[str, str]:
    return {"tracing.sampling.rate": "1"}


async def publish(
    client: httpx.AsyncClient, body: dict[str, Any], traceparent: str | None = GIVEN
) -> httpx.Response:
    headers = {} if traceparent is None else {"traceparent": traceparent}
    answer = await client.post("/topics/orders/messages", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer


async def get(client: httpx.AsyncClient, path: str, expected: int = 200, **query: Any) -> Any:
    answer = await client.get(path, params=query)
    assert answer.status_code == expected, answer.text
    return answer.json()


async def test_a_request_passes_its_trace_on(client: httpx.AsyncClient, orders: str) -> None:
    answer = await publish(client, {"value": "v", "partition": 0})
    returned = answer.headers["traceparent"]
    version, trace_id, span_id, flags = returned.split("-")
    assert (version, trace_id, flags) == ("00", TRACE, "01")
    [message] = (await get(client, f"/topics/{orders}/partitions/0/messages"))["messages"]
    assert message["headers"] == [{"name": "traceparent", "value": GIVEN, "encoding": "text"}]
    shown = await get(client, f"/traces/{TRACE.upper()}")
    events = [(span["event"], span.get("consumer")) for span in shown["spans"]]
    assert events[0] == ("publish.received", "http")
    assert events[-1] == ("consume.fetched", "http")
    assert shown["spans"][0]["spanId"] == span_id
    assert shown["spans"][0]["parentId"] == "cd" * 8
    assert (shown["status"], shown["isComplete"]) == ("ok", True)


async def test_a_message_keeps_its_own_header_and_bad_ones_are_ignored(
    client: httpx.AsyncClient, orders: str
) -> None:
    own = GIVEN.replace("ab", "ef")
    body = {"messages": [{"value": "v", "partition": 0, "headers": {"traceparent": own}}]}
    answer = await publish(client, body)
    assert answer.headers["traceparent"].split("-")[1] == "ef" * 16
    answer = await publish(client, {"value": "v", "partition": 0}, "00-nonsense")
    derived = answer.headers["traceparent"].split("-")[1]
    assert derived not in (TRACE, "ef" * 16)
    shown = await get(client, f"/traces/messages/{orders}/0/1")
    assert shown["traceId"] == derived
    delayed = await publish(client, {"value": "v", "delay": 3_600_000})
    shown = await get(client, f"/traces/{delayed.headers['traceparent'].split('-')[1]}")
    assert [span["event"] for span in shown["spans"]] == ["delay.scheduled"]
    assert shown["spans"][0]["delayedId"] == delayed.json()["id"]


async def test_listing_and_searching(client: httpx.AsyncClient, orders: str) -> None:
    for value in range(5):
        await publish(client, {"value": value, "partition": value % 2}, None)
    traces = (await get(client, "/traces"))["traces"]
    assert [each["offset"] for each in traces] == [2, 1, 1, 0, 0]
    limited = await get(client, "/traces", limit=2)
    assert (len(limited["traces"]), limited["isComplete"]) == (2, False)
    for query, count in (
        ({"topic": orders}, 5),
        ({"topic": "other"}, 0),
        ({"topic": orders, "partition": 1}, 2),
        ({"partition": 0, "offset": 2}, 1),
        ({"event": "publish.persisted"}, 5),
        ({"event": "consume.nacked"}, 0),
        ({"status": "failed"}, 0),
        ({"from": traces[-1]["startedUs"] // 1_000}, 5),
        ({"to": traces[-1]["startedUs"] // 1_000}, 0),
        ({"group": "g"}, 0),
    ):
        found = await get(client, "/traces/search", **query)
        assert len(found["traces"]) == count, query
        assert found["isComplete"]


async def test_what_is_not_there_and_what_makes_no_sense(
    client: httpx.AsyncClient, orders: str
) -> None:
    for path in (f"/traces/{TRACE}", f"/traces/messages/{orders}/0/7", "/traces/messages/x/0/0"):
        error = (await get(client, path, 404))["error"]
        assert error["code"] == "unknown_trace"
        assert "tracing.sampling.rate" in error["message"]
    for query in ({"limit": 0}, {"limit": 1_001}, {"event": "x"}, {"offset": -1}, {"no": 1}):
        await get(client, "/traces/search", 400, **query)


async def test_figures(client: httpx.AsyncClient, orders: str) -> None:
    await publish(client, {"value": "v"}, None)
    stats = await get(client, "/traces/stats")
    assert (stats["enabled"], stats["samplingRate"], stats["ringSize"]) == (True, 1.0, 10_000)
    assert stats["recordedSpans"] == stats["ringSpans"] == 4
    assert [each["name"] for each in stats["exporters"]] == ["file"]


class TestWithoutTracing:
    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return {"tracing.enabled": "false"}

    async def test_nothing_is_traced(self, client: httpx.AsyncClient, orders: str) -> None:
        answer = await publish(client, {"value": "v"})
        assert "traceparent" not in answer.headers
        assert (await get(client, "/traces"))["traces"] == []
        stats = await get(client, "/traces/stats")
        assert (stats["enabled"], stats["exporters"]) == (False, [])
