"""Several filters over rules at once: a request may have thousands of them."""

from collections.abc import Sequence

from goqueue.model.security.rules import PatternFilter, Rule, RuleFilter


class RuleFilters:
    def __init__(self, filters: Sequence[RuleFilter]) -> None:
        self._filters = filters
        # Places in the list. Most filters name a thing, and only its rules are held against them.
        self._by_name: dict[str, list[int]] = {}
        self._of_any_name: list[int] = []
        for place, each in enumerate(filters):
            if each.name is None or each.pattern is PatternFilter.MATCH:
                self._of_any_name.append(place)
            else:
                self._by_name.setdefault(each.name, []).append(place)

    def take(self, rule: Rule) -> bool:
        """Whether one of them does."""
        filters = self._filters
        return any(filters[place].takes(rule) for place in self._by_name.get(rule.name, ())) or any(
            filters[place].takes(rule) for place in self._of_any_name
        )

    def taking(self, rule: Rule) -> list[int]:
        """Which of them do, by their places in the list."""
        filters = self._filters
        places = [*self._by_name.get(rule.name, ()), *self._of_any_name]
        return [place for place in places if filters[place].takes(rule)]
