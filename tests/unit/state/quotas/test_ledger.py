"""Who is held to what at a broker, and what is remembered of it."""

from goqueue.model.caller import ANONYMOUS, Principal
from goqueue.model.security.quotas import Quota, QuotaKind, QuotaOwner
from goqueue.model.security.tenants import Tenant
from goqueue.state.quotas.ledger import ENTITIES_MAX, Ledger, Windows

ALICE = Principal("User", "alice")
WINDOWS = Windows(1, 11)


def ledger(*quotas: Quota, tenants: tuple[Tenant, ...] = ()) -> Ledger:
    made = Ledger(WINDOWS)
    made.use({str(n): each for n, each in enumerate(quotas)}, {each.name: each for each in tenants})
    return made


def produce_quota(rate: float) -> Quota:
    return Quota(user="alice", values={"producer_byte_rate": rate})


def test_without_quotas_nothing_is_measured() -> None:
    assert not ledger().is_on
    assert ledger().of_client(ANONYMOUS, "app", 0) is None
    assert ledger(produce_quota(5)).of_client(Principal("User", "bob"), "app", 0) is None


def test_all_clients_of_a_user_share_its_quota() -> None:
    held = ledger(produce_quota(1_000))
    one, two = held.of_client(ALICE, "one", 0), held.of_client(ALICE, "two", 0)
    assert one is not None
    assert two is not None
    assert one.charge(QuotaKind.PRODUCED, 1_000, 0) == 0
    assert two.charge(QuotaKind.PRODUCED, 500, 0) == 500
    assert one.wait_ms(QuotaKind.PRODUCED, 100) == 400
    assert one.charge(QuotaKind.FETCHED, 10**9, 0) == 0
    assert held.throttled_ms == {QuotaKind.PRODUCED: 500}


def test_a_new_quota_holds_for_what_was_used_before() -> None:
    held = ledger(produce_quota(1_000))
    before = held.of_client(ALICE, "", 0)
    assert before is not None
    assert before.charge(QuotaKind.PRODUCED, 3_000, 0) == 2_000
    version = held.version
    held.use({"0": produce_quota(4_000)}, {})
    assert held.version != version
    after = held.of_client(ALICE, "", 0)
    assert after is not None
    # The debt is still two seconds long: nobody gets rid of it by a change.
    assert after.wait_ms(QuotaKind.PRODUCED, 0) == 2_000
    held.use({}, {})
    assert held.of_client(ALICE, "", 0) is None


def test_a_client_is_held_to_its_own_quota_and_to_that_of_its_tenant() -> None:
    tenant = Tenant(name="acme", limits={"producer_byte_rate": 1_500.0, "topics": 3})
    held = ledger(produce_quota(1_000), tenants=(tenant,))
    alice = held.of_client(Principal("User", "alice", "acme"), "", 0)
    bob = held.of_client(Principal("User", "bob", "acme"), "", 0)
    assert alice is not None
    assert bob is not None
    assert alice.charge(QuotaKind.PRODUCED, 1_200, 0) == 200
    # 1,500 of all, of which alice used 1,200.
    assert bob.charge(QuotaKind.PRODUCED, 600, 0) == 200
    assert held.of_client(Principal("User", "carol", "other"), "", 0) is None


def test_what_is_idle_is_forgotten() -> None:
    held = ledger(Quota(client_id="", values={"producer_byte_rate": 1_000.0}))
    for number in range(5_000):
        client = held.of_client(ANONYMOUS, f"client-{number}", number * 10)
        assert client is not None
        client.charge(QuotaKind.PRODUCED, 500, number * 10)
    # Each is full again after half a second, in which fifty others come.
    assert len(held) <= 2_100


def test_who_is_in_debt_is_not_forgotten() -> None:
    held = ledger(Quota(client_id="", values={"producer_byte_rate": 1_000.0}))
    debtor = held.of_client(ANONYMOUS, "debtor", 0)
    assert debtor is not None
    debtor.charge(QuotaKind.PRODUCED, 50_000, 0)
    for number in range(3_000):
        held.of_client(ANONYMOUS, f"client-{number}", 10_000)
    again = held.of_client(ANONYMOUS, "debtor", 10_000)
    assert again is not None
    assert again.wait_ms(QuotaKind.PRODUCED, 10_000) == 39_000


def test_those_beyond_the_bound_share_one() -> None:
    held = ledger(Quota(client_id="", values={"producer_byte_rate": 1_000.0}))
    for number in range(ENTITIES_MAX + 10):
        client = held.of_client(ANONYMOUS, f"client-{number}", 0)
        assert client is not None
        client.charge(QuotaKind.PRODUCED, 100, 0)
    assert len(held) == ENTITIES_MAX + 1
    late = held.of_client(ANONYMOUS, "late", 0)
    later = held.of_client(ANONYMOUS, "later", 0)
    assert late is not None
    assert later is not None
    assert late.charge(QuotaKind.PRODUCED, 1_000, 0) > 0
    assert later.wait_ms(QuotaKind.PRODUCED, 0) > 0


def test_connections_of_an_address_and_of_all() -> None:
    held = ledger(Quota(ip="10.0.0.1", values={"connection_creation_rate": 2.0}))
    assert [held.connected("10.0.0.1", 0) for _ in range(4)] == [0, 0, 500, 1_000]
    assert held.connected("10.0.0.2", 0) == 0
    held.limit_connections(1)
    assert held.connected("10.0.0.2", 0) == 0
    assert held.connected("10.0.0.3", 0) == 1_000
    held.limit_connections(None)
    assert held.connected("10.0.0.3", 0) == 0


def test_usage_names_those_who_use_most() -> None:
    held = ledger(Quota(user="", values={"producer_byte_rate": 1_000.0}))
    for name, amount in (("a", 100), ("b", 900), ("c", 1_500)):
        client = held.of_client(Principal("User", name), "", 0)
        assert client is not None
        client.charge(QuotaKind.PRODUCED, amount, 0)
    first, second = held.usage(0, 2)
    assert first.owner == QuotaOwner("c")
    assert (first.quota, first.used, first.ratio, first.wait_ms) == (1_000, 1_500, 1.5, 500)
    assert second.owner == QuotaOwner("b")
    assert held.usage(60_000, 10) == []
