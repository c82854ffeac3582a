"""Reading the fields of a table: each of the right type, and none that nobody asked for."""

import datetime
import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from goqueue.model.units import duration_ms
from goqueue.spark.pipelines.definition_file import DefinitionFile
from goqueue.spark.pipelines.field_lines import FieldPath
from goqueue.spark.pipelines.problems import Problems


class Fields:
    """One table of a definition. What is wrong is noted, and read as if it were not given."""

    def __init__(
        self,
        file: DefinitionFile,
        problems: Problems,
        path: FieldPath = (),
        values: Mapping[str, Any] | None = None,
    ) -> None:
        self.file = file
        self.path = path
        self._problems = problems
        self._values: Mapping[str, Any] = file.values if values is None else values
        self._asked: set[str] = set()

    def problem(self, name: str, what: str) -> None:
        """`name` may have dots, or be empty for the table itself."""
        self.file.add_problem(self._problems, self.place(name), what)

    def place(self, name: str) -> FieldPath:
        return (*self.path, *(name.split(".") if name else ()))

    def __contains__(self, name: str) -> bool:
        return self._get(name) is not None

    def text(self, name: str, default: str = "", *, required: str = "") -> str:
        """`required` says what to write if it is missing."""
        value = self._get(name)
        if value is None:
            if required:
                self.problem(name, f"missing; {required}")
            return default
        if isinstance(value, datetime.datetime | datetime.date):
            return value.isoformat()
        if isinstance(value, bool | dict | list):
            self.problem(name, f"must be a text, not {_kind(value)}")
            return default
        text = str(value)
        if not text.strip():
            self.problem(name, "is empty; fill it in, or leave it out")
        return text

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        value = self.text(name, default)
        if value in choices or (name not in self):
            return value
        near = difflib.get_close_matches(value, choices, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        self.problem(name, f"{value!r} is not one of {', '.join(choices)}{hint}")
        return default

    def number(self, name: str, *, minimum: int, maximum: int) -> int | None:
        value = self._get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            self.problem(name, f"must be a whole number, not {value!r}")
            return None
        if not minimum <= value <= maximum:
            self.problem(name, f"{value} is not between {minimum} and {maximum}")
            return None
        return value

    def duration_ms(self, name: str, *, minimum: int = 0, required: str = "") -> int | None:
        """Such as "5s" or "1h30m"; `required` says what to write if it is missing."""
        text = self.text(name, required=required)
        if not text.strip():
            return None
        found_ms = duration_ms(text)
        if found_ms is None:
            self.problem(name, f'{text!r} is no duration; write "30s", "10m" or "7d"')
        elif found_ms < minimum:
            self.problem(name, f"{text!r} is shorter than {minimum} ms")
        return found_ms

    def flag(self, name: str, *, default: bool) -> bool:
        value = self._get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.problem(name, f"must be true or false, not {value!r}")
            return default
        return value

    def texts(self, name: str) -> list[str]:
        """A list of texts; one text is a list of one."""
        value = self._get(name)
        if value is None:
            return []
        items = value if isinstance(value, list) else [value]
        if not items or not all(isinstance(each, str) and each.strip() for each in items):
            self.problem(name, "must be a text, or a list of texts that are not empty")
            return []
        return items

    def table(self, name: str) -> "Fields | None":
        value = self._get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.problem(name, f"must be a table, not {_kind(value)}")
            return None
        return Fields(self.file, self._problems, self.place(name), value)

    def tables(self, name: str) -> "list[Fields]":
        """`[[name]]`; one table is a list of one."""
        value = self._get(name)
        if value is None:
            return []
        if isinstance(value, dict):
            return [Fields(self.file, self._problems, self.place(name), value)]
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            self.problem(name, f"must be a list of tables; write [[{name}]] above each")
            return []
        return [
            Fields(self.file, self._problems, (*self.place(name), number), each)
            for number, each in enumerate(value)
        ]

    def settings(self, name: str) -> dict[str, str]:
        """A table of settings of another program, by their names with dots."""
        table = self.table(name)
        return {} if table is None else dict(_flat(table._values))

    def finish(self) -> None:
        """Note every field that is not known; call it when all others were asked for."""
        for name in _names(self._values, self._asked):
            near = difflib.get_close_matches(name, self._asked, n=1, cutoff=0.6)
            known = ", ".join(sorted(self._asked))
            hint = f"did you mean {near[0]!r}?" if near else f"known are {known}"
            self.problem(name, f"there is no such field; {hint}")

    def _get(self, name: str) -> Any:
        self._asked.add(name)
        value: Any = self._values
        for part in name.split("."):
            if not isinstance(value, Mapping):
                return None
            value = value.get(part)
        return value


def _names(values: Mapping[str, Any], asked: set[str], prefix: str = "") -> list[str]:
    """Names with dots that were not asked for; of a table in between, those within it."""
    found = []
    for key, value in values.items():
        name = prefix + key
        if name in asked:
            continue
        if isinstance(value, Mapping) and any(each.startswith(f"{name}.") for each in asked):
            found += _names(value, asked, f"{name}.")
        else:
            found.append(name)
    return found


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    found = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{prefix}{key}.")
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            found.append((prefix + key, text))
    return found


def spark_duration(milliseconds: int) -> str:
    """A duration as Spark reads it in triggers, watermarks and windows."""
    return f"{milliseconds} milliseconds"


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, dict):
        return "a table"
    return "a list" if isinstance(value, list) else type(value).__name__
