"""Who counts as one."""

import pytest

from goqueue.model.caller import ANONYMOUS, Principal
from goqueue.model.fairness.parties import party_of
from goqueue.model.security.users import BROKERS


@pytest.mark.parametrize(
    ("principal", "party"),
    [
        (Principal("User", "alice"), "alice"),
        (Principal("User", "alice", "acme"), "acme@"),
        (Principal("User", "bob", "acme"), "acme@"),
        (ANONYMOUS, ""),
    ],
)
def test_a_tenant_is_one_and_so_is_a_user_without(principal: Principal, party: str) -> None:
    assert party_of(principal) == party


def test_brokers_are_nobody_else() -> None:
    assert party_of(BROKERS) != party_of(Principal("User", BROKERS.name))
