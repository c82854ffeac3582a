"""What is wrong with a definition, found in the file alone."""

import re
from pathlib import Path

import pytest

from goqueue.spark.pipelines.checks import Pipeline, load_pipeline
from goqueue.spark.pipelines.definition_file import NoDefinition
from goqueue.spark.pipelines.kinds import NAMES, find_kind
from goqueue.spark.pipelines.problems import InvalidPipeline

SOUND = """name = "revenue"
kind = "sql"
bootstrap.servers = "127.0.0.1:9092"
[[source]]
name = "orders"
topic = "orders"
format = "json"
schema = "id INT"
[sql]
query = "SELECT 1"
[sink]
topic = "out"
[run]
trigger = "5s"
"""


def load(folder: Path, text: str, name: str = "p.toml") -> Pipeline:
    path = folder / name
    path.write_text(text)
    return load_pipeline(path)


def problems(folder: Path, text: str, name: str = "p.toml") -> list[str]:
    with pytest.raises(InvalidPipeline) as raised:
        load(folder, text, name)
    return [line.removeprefix(f"{folder}/{name}:") for line in str(raised.value).splitlines()]


def test_what_stands_in_it(tmp_path: Path) -> None:
    definition = load(tmp_path, SOUND).definition
    (source,) = definition.sources
    assert (source.name, source.topics, source.is_stream) == ("orders", ("orders",), True)
    assert source.options["startingOffsets"] == "earliest"
    assert source.options["value.format"] == "string"
    assert definition.sink is not None
    assert (definition.sink.topic, definition.sink.mode) == ("out", "append")
    assert definition.run.trigger == "5000 milliseconds"


@pytest.mark.parametrize(
    ("written", "milliseconds"),
    [("250ms", 250), ("1h30m", 5_400_000), ("7d", 604_800_000), ("10 minutes", 600_000)],
)
def test_durations_are_written_as_everywhere(
    tmp_path: Path, written: str, milliseconds: int
) -> None:
    watermark = f'watermark = {{ column = "t", delay = "{written}" }}\n[sql]'
    text = SOUND.replace("[sql]", watermark).replace('"5s"', f'"{written}"')
    definition = load(tmp_path, text).definition
    as_spark_has_it = f"{milliseconds} milliseconds"
    assert definition.run.trigger == as_spark_has_it
    assert definition.sources[0].watermark is not None
    assert definition.sources[0].watermark.delay == as_spark_has_it


@pytest.mark.parametrize(
    ("kind", "field", "expected"),
    [
        ("archive", 'vacuumAfter = "7d"', None),
        ("archive", 'vacuumAfter = "never"', None),
        ("archive", 'vacuumAfter = "6d"', "archive.vacuumAfter: would delete files"),
        ("archive", 'vacuumAfter = "soon"', "archive.vacuumAfter: 'soon' is no duration"),
        ("dead-letters", 'bucket = "15m"', None),
        ("dead-letters", 'bucket = "0s"', "dead-letters.bucket: '0s' is shorter than 1 ms"),
    ],
)
def test_durations_of_the_kinds(
    tmp_path: Path, kind: str, field: str, expected: str | None
) -> None:
    [example] = find_kind(kind).example("p").values()
    name = field.partition(" ")[0]
    text = re.sub(rf"(?m)^(# )?{name} =.*$", field, example)
    if expected is None:
        load(tmp_path, text)
    else:
        [found] = problems(tmp_path, text)
        assert expected in found


def test_yaml_says_the_same(tmp_path: Path) -> None:
    text = """
name: revenue
kind: sql
bootstrap.servers: 127.0.0.1:9092
source:
  name: orders
  topic: orders
  format: json
  schema: id INT
sql: {query: SELECT 1}
sink: {topic: out}
run: {trigger: 5s, conf: {spark.sql.shuffle.partitions: 2}}
"""
    definition = load(tmp_path, text, "p.yaml").definition
    assert definition.sources[0].options == load(tmp_path, SOUND).definition.sources[0].options
    assert definition.run.conf == {"spark.sql.shuffle.partitions": "2"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"revenue"', '"Re venue"', "1: name: 'Re venue': use up to 63 of a to z"),
        ('name = "revenue"\n', "", "1: name: missing; give the pipeline a name"),
        ('kind = "sql"\n', "", "1: kind: missing; write one of sql, python, replay"),
        ('"sql"', '"sqll"', "2: kind: 'sqll' is not one of sql, python, replay, archive"),
        ('"sql"', "7", "2: kind: '7' is not one of"),
        ("127.0.0.1:9092", "nowhere:port", "3: bootstrap.servers: "),
        ('topic = "orders"\n', "", "4: source[1]: name what to read by one of topic"),
        ('topic = "orders"', 'topics = ["a", ""]', "6: source[1].topics: must be a text"),
        ('name = "orders"', 'name = "a b"', "5: source[1].name: 'a b' is no name for a view"),
        ('format = "json"', 'format = "jsn"', "7: source[1].format: 'jsn' is not one of"),
        ('format = "json"', 'format = "avro"', "8: source[1].schema: only values of format"),
        ("schema =", "shema =", "8: source[1].shema: there is no such field; did you mean"),
        (
            "[sql]",
            "options = { startingOffset = 1 }\n[sql]",
            "9: source[1].options: there is no option 'startingOffset'; did you mean",
        ),
        (
            "[sql]",
            'watermark = { column = "t", delay = "soon" }\n[sql]',
            "9: source[1].watermark.delay: 'soon' is no duration",
        ),
        ('query = "SELECT 1"\n', "", "9: sql: give either query"),
        ('query = "SELECT 1"', 'file = "none.sql"', "10: sql.file: "),
        ('topic = "out"', "", '11: sink: give either topic = "…" or table'),
        ('topic = "out"', 'topic = "out"\nmode = "complete"', "13: sink.mode: 'complete' is not"),
        ('topic = "out"', 'topic = "out"\npartitions = 0', "13: sink.partitions: 0 is not between"),
        (
            'topic = "out"',
            'topic = "out"\npartitions = "3"',
            "13: sink.partitions: must be a whole",
        ),
        ('"5s"', '"soon"', "14: run.trigger: 'soon': write available-now"),
        ("[run]", "[run]\nconf = { sql.x = 1 }", "14: run.conf.sql.x: Spark's settings begin"),
        ("[run]", "[replay]\nrate = 1\n[run]", "13: replay: there is no such field; known are"),
        ("[run]", "[run]\nfoo = 1", "14: run.foo: there is no such field"),
        ("[sql]", "[sql", "9: not TOML: "),
    ],
)
def test_what_is_wrong(tmp_path: Path, old: str, new: str, expected: str) -> None:
    found = problems(tmp_path, SOUND.replace(old, new, 1))
    assert any(each.startswith(expected) for each in found), found


