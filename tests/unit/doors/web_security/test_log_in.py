"""Who comes in at the HTTP port while security is on, and who does not."""

import base64

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.broker.security import guesses
from goqueue.doors.http.app import ROUTES
from goqueue.doors.registry.routing import ROUTES as REGISTRY_ROUTES
from goqueue.doors.sqs.actions import ACTIONS
from goqueue.model.errors import PartitionOffline
from goqueue.service.broker_service import BrokerService
from tests.unit.doors.web_security.conftest import ADMIN, ALICE, MAKER, failed_log_ins

pytestmark = pytest.mark.anyio

CHALLENGE = 'Basic realm="GoQueue", Bearer'
REGISTRY_JSON = "application/vnd.schemaregistry.v1+json"
OPEN = {("GET", "/healthz"), ("GET", "/readyz")}


async def test_nobody_is_answered_anywhere(nobody: httpx.AsyncClient) -> None:
    """Every operation of HTTP and of the registry; 0 of them answer with data."""
    asked = 0
    for route in ROUTES:
        for path in route.paths:
            for method in map(str, route.http_methods):
                if (method, path) in OPEN or (method, path) == ("POST", "/session"):
                    continue
                shown = path.replace(":str}", "}").replace(":int}", "}")
                answer = await nobody.request(method, shown.replace("{", "").replace("}", ""))
                assert answer.status_code == 401, (method, path, answer.text)
                assert answer.json()["error"]["code"] == "authentication_failed"
                assert answer.headers["www-authenticate"] == CHALLENGE
                asked += 1
    for path, methods in REGISTRY_ROUTES.items():
        for method in methods:
            shown = path.replace("{", "").replace("}", "")
            answer = await nobody.request(method, f"/{shown}", headers={"accept": REGISTRY_JSON})
            assert answer.status_code == 401, (method, path, answer.text)
            assert answer.json()["error_code"] == 40101
            assert answer.headers["www-authenticate"] == CHALLENGE
            asked += 1
    assert asked > 100


async def test_nobody_is_answered_by_sqs_in_either_protocol(nobody: httpx.AsyncClient) -> None:
    for action in ACTIONS:
        headers = {
            "x-amz-target": f"AmazonSQS.{action}",
            "content-type": "application/x-amz-json-1.0",
        }
        answer = await nobody.post("/", headers=headers, content=b"{}")
        assert answer.status_code == 403
        assert answer.json()["__type"].endswith("#MissingAuthenticationTokenException")
        assert answer.headers["x-amzn-query-error"] == "MissingAuthenticationToken;Sender"
        answer = await nobody.post("/", data={"Action": action})
        assert answer.status_code == 403
        assert "<Code>MissingAuthenticationToken</Code>" in answer.text


async def test_probes_are_open_and_tell_nothing(nobody: httpx.AsyncClient) -> None:
    assert (await nobody.get("/healthz")).status_code == 200
    answer = await nobody.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["offlinePartitions"] == []
    # Who shows something wrong is told so even there.
    assert (await nobody.get("/readyz", auth=("a", "b"))).status_code == 401


async def test_what_everyone_may_see_is_not_for_nobody(
    nobody: httpx.AsyncClient, admin: httpx.AsyncClient, broker: Node
) -> None:
    (await admin.post("/topics", json={"name": "orders", "partitions": 1})).raise_for_status()
    rule = {"resource": "topic", "name": "*", "principal": "User:*", "operation": "describe"}
    (await admin.post("/rules", json={"rules": [rule]})).raise_for_status()
    partition = broker.hosted.get("orders", 0)
    assert partition is not None
    partition.go_offline(PartitionOffline("the disk is full"))
    assert (await nobody.get("/readyz")).json()["offlinePartitionCount"] == 0
    assert (await nobody.get("/readyz", auth=ALICE)).json()["offlinePartitionCount"] == 1


async def test_a_password_lets_in(nobody: httpx.AsyncClient) -> None:
    answer = await nobody.get("/whoami", auth=ALICE)
    assert answer.json() == {"principal": "User:alice", "tenant": "", "door": "http"}
    assert (await nobody.get("/topics", auth=ALICE)).json() == {"topics": []}
    refused = await nobody.post("/topics", auth=ALICE, json={"name": "orders"})
    assert refused.status_code == 403
    assert (await nobody.post("/topics", auth=ADMIN, json={"name": "orders"})).status_code == 201
    # Publishing has a way of its own.
    published = "/topics/orders/messages"
    assert (await nobody.post(published, auth=ADMIN, json={"value": "a"})).status_code == 200
    assert (await nobody.post(published, auth=ALICE, json={"value": "a"})).status_code == 403
    assert (await nobody.post(published, json={"value": "a"})).status_code == 401


