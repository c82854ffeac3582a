"""From the name in a client's certificate to that of a principal, by Kafka's rules (KIP-371).

`RULE:pattern/replacement/[LU]` and `DEFAULT`, with commas between: the first whose pattern fits the
whole distinguished name decides; `$1` stands for what was found, L and U for small and capital
letters; DEFAULT takes the name as it is.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from goqueue.model.errors import InvalidConfig

SETTING: Final = "tls.principal.mapping.rules"
# Rules are held against a name one after another.
RULES_MAX: Final = 100

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<letters>[LU]?))"
    r"\s*(?:,|$)"
)
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d)")


class MappingRule(NamedTuple):
    """Without a pattern: DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    letters: str = ""

    def name(self, distinguished_name: str) -> str | None:
        if self.pattern is None:
            return distinguished_name
        found = self.pattern.fullmatch(distinguished_name)
        if found is None:
            return None
        name = _REFERENCE.sub(lambda reference: _filled_in(reference, found), self.replacement)
        if self.letters:
            return name.lower() if self.letters == "L" else name.upper()
        return name


class PrincipalMapping:
    def __init__(self, rules: Sequence[MappingRule]) -> None:
        self._rules = rules

    def name(self, distinguished_name: str) -> str | None:
        """None where no rule fits: such a client is nobody."""
        for rule in self._rules:
            name = rule.name(distinguished_name)
            if name is not None:
                return name or None
        return None


def parse_mapping(text: str) -> PrincipalMapping:
    """`InvalidConfig` names the rule that is none."""
    rules: list[MappingRule] = []
    position = 0
    while position < len(text.rstrip()):
        found = _RULE.match(text, position)
        if found is None:
            raise InvalidConfig(
                f"{SETTING}: {text[position:].strip()!r} does not begin with a rule; one is "
                "RULE:pattern/replacement/ (with L or U behind it for small or capital letters) "
                "or DEFAULT"
            )
        rules.append(_rule(found))
        position = found.end()
    if len(rules) > RULES_MAX:
        raise InvalidConfig(f"{SETTING}: has {len(rules)} rules, more than {RULES_MAX}")
    return PrincipalMapping(rules or (MappingRule(None),))


def _rule(found: re.Match[str]) -> MappingRule:
    if found["default"]:
        return MappingRule(None)
    try:
        pattern = re.compile(found["pattern"])
    except re.error as error:
        raise InvalidConfig(
            f"{SETTING}: {found['pattern']!r} is no regular expression: {error}"
        ) from None
    return MappingRule(pattern, found["replacement"], found["letters"])


def _filled_in(reference: re.Match[str], found: re.Match[str]) -> str:
    """A number beyond the groups stands for itself."""
    if reference[1]:
        return reference[1]
    number = int(reference[2])
    return (found[number] or "") if number <= found.re.groups else reference[0]
