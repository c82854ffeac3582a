"""Names of options: any case, Kafka's prefix or not, and the nearest known one for a typing error.

Spark hands options over as text in a mapping that ignores case.
"""

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from goqueue.model.errors import InvalidRequest
from goqueue.model.units import duration_ms, size_bytes
from goqueue.spark.kafka_options import refusal

_KAFKA_PREFIX: Final = "kafka."


class InvalidOption(InvalidRequest):
    """An option that is unknown, missing, or has a value that makes no sense."""


class GivenOptions:
    """The options of one reader or writer, by their proper names."""

    def __init__(
        self,
        given: Mapping[str, str],
        known: Iterable[str],
        *,
        aliases: Mapping[str, str] | None = None,
        without_effect: Collection[str] = (),
        refused: Mapping[str, str] | None = None,
    ) -> None:
        """Refuse what is not in `known`. `aliases` are further spellings: other name -> name.

        `without_effect` are names that may stand; `refused` has reasons for names that may not.
        """
        proper = {name.lower(): name for name in known}
        also = {other.lower(): name for other, name in (aliases or {}).items()}
        self._values: dict[str, str] = {}
        spelled: dict[str, str] = {}
        for spelling, value in given.items():
            plain = spelling.lower()
            if plain not in proper and plain not in also:
                plain = plain.removeprefix(_KAFKA_PREFIX)
            name = proper.get(plain) or also.get(plain)
            if name is None:
                reason = refusal(plain, refused or {})
                if reason is not None:
                    raise InvalidOption(f"{spelling}: {reason}; leave it out")
                if plain in without_effect:
                    continue
                raise InvalidOption(_unknown(spelling, [*proper.values(), *(aliases or {})]))
            if name in spelled:
                raise InvalidOption(
                    f"options {spelled[name]} and {spelling} mean the same; give one of them"
                )
            spelled[name] = spelling
            self._values[name] = str(value).strip()

    def text(self, name: str, default: str = "") -> str:
        return self._values.get(name, default)

    def given(self, *names: str) -> list[str]:
        """Which of these options were given."""
        return [name for name in names if name in self._values]

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value = self._values.get(name, default).lower()
        if value not in choices:
            raise InvalidOption(f"{name}: {value!r} is not one of {', '.join(choices)}")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        return self.choice(name, ("true", "false"), "true" if default else "false") == "true"

    def number(self, name: str, *, minimum: int, maximum: int) -> int | None:
        """None where the option was not given."""
        return self._read(name, minimum, maximum, lambda _: None, "a whole number")

    def size_bytes(self, name: str, *, minimum: int, maximum: int) -> int | None:
        return self._read(name, minimum, maximum, size_bytes, "a size; write 1048576, 64KB or 1GB")

    def duration_ms(self, name: str, *, minimum: int, maximum: int) -> int | None:
        what = "a duration; write 30000, 30s or 15m"
        return self._read(name, minimum, maximum, duration_ms, what)

    def words(self, name: str) -> list[str]:
        """A list with commas."""
        return [word.strip() for word in self.text(name).split(",") if word.strip()]

    def _read(
        self,
        name: str,
        minimum: int,
        maximum: int,
        with_unit: Callable[[str], int | None],
        what: str,
    ) -> int | None:
        text = self._values.get(name)
        if text is None:
            return None
        value = with_unit(text)
        if value is None:
            try:
                value = int(text)
            except ValueError:
                raise InvalidOption(f"{name}: {text!r} is not {what}") from None
        if not minimum <= value <= maximum:
            raise InvalidOption(f"{name}: {value} is not between {minimum} and {maximum}")
        return value


def _unknown(spelling: str, known: list[str]) -> str:
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(spelling.lower(), by_lower, n=1, cutoff=0.6)
    if near:
        return f"there is no option {spelling!r}; did you mean {by_lower[near[0]]!r}?"
    return f"there is no option {spelling!r}; known are {', '.join(sorted(known))}"
