"""Every HTTP route, registry route and SQS action with the real rules: with what it declares it
works, with any one of that taken away it does not, and without rules nobody learns anything.
"""

import httpx
import pytest

from goqueue.service.needs import Refused
from tests.access import test_web_nobody as web
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
            if removed.refused is not Refused.LEFT_OUT:
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
