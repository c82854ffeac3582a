"""Every HTTP route, registry route and SQS action with the real rules: with what it declares it
works, with any one of that taken away it does not, and without rules nobody learns anything.
"""

from typing import Final

import httpx
import pytest

from goqueue.model.rights import Resource
from goqueue.service.needs import Refused
from tests.access import test_web_nobody as web
from tests.access.canaries import (
    CLASSIC_GROUP,
    CONSUMER_GROUP,
    GROUP,
    NAMES,
    QUEUE_GROUP,
    SHARE_GROUP,
    STREAMS_GROUP,
)
from tests.access.exact_rights import NOTHING, AllBut, all_but, needed
from tests.access.stage import Stage, stage

__all__ = ["stage"]


def _call(stage: Stage, given: AllBut, call: web.Call) -> httpx.Response:
    stage.rights.give(*given)
    return stage.run(web.call_at(stage.doors, call, stage.world))


@pytest.mark.parametrize("operation", web.EVERY_OPERATION)
def test_without_rules(stage: Stage, operation: web.Operation) -> None:
    stage.prepare()
    for call in operation.calls:
        before = stage.world.state()
        answer = _call(stage, NOTHING, call)
        web.check_tells_nothing(stage.world, answer)
        assert not stage.world.changes_since(before), answer.text
        if any(need.refused is not Refused.LEFT_OUT for need in operation.needs):
            assert web.is_refusal(answer), (answer.status_code, answer.text)


# Of groups there are many kinds.
_GROUPS: Final = (GROUP, QUEUE_GROUP, CONSUMER_GROUP, CLASSIC_GROUP, SHARE_GROUP, STREAMS_GROUP)


def _is_told(resource: Resource, answer: httpx.Response) -> bool:
    """Whether the answer has names of such things that the request has not."""
    asked = (str(answer.request.url).encode() + answer.request.content).decode()
    named = NAMES.get(resource)
    names = _GROUPS if resource is Resource.GROUP else (named,) if named is not None else ()
    return any(f'"{name}"' in answer.text for name in names if name not in asked)


def _changes_nothing(operation: object) -> bool:
    assert isinstance(operation, web.Operation)
    return {need.verb for need in operation.needs} <= web.LOOKING


# Requests that do without the one need are allowed, and may end what others look at.
LOOKS_FIRST = sorted(
    web.EVERY_OPERATION, key=lambda each: _changes_nothing(each.values[0]), reverse=True
)


@pytest.mark.parametrize("operation", LOOKS_FIRST)
def test_with_all_but_one(stage: Stage, operation: web.Operation) -> None:
    stage.prepare()
    for removed in operation.needs:
        was_asked = False
        for call in operation.calls:
            before = stage.world.state()
            answer = _call(stage, all_but(operation.needs, removed), call)
            if (removed.resource, removed.verb) not in stage.rights.asked:
                continue
            was_asked = True
            if removed.refused is Refused.LEFT_OUT:
                assert not _is_told(removed.resource, answer), (removed, answer.text)
            else:
                assert web.is_refusal(answer), (removed, answer.status_code, answer.text)
                assert not stage.world.changes_since(before), (removed, answer.text)
        assert was_asked, f"{operation.name} never asks for {removed}"


@pytest.mark.parametrize("operation", web.EVERY_OPERATION)
def test_with_exactly_its_needs(stage: Stage, operation: web.Operation) -> None:
    stage.prepare()
    for call in operation.calls:
        answer = _call(stage, AllBut(needed(operation.needs), set()), call)
        # Some things are refused to everybody.
        assert answer.status_code != 403 or "policy_violation" in answer.text, answer.text
        assert "AccessDenied" not in answer.text, answer.text
    stage.used_for(operation.needs)