def test_all_problems_at_once(tmp_path: Path) -> None:
    text = SOUND.replace('"5s"', '"soon"').replace('"revenue"', '"!"').replace("json", "jsn")
    assert [each.partition(":")[0] for each in problems(tmp_path, text)] == ["1", "7", "14"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1", "1: not YAML: "),
        ("name: a\nname: b", "2: 'name' stands twice"),
        ("- 1", "1: there are no fields"),
        ("", "1: there are no fields"),
    ],
)
def test_what_is_no_yaml(tmp_path: Path, text: str, expected: str) -> None:
    assert problems(tmp_path, text, "p.yml")[0].startswith(expected)


def test_which_file(tmp_path: Path) -> None:
    with pytest.raises(NoDefinition, match="there is no file"):
        load_pipeline(tmp_path / "none.toml")
    with pytest.raises(NoDefinition, match="no definition; `goqueue pipeline init`"):
        load_pipeline(tmp_path)
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(NoDefinition, match=r"ends in \.toml, \.yaml, \.yml"):
        load_pipeline(tmp_path / "x.txt")
    (tmp_path / "a.toml").write_text(SOUND)
    assert load_pipeline(tmp_path).definition.name == "revenue"
    (tmp_path / "b.yaml").write_text("")
    with pytest.raises(NoDefinition, match=r"several definitions \(a.toml, b.yaml\)"):
        load_pipeline(tmp_path)
    (tmp_path / "pipeline.toml").write_text(SOUND)
    assert load_pipeline(tmp_path).definition.file.path.name == "pipeline.toml"
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(NoDefinition, match="is not UTF-8"):
        load_pipeline(tmp_path / "binary.toml")


@pytest.mark.parametrize("kind", NAMES)
def test_examples_are_sound(tmp_path: Path, kind: str) -> None:
    for name, text in find_kind(kind).example("my-pipeline").items():
        (tmp_path / name).write_text(text)
    assert load_pipeline(tmp_path).definition.kind == kind


PYTHON = SOUND.replace('"sql"', '"python"').replace(
    '[sql]\nquery = "SELECT 1"', '[python]\nfunction = "f.py:build"'
)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("f.py:build", "g.py:build", "10: python.function: "),
        ("f.py:build", "f.py:bild", "has no function 'bild'; it has build"),
        ("f.py:build", "build", "10: python.function: 'build': write file.py:function"),
        ("f.py:build", "no.such.module:build", "there is no module 'no.such.module'"),
        ('function = "f.py:build"', "", "9: python.function: missing; write function"),
    ],
)
def test_python_functions(tmp_path: Path, old: str, new: str, expected: str) -> None:
    (tmp_path / "f.py").write_text("def build(spark, context):\n    return None\n")
    assert load(tmp_path, PYTHON).definition.kind == "python"
    assert expected in problems(tmp_path, PYTHON.replace(old, new))[0]


def test_a_file_that_is_not_python(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("x = 1\ndef build(:\n")
    with pytest.raises(InvalidPipeline, match=r"f\.py:2: not Python: "):
        load(tmp_path, PYTHON)


REPLAY = """name = "again"
kind = "replay"
[[source]]
topic = "orders"
[replay]
from = 2026-01-01T00:00:00Z
to = "latest"
rate = 10
[sink]
topic = "out"
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("2026-01-01T00:00:00Z", '"yesterday"', "6: replay.from: 'yesterday' is neither"),
        ("2026-01-01T00:00:00Z", '"latest"', "6: replay.from: latest leaves nothing to send"),
        ('"latest"', '"earliest"', "7: replay.to: earliest leaves nothing to send"),
        ('"latest"', "'{\"orders\": 1}'", "7: replay.to: topic 'orders' needs an object"),
        ("rate = 10", "rate = 0", "8: replay.rate: 0 is not between 1 and"),
        ("[replay]", '[[source]]\ntopic = "b"\n[replay]', "3: source: a replay has one"),
        ('"orders"', '"orders"\nformat = "string"', "5: source[1].format: a replay sends bytes"),
        ('topic = "out"', 'table = "out"', '9: sink: a replay goes to topic = "…"'),
    ],
)
def test_replays(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert load(tmp_path, REPLAY).definition.kind == "replay"
    found = problems(tmp_path, REPLAY.replace(old, new))
    assert any(each.startswith(expected) for each in found), found
