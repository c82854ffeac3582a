"""Every HTTP route, registry route and SQS action by users of two tenants that have the same names
everywhere, and by one without a tenant; as `test_tenants_kafka` says.
"""

from typing import Final

import httpx
import pytest

from goqueue.doors.sqs.actions import ACTIONS
from goqueue.model.rights import Resource
from tests.access.tenant_scene import (
    Untouched,
    Worlds,
    check_stays_within,
    ends_last,
    is_of_cluster,
    names_in,
    worlds,
)
from tests.access.tenant_worlds import ACME, NOBODYS, coming_from
from tests.access.test_web_nobody import (
    Operation,
    http_operations,
    query_action,
    registry_operations,
    sqs_operations,
)
from tests.access.web_requests import SQS

__all__ = ["worlds"]

WEB: Final = sorted(
    (*http_operations(), *registry_operations(), *sqs_operations()),
    key=lambda each: ends_last(each.needs),
)


# Tenants have users, keys and rules of their own, and none in this test.
ACCOUNTS: Final = ("/users", "/keys", "/rules", "/session", "/whoami")
# Settings of the registry for all of it: for a tenant, that is its own default context.
OF_THE_TENANT: Final = {
    f"{method} registry/{path}"
    for method in ("GET", "PUT", "DELETE")
    for path in ("config", "mode")
}


@pytest.mark.parametrize("operation", [pytest.param(each, id=each.name) for each in WEB])
def test_the_web_stays_within_the_tenant(worlds: Worlds, operation: Operation) -> None:
    async def ask(tenant: str) -> list[httpx.Response]:
        with coming_from(tenant):
            async with httpx.AsyncClient(
                base_url=worlds.doors.url, timeout=30, verify=False
            ) as http:
                return [await call(http, worlds.of[tenant]) for call in operation.calls]

    others = Untouched(worlds)
    answers = worlds.run(ask(ACME))
    others.check()
    usual_answers = worlds.run(ask(NOBODYS))
    for got, usual in zip(answers, usual_answers, strict=True):
        check_stays_within(worlds, ACME, _told(got))
        if is_of_cluster(operation.needs) and operation.name not in OF_THE_TENANT:
            # Whoever has no tenant may see, and run, the cluster for all of them.
            is_refused = all(need.resource is Resource.CLUSTER for need in operation.needs)
            if is_refused and not operation.name.split()[1].startswith(ACCOUNTS):
                assert got.status_code == 403, got.text
            continue
        check_stays_within(worlds, NOBODYS, _told(usual))
        assert got.status_code == usual.status_code, (got.text, usual.text)
        assert names_in(got.content) == names_in(usual.content), (got.text, usual.text)


def _told(answer: httpx.Response) -> bytes:
    return answer.content + repr(answer.headers.multi_items()).encode()


@pytest.mark.parametrize("action", ACTIONS)
def test_the_query_protocol_stays_within_the_tenant(worlds: Worlds, action: str) -> None:
    """Whatever of the queues the other tests left."""

    async def ask() -> list[httpx.Response]:
        with coming_from(ACME):
            async with httpx.AsyncClient(
                base_url=worlds.doors.url, timeout=30, verify=False
            ) as http:
                world = worlds.of[ACME]
                return [await query_action(action, each)(http, world) for each in SQS[action]]

    others = Untouched(worlds)
    for answer in worlds.run(ask()):
        check_stays_within(worlds, ACME, _told(answer))
        assert answer.status_code < 500, answer.text
    others.check()
