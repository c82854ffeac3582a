"""Verdicts on changed schemas, from tables of Confluent's rules and protobuf's own."""

import json
from pathlib import Path
from typing import Any

import pytest

from goqueue.schema_formats import ResolvedReference, SchemaSource, SchemaType, incompatibilities
from goqueue.schema_formats.protobuf import serialized

CASES = Path(__file__).parent / "cases"
BACKWARD: list[dict[str, Any]] = json.loads((CASES / "backward.json").read_text())
FORWARD: list[dict[str, Any]] = json.loads((CASES / "forward.json").read_text())


def source(case: dict[str, Any], side: str) -> SchemaSource:
    references = tuple(
        ResolvedReference(name, text) for name, text in case.get(f"{side}_references", {}).items()
    )
    return SchemaSource(SchemaType.PROTOBUF, case[side], references)


@pytest.mark.parametrize("case", BACKWARD, ids=lambda case: case["name"])
def test_backward(case: dict[str, Any]) -> None:
    check_verdict(case)


@pytest.mark.parametrize("case", FORWARD, ids=lambda case: case["name"])
def test_forward(case: dict[str, Any]) -> None:
    check_verdict(case)


def check_verdict(case: dict[str, Any]) -> None:
    reader, writer = source(case, "reader"), source(case, "writer")
    found = incompatibilities(reader, writer)
    assert (not found) is case["compatible"], case["reason"]
    assert [[finding.kind, finding.path] for finding in found] == case["findings"], case["reason"]
    assert all(finding.message for finding in found)
    # A descriptor's verdict is the text's.
    assert incompatibilities(reader, writer._replace(text=serialized(writer))) == found
    assert incompatibilities(reader, reader) == []


@pytest.mark.parametrize("cases", [BACKWARD, FORWARD], ids=["backward", "forward"])
def test_the_tables_are_whole(cases: list[dict[str, Any]]) -> None:
    assert len({case["name"] for case in cases}) == len(cases) >= 60
    assert all(case["reason"] for case in cases)
    assert 20 < sum(case["compatible"] for case in cases) < len(cases) - 20


def test_messages_chained_deeper_than_python_recurses() -> None:
    def chain(last: str) -> str:
        links = "".join(f"message M{n} {{ M{n + 1} next = 1; }}\n" for n in range(3000))
        return f'syntax = "proto3"; {links} message M3000 {{ {last} n = 1; }}'

    def using(last: str) -> SchemaSource:
        text = 'syntax = "proto3"; import "chain.proto"; message Top { M0 first = 1; }'
        reference = ResolvedReference("chain.proto", chain(last))
        return SchemaSource(SchemaType.PROTOBUF, text, (reference,))

    found = incompatibilities(using("int32"), using("string"))
    kinds = [finding.kind for finding in found]
    assert kinds.count("FIELD_NAMED_TYPE_CHANGED") == 3001
    assert [f.path for f in found if f.kind == "FIELD_SCALAR_KIND_CHANGED"] == ["#/M3000/1"]
