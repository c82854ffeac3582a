"""Which of the eight forms of a quota holds for a client, and who is counted together."""

from itertools import combinations

import pytest

from goqueue.model.security.quotas import Quota, QuotaKind, QuotaOwner
from goqueue.state.quotas.precedence import QuotaTable

# As Kafka looks for them: the first counts.
FORMS = (
    {"user": "alice", "client_id": "app"},
    {"user": "alice", "client_id": ""},
    {"user": "alice"},
    {"user": "", "client_id": "app"},
    {"user": "", "client_id": ""},
    {"user": ""},
    {"client_id": "app"},
    {"client_id": ""},
)
BOTH, USER, CLIENT = QuotaOwner("alice", "app"), QuotaOwner("alice"), QuotaOwner(client_id="app")
OWNERS = (BOTH, BOTH, USER, BOTH, BOTH, USER, CLIENT, CLIENT)


def table(*positions: int) -> QuotaTable:
    return QuotaTable(
        Quota(**FORMS[each], values={"producer_byte_rate": 100.0 + each}) for each in positions
    )


@pytest.mark.parametrize(("first", "second"), list(combinations(range(len(FORMS)), 2)))
def test_the_first_form_that_has_a_value_counts(first: int, second: int) -> None:
    held = table(second, first).of_client(QuotaKind.PRODUCED, "alice", "app")
    assert held is not None
    assert (held.owner, held.rate) == (OWNERS[first], 100.0 + first)


def test_each_kind_is_looked_for_by_itself() -> None:
    quotas = QuotaTable(
        [
            Quota(user="alice", values={"consumer_byte_rate": 5.0}),
            Quota(client_id="app", values={"producer_byte_rate": 7.0}),
        ]
    )
    produced = quotas.of_client(QuotaKind.PRODUCED, "alice", "app")
    fetched = quotas.of_client(QuotaKind.FETCHED, "alice", "app")
    assert produced is not None
    assert fetched is not None
    assert (produced.owner, produced.rate) == (CLIENT, 7.0)
    assert (fetched.owner, fetched.rate) == (USER, 5.0)
    assert quotas.of_client(QuotaKind.REQUESTS, "alice", "app") is None


def test_quotas_of_others_do_not_count() -> None:
    quotas = QuotaTable([Quota(user="bob", values={"producer_byte_rate": 5.0})])
    assert quotas.of_client(QuotaKind.PRODUCED, "alice", "app") is None


def test_addresses_have_their_own_or_the_default() -> None:
    quotas = QuotaTable(
        [
            Quota(ip="", values={"connection_creation_rate": 5.0}),
            Quota(ip="10.0.0.1", values={"connection_creation_rate": 50.0}),
        ]
    )
    own, other = quotas.of_address("10.0.0.1"), quotas.of_address("10.0.0.2")
    assert own is not None
    assert other is not None
    assert (own.rate, other.rate, other.owner) == (50.0, 5.0, QuotaOwner(ip="10.0.0.2"))


def test_a_value_of_a_later_release_is_passed_over() -> None:
    assert not QuotaTable([Quota(user="alice", values={"heat_rate": 1.0})])
