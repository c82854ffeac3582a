"""The rule tables: backward (reader new, writer old) and forward (reader old, writer new)."""

import json
from pathlib import Path
from typing import Any

import pytest

from goqueue.schema_formats import ResolvedReference, SchemaSource, SchemaType, incompatibilities

CASES = Path(__file__).parent / "cases"
# Fewer leave keywords or drafts out.
LEAST_CASES = 60


def cases(direction: str) -> list[Any]:
    table = json.loads((CASES / f"{direction}.json").read_text())
    return [pytest.param(case, id=case["name"]) for case in table]


def source(case: dict[str, Any], side: str) -> SchemaSource:
    references = tuple(
        ResolvedReference(name, json.dumps(schema))
        for name, schema in case.get(f"{side}_references", {}).items()
    )
    return SchemaSource(SchemaType.JSON, json.dumps(case[side]), references)


def check(case: dict[str, Any]) -> None:
    found = incompatibilities(source(case, "reader"), source(case, "writer"))
    assert [[reason.kind, reason.path] for reason in found] == case["expected"], case["reason"]
    assert case["compatible"] is (not found)
    assert all(reason.message for reason in found)


@pytest.mark.parametrize("case", cases("backward"))
def test_backward(case: dict[str, Any]) -> None:
    check(case)


@pytest.mark.parametrize("case", cases("forward"))
def test_forward(case: dict[str, Any]) -> None:
    check(case)


@pytest.mark.parametrize("direction", ["backward", "forward"])
def test_tables_are_large_and_say_why(direction: str) -> None:
    table = json.loads((CASES / f"{direction}.json").read_text())
    assert len(table) >= LEAST_CASES
    assert len({json.dumps([case["reader"], case["writer"]]) for case in table}) >= LEAST_CASES
    assert all(case["reason"] for case in table)
