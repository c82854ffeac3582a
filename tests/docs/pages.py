"""The blocks of a page, by what the words behind their three backticks say.

| words | what a reader does with the block |
|---|---|
| `console` | types what follows each `$`, and sees the lines below |
| `sh` | types every line |
| `python` | runs it, after the Python blocks above it |
| any language, `file=NAME` | saves it as NAME |
| any language, `not-run: REASON` | reads it |

Only the first word is shown, as colours.
"""

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
# They are followed in `tests/spark`, where there is a session.
SPARK_PAGES: Final = ("archives.md", "pipelines.md", "spark.md", "spark-writing.md")
RUN_KINDS: Final = ("console", "sh", "python")

_BLOCK: Final = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_NOT_RUN: Final = re.compile(r"\w+ not-run: \S.*")
_PROMPT: Final = "$ "


@dataclass(frozen=True, slots=True)
class Command:
    line: int
    text: str
    # None: the page does not show it.
    output: str | None


@dataclass(frozen=True, slots=True)
class Block:
    page: Path
    line: int
    words: str
    text: str

    @property
    def kind(self) -> str:
        return self.words.partition(" ")[0]

    @property
    def file(self) -> str | None:
        found = re.fullmatch(r"\w+ file=(\S+)", self.words)
        return found[1] if found else None

    @property
    def is_only_read(self) -> bool:
        return _NOT_RUN.fullmatch(self.words) is not None

    @property
    def is_marked(self) -> bool:
        return self.words in RUN_KINDS or self.file is not None or self.is_only_read

    def commands(self) -> Iterator[Command]:
        """Of a `console` or `sh` block."""
        lines = list(enumerate(self.text.splitlines(), self.line + 1))
        while lines:
            number, text = lines.pop(0)
            if self.kind == "console":
                assert text.startswith(_PROMPT), f"{self.page}:{number}: a line before any prompt"
                text = text.removeprefix(_PROMPT)
            while lines and not _is_complete(text):
                text += "\n" + lines.pop(0)[1]
            if self.kind == "sh":
                if text.strip():
                    yield Command(number, text, None)
                continue
            output = []
            while lines and not lines[0][1].startswith(_PROMPT):
                output.append(lines.pop(0)[1])
            yield Command(number, text, "\n".join(output))


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found[2], textwrap.dedent(found[3]))
        for found in _BLOCK.finditer(text)
    ]


def _is_complete(command: str) -> bool:
    if command.endswith("\\"):
        return False
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    here_document = re.search(r"<<'?(\w+)'?", command)
    return here_document is None or command.endswith("\n" + here_document[1])
