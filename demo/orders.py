"""Made-up orders: with keys, priorities, a few that come later and a few that are broken."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

CUSTOMERS: Final = ("ann", "bob", "cleo", "dan", "eve", "finn", "gia", "hugo")
URGENT: Final = "1"
# One in so many.
_URGENT_EVERY: Final = 10
_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """How many orders of each kind, spread over the minutes before now."""

    orders: int = 2_000
    minutes: int = 6
    delayed: int = 5
    delay_ms: int = 4_000
    poisonous: int = 4


def messages(mix: Mix, now_ms: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    """As `POST /topics/{name}/messages` takes them."""
    for number in range(mix.orders):
        ago_ms = mix.minutes * _MINUTE_MS * (mix.orders - number) // mix.orders
        headers = {"goqueue-priority": URGENT} if number % _URGENT_EVERY == 0 else {}
        yield _order(number, chance) | {"timestamp": now_ms - ago_ms, "headers": headers}
    for number in range(mix.orders, mix.orders + mix.delayed):
        yield _order(number, chance) | {"delay": mix.delay_ms}
    for number in range(mix.poisonous):
        yield {
            "key": chance.choice(CUSTOMERS),
            "value": f"order {number} that no program can read",
            "headers": {"error": "this is not JSON"},
        }


def _order(number: int, chance: random.Random) -> dict[str, Any]:
    customer = chance.choice(CUSTOMERS)
    amount = chance.randint(100, 9_999) / 100
    return {"key": customer, "value": {"id": number, "customer": customer, "amount": amount}}
