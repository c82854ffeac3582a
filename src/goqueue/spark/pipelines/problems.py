"""What is wrong with a pipeline: every finding with its place, all of them at once."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from goqueue.model.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Problem:
    """Shown as `file:line: field: what is wrong and what to do`."""

    file: Path
    line: int
    field: str
    what: str

    def __str__(self) -> str:
        field = f"{self.field}: " if self.field else ""
        return f"{self.file}:{self.line}: {field}{self.what}"


class InvalidPipeline(InvalidRequest):
    """A pipeline that cannot run as it is written."""

    code = "invalid_pipeline"
    # Whether it may run as it is when the broker answers.
    is_broker_away = False

    def __init__(self, problems: "Problems") -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = list(problems)


class Problems:
    """Collects findings, in the order of the lines."""

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def add(self, file: Path, line: int, field: str, what: str) -> None:
        problem = Problem(file, line, field, what)
        if problem not in self._found:
            self._found.append(problem)

    def __iter__(self) -> Iterator[Problem]:
        return iter(sorted(self._found, key=lambda each: (str(each.file), each.line)))

    def __len__(self) -> int:
        return len(self._found)

    def raise_any(self) -> None:
        if self._found:
            raise InvalidPipeline(self)
