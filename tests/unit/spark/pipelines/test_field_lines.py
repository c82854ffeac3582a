"""Lines of fields in TOML and YAML."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.spark.pipelines.field_lines import FieldLines, FieldPath, field_name
from goqueue.spark.pipelines.toml_lines import toml_lines
from goqueue.spark.pipelines.yaml_lines import RepeatedKey, parse_yaml

TOML = '''# a comment = 1
name = "a # b = c"   # real comment
bootstrap.servers = "x:1"

[[source]]
topic = 'it # is'
list = [
  1,   # ]
  "[", # not the end
]
[source.watermark]
column = "t"
[[source]]
"quoted key" = { a = 1, b = { c = 2 } }
[sql]
query = """
SELECT "x" -- [[source]]
FROM y"""
after = \'\'\'one line\'\'\'
[run.conf]
spark.x.y = 1
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("name",), 2),
        (("bootstrap", "servers"), 3),
        (("source", 0), 5),
        (("source", 0, "list"), 7),
        (("source", 0, "list", 1), 7),
        (("source", 0, "watermark", "column"), 12),
        (("source", 1), 13),
        (("source", 1, "quoted key", "b", "c"), 14),
        (("sql", "query"), 16),
        (("sql", "after"), 19),
        (("run", "conf", "spark", "x", "y"), 21),
        (("nowhere",), 1),
    ],
)
def test_toml(path: FieldPath, line: int) -> None:
    tomllib.loads(TOML)
    assert toml_lines(TOML).line(path) == line
    assert toml_lines(TOML.replace("\n", "\r\n")).line(path) == line


def test_where_texts_begin() -> None:
    lines = toml_lines(TOML)
    assert lines.text_line(("sql", "query")) == 17
    assert lines.text_line(("sql", "after")) == 19
    _, lines = parse_yaml("sql:\n  query: |\n    SELECT\n  other: x\n")
    assert lines.text_line(("sql", "query")) == 3
    assert lines.text_line(("sql", "other")) == 4


def test_yaml() -> None:
    values, lines = parse_yaml(
        "bootstrap.servers: x:1\nsource:\n  - topic: a\n    options: {startingOffsets: latest}\n"
        "  - topic: b\nrun:\n  conf:\n    spark.a.b: 1\n    spark.a.c: true\n"
    )
    assert values == {
        "bootstrap": {"servers": "x:1"},
        "source": [{"topic": "a", "options": {"startingOffsets": "latest"}}, {"topic": "b"}],
        "run": {"conf": {"spark": {"a": {"b": 1, "c": True}}}},
    }
    assert lines.line(("source", 1, "topic")) == 5
    assert lines.line(("run", "conf", "spark", "a", "c")) == 9


@pytest.mark.parametrize("text", ["a: 1\na: 2", "a: 1\na.b: 2", "a.b: 1\na:\n  b: 1"])
def test_yaml_keys_that_stand_twice(text: str) -> None:
    with pytest.raises(RepeatedKey, match="stands twice"):
        parse_yaml(text)


def test_names_count_from_one() -> None:
    assert field_name(("source", 1, "options", "a")) == "source[2].options.a"


keys = st.text(st.sampled_from("abc-_1"), min_size=1, max_size=3)
strings = st.sampled_from(
    ['"a"', '"#\\"]"', "'''x\n[y]\n'''", '"""\n# z = 1\n\\""""', "[1, [2,\n3]]", "{ q = 1 }", "12"]
)


@given(st.lists(st.tuples(keys, strings), max_size=8, unique_by=lambda each: each[0]))
def test_every_key_is_where_it_was_written(fields: list[tuple[str, str]]) -> None:
    text, expected = "", {}
    for number, (key, value) in enumerate(fields):
        text += "\n" * (number % 3) + "# c\n" * (number % 2)
        expected[key] = text.count("\n") + 1
        text += f"{key} = {value}\n"
    tomllib.loads(text)
    lines: FieldLines = toml_lines(text)
    found: dict[str, Any] = {key: lines.line((key,)) for key, _ in fields}
    assert found == expected
