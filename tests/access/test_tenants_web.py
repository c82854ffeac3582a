"""Every HTTP route, registry route and SQS action by users of two tenants that have the same names
everywhere, and by one without a tenant; as `test_tenants_kafka` says.
"""

from typing import Final

import httpx
import pytest

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
    registry_operations,
    sqs_operations,
)

__all__ = ["worlds"]

WEB: Final = sorted(
    (*http_operations(), *registry_operations(), *sqs_operations()),
    key=lambda each: ends_last(each.needs),
)


@pytest.mark.parametrize("operation", [pytest.param(each, id=each.name) for each in WEB])
def test_the_web_stays_within_the_tenant(worlds: Worlds, operation: Operation) -> None:
    async def ask(tenant: str) -> list[httpx.Response]:
        with coming_from(tenant):
            async with httpx.AsyncClient(base_url=worlds.doors.url, timeout=30) as http:
                return [await call(http, worlds.of[tenant]) for call in operation.calls]

    others = Untouched(worlds)
    answers = worlds.run(ask(ACME))
    others.check()
    for got, usual in zip(answers, worlds.run(ask(NOBODYS)), strict=True):
        for tenant, answer in ((ACME, got), (NOBODYS, usual)):
            headers = repr(answer.headers.multi_items()).encode()
            check_stays_within(worlds, tenant, answer.content + headers)
        if is_of_cluster(operation.needs):
            assert got.status_code == 403, got.text
            continue
        assert got.status_code == usual.status_code, (got.text, usual.text)
        assert names_in(got.content) == names_in(usual.content), (got.text, usual.text)
