"""Runs the conversations in `transcripts/`: commands after `>`, then all that comes of them.

A failing transcript shows as a diff; the files are written to be read. `#` starts a comment.
"""

from pathlib import Path

import pytest

from tests.unit.state.groups.group_script import Script

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


def performed(text: str) -> str:
    """The transcript as the machine would have it."""
    script = Script()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(">"):
            lines.append(line)
            lines += script.run(line.removeprefix(">").strip())
        elif not line.startswith("  "):
            lines.append(line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=[path.stem for path in TRANSCRIPTS])
def test_transcript(path: Path) -> None:
    expected = path.read_text()
    assert performed(expected) == expected


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 10