async def test_wrong_passwords_and_unknown_users_are_answered_alike(
    nobody: httpx.AsyncClient, broker: Node
) -> None:
    wrong = await nobody.get("/topics", auth=("alice", "x"))
    unknown = await nobody.get("/topics", auth=("nobody", "x"))
    assert wrong.status_code == unknown.status_code == 401
    assert wrong.content == unknown.content
    assert failed_log_ins(broker)["http"] == 2


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"Basic",
        b"Basic !!!",
        b"Basic " + base64.b64encode(b"\xff\xfe"),
        b"Basic " + base64.b64encode(b"alice"),
        b"Basic " + b"A" * 20_000,
        b"Bearer",
        b"Bearer gqk_",
        b"Bearer gqk_x",
        b"Bearer gqk_x_y",
        b"Bearer gqk_" + b"\xe9" * 10,
        b"Bearer eyJhbGciOiJub25lIn0.e30.",
        b"Digest a=b",
        b"AWS4-HMAC-SHA256 Credential=a/b/c/sqs/aws4_request",
    ],
)
async def test_whatever_else_is_shown_is_refused(nobody: httpx.AsyncClient, header: bytes) -> None:
    answer = await nobody.get("/topics", headers=[(b"authorization", header)])
    assert answer.status_code == 401, answer.text


async def test_a_body_is_not_read_of_who_is_not_let_in(nobody: httpx.AsyncClient) -> None:
    answer = await nobody.post(
        "/topics/orders/messages",
        content=b"x" * 1_000_000,
        headers={"content-type": "application/json", "expect": "100-continue"},
    )
    assert answer.status_code == 401


async def test_the_registry_lets_in_and_refuses_in_its_form(nobody: httpx.AsyncClient) -> None:
    schema = {"schema": '{"type": "string"}'}
    path = "/subjects/orders-value/versions"
    assert (await nobody.post(path, json=schema, auth=ADMIN)).status_code == 200
    refused = await nobody.post(path, json=schema, auth=ALICE)
    assert (refused.status_code, refused.json()["error_code"]) == (403, 40301)
    wrong = await nobody.post(path, json=schema, auth=("alice", "x"))
    assert (wrong.status_code, wrong.json()["error_code"]) == (401, 40101)


async def test_metrics_need_a_right_and_count_what_failed(
    nobody: httpx.AsyncClient, service: BrokerService
) -> None:
    assert (await nobody.get("/metrics")).status_code == 401
    assert (await nobody.get("/metrics", auth=ALICE)).status_code == 403
    await nobody.get("/topics", auth=("alice", "x"))
    shown = (await nobody.get("/metrics", auth=ADMIN)).text
    # Who showed nothing has not failed.
    assert 'goqueue_authentication_failures_total{door="http"} 1.0' in shown
    assert service.config.security_enabled


async def test_who_is_removed_is_not_let_in(
    nobody: httpx.AsyncClient, service: BrokerService
) -> None:
    assert (await nobody.get("/topics", auth=ALICE)).status_code == 200
    await service.users.set_password(MAKER, "alice", "looking-glass")
    assert (await nobody.get("/topics", auth=ALICE)).status_code == 401
    assert (await nobody.get("/topics", auth=("alice", "looking-glass"))).status_code == 200
    await service.users.delete(MAKER, "alice")
    assert (await nobody.get("/topics", auth=("alice", "looking-glass"))).status_code == 401


async def test_who_guesses_is_told_to_come_later_and_who_is_known_is_not(
    nobody: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guesses, "TURNS_PER_SECOND", 1e-9)
    monkeypatch.setattr(guesses, "PATIENCE_S", 0.01)
    assert (await nobody.get("/whoami", auth=ALICE)).status_code == 200
    for name in ("alice", "nobody"):
        for number in range(guesses.ACCOUNT_BURST):
            answer = await nobody.get("/whoami", auth=(name, f"guess {number}"))
            assert answer.status_code == 401
        for refused in (
            await nobody.get("/whoami", auth=(name, "one more")),
            await nobody.get("/subjects", auth=(name, "one more")),
            await nobody.post("/session", auth=(name, "one more")),
            await nobody.post("/session", json={"name": name, "password": "one more"}),
        ):
            assert refused.status_code == 503
            assert "too many log-ins failed" in refused.text
            assert refused.headers["retry-after"] == "1"
    assert (await nobody.get("/whoami", auth=ALICE)).status_code == 200
    assert (await nobody.get("/whoami", auth=ADMIN)).status_code == 200
