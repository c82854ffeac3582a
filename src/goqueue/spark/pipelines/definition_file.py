"""Reads a definition's file, or the one in a folder, and remembers where everything stands."""

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from goqueue.model.errors import InvalidRequest
from goqueue.spark.pipelines.field_lines import FieldLines, FieldPath, field_name
from goqueue.spark.pipelines.problems import InvalidPipeline, Problems
from goqueue.spark.pipelines.toml_lines import toml_lines

SUFFIXES: Final = (".toml", ".yaml", ".yml")
# A definition is a page or two; anything larger is another file by mistake.
MAX_BYTES: Final = 1024 * 1024
_TOML_PLACE: Final = re.compile(r" \(at line (\d+), column \d+\)$")


class NoDefinition(InvalidRequest):
    """There is no file to read."""

    code = "no_definition"


@dataclass(frozen=True, slots=True)
class DefinitionFile:
    path: Path
    values: dict[str, Any]
    lines: FieldLines = field(default_factory=FieldLines)

    def add_problem(self, problems: Problems, path: FieldPath, what: str) -> None:
        problems.add(self.path, self.lines.line(path), field_name(path), what)


def read_definition_file(path: Path) -> DefinitionFile:
    """The file, or the one definition in a folder."""
    found = _find(path)
    try:
        if found.stat().st_size > MAX_BYTES:
            raise NoDefinition(f"{found} is larger than {MAX_BYTES} bytes; is it a definition?")
        text = found.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise NoDefinition(f"{found} is not UTF-8 text: {error}") from None
    except OSError as error:
        raise NoDefinition(f"{found} cannot be read: {error.strerror}") from None
    values, lines = _parse_toml(found, text) if found.suffix == ".toml" else _parse(found, text)
    if not isinstance(values, dict):
        raise _invalid(found, 1, "there are no fields; begin with `goqueue pipeline init`")
    return DefinitionFile(found, values, lines)


def _find(path: Path) -> Path:
    if path.is_dir():
        candidates = sorted(each for each in path.iterdir() if each.suffix in SUFFIXES)
        named = [each for each in candidates if each.stem == "pipeline"]
        chosen = named or candidates
        if len(chosen) != 1:
            names = ", ".join(each.name for each in chosen)
            raise NoDefinition(
                f"{path} has "
                + (f"several definitions ({names}); name one of them" if chosen else "")
                + ("" if chosen else "no definition; `goqueue pipeline init` makes one")
            )
        return chosen[0]
    if not path.exists():
        raise NoDefinition(f"there is no file {path}; `goqueue pipeline init` makes a definition")
    if path.suffix not in SUFFIXES:
        raise NoDefinition(f"{path}: a definition's name ends in {', '.join(SUFFIXES)}")
    return path


def _parse_toml(path: Path, text: str) -> tuple[Any, FieldLines]:
    try:
        return tomllib.loads(text), toml_lines(text)
    except tomllib.TOMLDecodeError as error:
        place = _TOML_PLACE.search(str(error))
        # Without a place it is the end of the file.
        line = int(place[1]) if place else text.count("\n") + 1
        raise _invalid(path, line, f"not TOML: {_TOML_PLACE.sub('', str(error))}") from None


def _parse(path: Path, text: str) -> tuple[Any, FieldLines]:
    import yaml

    from goqueue.spark.pipelines.yaml_lines import RepeatedKey, parse_yaml

    try:
        return parse_yaml(text)
    except RepeatedKey as error:
        raise _invalid(path, error.line, str(error)) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or "it cannot be read"
        raise _invalid(path, mark.line + 1 if mark else 1, f"not YAML: {what}") from None


def _invalid(path: Path, line: int, what: str) -> InvalidPipeline:
    problems = Problems()
    problems.add(path, line, "", what)
    return InvalidPipeline(problems)
