"""README and docs, followed as a reader would: each command in order, each page on its broker."""

import re
from pathlib import Path
from typing import Any, Final

import pytest
from typer.main import get_command

from goqueue.cli.main import app
from tests.docs.pages import PAGES, SPARK_PAGES, blocks, name_of
from tests.docs.reader import Reader

_INLINE: Final = re.compile(r"`(goqueue [a-z][^`]*)`")


def has_something_to_do(page: Path) -> bool:
    return any(not block.is_only_read for block in blocks(page))


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name not in SPARK_PAGES and has_something_to_do(page)],
    ids=name_of,
)
def test_a_reader_can_follow(page: Path, tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        differences = [found for block in blocks(page) for found in reader.follow(block)]
    assert not differences, "\n\n".join(differences)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_says_what_a_reader_does_with_it(page: Path) -> None:
    assert not [f"{name_of(page)}:{each.line}" for each in blocks(page) if not each.is_marked]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_within_sentences_exist(page: Path) -> None:
    text = page.read_text()
    wrong = [command for command in _INLINE.findall(text) if not _exists(command.split()[1:])]
    assert not wrong


def _exists(words: list[str]) -> bool:
    """Whether there is the command, and its options. What stands for something is not looked at."""
    command: Any = get_command(app)
    for word in words:
        if hasattr(command, "commands"):
            if word not in command.commands:
                return False
            command = command.commands[word]
        elif word.startswith("-") and word != "-":
            options = {option for each in command.params for option in each.opts}
            if word.partition("=")[0] not in options | {"--help", "-h"}:
                return False
    return True
