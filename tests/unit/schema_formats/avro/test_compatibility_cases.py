"""Verdicts of schema resolution, from tables that Java's Avro 1.12.1 was asked about as well."""

import json
from pathlib import Path
from typing import Any

import pytest

from goqueue.schema_formats import ResolvedReference, SchemaSource, SchemaType, incompatibilities

CASES = Path(__file__).parent / "cases"
BACKWARD: list[dict[str, Any]] = json.loads((CASES / "backward.json").read_text())
FORWARD: list[dict[str, Any]] = json.loads((CASES / "forward.json").read_text())


def source(case: dict[str, Any], side: str) -> SchemaSource:
    references = tuple(
        ResolvedReference(f"{side}-{index}", json.dumps(referenced))
        for index, referenced in enumerate(case.get(f"{side}_references", []))
    )
    return SchemaSource(SchemaType.AVRO, json.dumps(case[side]), references)


@pytest.mark.parametrize("case", BACKWARD, ids=lambda case: case["name"])
def test_backward(case: dict[str, Any]) -> None:
    check_verdict(case)


@pytest.mark.parametrize("case", FORWARD, ids=lambda case: case["name"])
def test_forward(case: dict[str, Any]) -> None:
    check_verdict(case)


def check_verdict(case: dict[str, Any]) -> None:
    found = incompatibilities(source(case, "reader"), source(case, "writer"))
    assert (not found) is case["compatible"], case["reason"]
    assert [[finding.kind, finding.path] for finding in found] == case["findings"], case["reason"]
    assert all(finding.message for finding in found)


@pytest.mark.parametrize("cases", [BACKWARD, FORWARD], ids=["backward", "forward"])
def test_the_tables_are_whole(cases: list[dict[str, Any]]) -> None:
    assert len({case["name"] for case in cases}) == len(cases) >= 60
    assert all(case["reason"] for case in cases)
    assert 20 < sum(case["compatible"] for case in cases) < len(cases) - 20
