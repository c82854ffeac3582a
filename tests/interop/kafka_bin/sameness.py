"""What two brokers' answers have in common: everything but ids, addresses, times and wording.

Kafka's tools print what the broker said of a refusal. The kind of refusal must be the same; the
words are each broker's own.
"""

import re
from typing import Final

_REPLACED: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # A refusal: its class stays, its words go.
        (r"(\w+(?:Exception|Error))\b: .*", r"\1"),
        (r"(?i)^(error[^:]*|.* failed|.*could not be [^:]*) ?:(?!.*Exception).*", r"\1"),
        (r"^\[\d{4}-\d\d-\d\d [\d:,]+\] ", ""),
        (r"\b127\.0\.0\.1:\d+", "ADDRESS"),
        (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "ID"),
        (r"\b[0-9a-f]{32}\b", "ID"),
        (r"(?<![\w.-])[\w-]{22}(?![\w-])", "ID"),
        (r"\b\d{13}\b", "TIME"),
        (r"\b(console-(?:share-)?consumer)-\d+", r"\1-ID"),
        (r" +", " "),
    )
)
_STACK: Final = re.compile(r"^\s*(?:at |\.\.\. \d+ more|Caused by: )")


def comparable(output: str) -> list[str]:
    """In order of the alphabet: partitions come as they come."""
    lines = []
    for line in output.splitlines():
        if not line.strip() or _STACK.match(line):
            continue
        plain = line.replace("\t", " ").strip()
        for pattern, replacement in _REPLACED:
            plain = pattern.sub(replacement, plain)
        lines.append(plain.strip())
    return sorted(lines)
