"""Every HTTP route, registry route and SQS action, called by someone who may do nothing, or all but
one thing: refusals or empty lists come back, nothing of what is stored, and nothing is changed.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from goqueue.doors.http.app import ROUTES
from goqueue.doors.registry.routing import ROUTES as REGISTRY_ROUTES
from goqueue.doors.sqs.actions import ACTIONS
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need, Refused
from tests.access.canaries import TOPIC, Doors, World, sqs
from tests.access.conftest import Scene
from tests.access.rule_sets import alternatives
from tests.access.web_requests import HTTP, REGISTRY, SQS, Fields, WebRequest

Call = Callable[[httpx.AsyncClient, World], Awaitable[httpx.Response]]
REGISTRY_JSON = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    needs: tuple[Need, ...]
    calls: tuple[Call, ...]


def _request(method: str, make: Callable[[World], WebRequest], accept: str) -> Call:
    async def call(http: httpx.AsyncClient, world: World) -> httpx.Response:
        asked = make(world)
        return await http.request(method, asked.path, json=asked.body, headers={"accept": accept})

    return call


def _json_action(action: str, fields: Fields) -> Call:
    return lambda http, world: sqs(http, action, **fields(world))


def query_action(action: str, fields: Fields) -> Call:
    async def call(http: httpx.AsyncClient, world: World) -> httpx.Response:
        return await http.post("/", data={"Action": action, **_form(action, fields(world))})

    return call


# How forms number the members of lists, where that is not the field's name without its s.
_LIST_NAMES = {"Actions": "ActionName"}
_MAP_KEYS = {"Attributes": "Name", "Tags": "Key"}


def _form(action: str, fields: Mapping[str, Any]) -> dict[str, str]:
    form: dict[str, str] = {}
    for name, value in fields.items():
        if name == "Entries":
            for number, entry in enumerate(value, 1):
                prefix = f"{action}RequestEntry.{number}."
                form.update({prefix + key: str(inner) for key, inner in entry.items()})
        elif isinstance(value, list):
            prefix = _LIST_NAMES.get(name, name.removesuffix("s"))
            form.update({f"{prefix}.{number}": str(v) for number, v in enumerate(value, 1)})
        elif isinstance(value, dict):
            for number, (key, inner) in enumerate(value.items(), 1):
                prefix = f"{name.removesuffix('s')}.{number}."
                form.update({prefix + _MAP_KEYS[name]: key, f"{prefix}Value": inner})
        else:
            form[name] = str(value)
    return form


def http_operations() -> Iterator[Operation]:
    for route in ROUTES:
        for path in route.paths:
            for method in route.http_methods:
                makes = HTTP[str(method), path]
                calls = tuple(_request(str(method), make, "*/*") for make in makes)
                yield Operation(f"{method} {path}", route.opt["needs"], calls)


def registry_operations() -> Iterator[Operation]:
    for path, methods in REGISTRY_ROUTES.items():
        for method, route in methods.items():
            makes = REGISTRY[method, path]
            calls = tuple(_request(method, make, REGISTRY_JSON) for make in makes)
            yield Operation(f"{method} registry/{path}", route.needs, calls)


def sqs_operations() -> Iterator[Operation]:
    for name, action in ACTIONS.items():
        calls = tuple(_json_action(name, fields) for fields in SQS[name])
        yield Operation(f"sqs {name}", action.needs, calls)


EVERY_OPERATION = [
    pytest.param(each, id=each.name)
    for each in (*http_operations(), *registry_operations(), *sqs_operations())
]


def test_every_route_and_action_is_tried() -> None:
    served = {(str(m), p) for route in ROUTES for p in route.paths for m in route.http_methods}
    assert served == set(HTTP)
    assert {(m, p) for p, ms in REGISTRY_ROUTES.items() for m in ms} == set(REGISTRY)
    assert set(ACTIONS) == set(SQS)


async def call_at(doors: Doors, call: Call, world: World) -> httpx.Response:
    async with httpx.AsyncClient(base_url=doors.url, timeout=30, verify=False) as http:
        return await call(http, world)


def check_tells_nothing(world: World, answer: httpx.Response) -> None:
    told = answer.content + repr(answer.headers.multi_items()).encode()
    for secret in world.secrets:
        assert secret not in told, answer.text
    asked = str(answer.request.url).encode() + answer.request.content
    # The handle of a move task names its queue, in base 64.
    names_queue = b"TaskHandle" in asked
    if b"canary" not in asked and not names_queue:
        assert b"canary" not in told, answer.text


def is_refusal(answer: httpx.Response) -> bool:
    if answer.status_code == 403:
        # Some things are refused to everybody.
        return "policy_violation" not in answer.text
    # Batches of SQS answer for each entry.
    if answer.status_code == 200 and "Failed" in answer.text:
        body = answer.json()
        return not body["Successful"] and all("AccessDenied" in f["Code"] for f in body["Failed"])
    return False


@pytest.mark.parametrize("operation", EVERY_OPERATION)
def test_nobody_learns_or_changes_anything(scene: Scene, operation: Operation) -> None:
    declared = {(need.resource, need.verb) for need in operation.needs}
    declared |= {each for need in operation.needs for each in alternatives(need)}
    for call in operation.calls:
        scene.nobody.asked.clear()
        before = scene.world.state()
        answer = scene.run(call_at(scene.closed, call, scene.world))
        check_tells_nothing(scene.world, answer)
        assert not scene.world.changes_since(before), answer.text
        assert scene.nobody.asked <= declared, answer.text
        if any(need.refused is not Refused.LEFT_OUT for need in operation.needs):
            assert is_refusal(answer), (answer.status_code, answer.text)
        else:
            assert answer.status_code != 500, answer.text


@pytest.mark.parametrize("operation", EVERY_OPERATION)
def test_each_need_is_asked_for_and_refused(scene: Scene, operation: Operation) -> None:
    for need in operation.needs:
        was_asked = False
        for call in operation.calls:
            scene.but_one.deny(need)
            before = scene.world.state()
            answer = scene.run(call_at(scene.nearly_open, call, scene.world))
            if (need.resource, need.verb) not in scene.but_one.asked:
                continue
            was_asked = True
            if need.refused is not Refused.LEFT_OUT:
                assert is_refusal(answer), (need, answer.status_code, answer.text)
                assert not scene.world.changes_since(before), (need, answer.text)
        assert was_asked, f"{operation.name} never asks for {need}"


@pytest.mark.parametrize("action", ACTIONS)
def test_the_query_protocol_refuses_the_same(scene: Scene, action: str) -> None:
    needs = ACTIONS[action].needs
    if any(need.refused is not Refused.LEFT_OUT for need in needs):
        for fields in SQS[action]:
            answer = scene.run(call_at(scene.closed, query_action(action, fields), scene.world))
            check_tells_nothing(scene.world, answer)
            assert "AccessDenied" in answer.text, answer.text


LOOKING = {Verb.DESCRIBE, Verb.DESCRIBE_CONFIGS}
# Others would have their effects, as nothing but topics is refused here; and whoever may look at
# the whole cluster sees its topics.
EVERY_LOOK = [
    pytest.param(each, id=each.name)
    for each in (*http_operations(), *registry_operations(), *sqs_operations())
    if {need.verb for need in each.needs} <= LOOKING
    and Resource.CLUSTER not in {need.resource for need in each.needs}
]


@pytest.mark.parametrize("operation", EVERY_LOOK)
def test_whoever_may_see_no_topic_is_told_of_none(scene: Scene, operation: Operation) -> None:
    """Whatever an operation declares: what it tells of groups and transactions may name topics."""
    for call in operation.calls:
        scene.but_one.denied = {(Resource.TOPIC, verb) for verb in Verb}
        answer = scene.run(call_at(scene.nearly_open, call, scene.world))
        asked = str(answer.request.url).encode() + answer.request.content
        assert TOPIC.encode() in asked or TOPIC not in answer.text, answer.text
