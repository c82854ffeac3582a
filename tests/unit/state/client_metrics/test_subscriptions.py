"""What a client is to push, of all subscriptions that choose it."""

from uuid import UUID

import pytest

from goqueue.model.client_metrics.messages import ClientSoftware, TelemetryClient
from goqueue.model.errors import InvalidConfig, InvalidRequest
from goqueue.state.client_metrics.subscriptions import Subscription, subscribed

CLIENT = TelemetryClient(
    instance_id=UUID(int=7),
    client_id="billing-1",
    software=ClientSoftware("librdkafka", "2.16.0"),
    address="10.0.0.7",
    port=4711,
)


def wanted(*subscriptions: dict[str, str]) -> tuple[tuple[str, ...], int]:
    found = subscribed([Subscription(texts) for texts in subscriptions], CLIENT)
    return found.metrics, found.interval_ms


def test_subscriptions_add_up() -> None:
    assert wanted() == ((), 300_000)
    assert wanted({"metrics": "b,a"}) == (("a", "b"), 300_000)
    assert wanted({"metrics": "a,b", "interval.ms": "900"}, {"metrics": "b,c"}) == (
        ("a", "b", "c"),
        900,
    )
    assert wanted({"metrics": "a"}, {"metrics": "*,b", "interval.ms": "100"}) == (("*",), 100)


@pytest.mark.parametrize(
    ("match", "chooses"),
    [
        ("client_id=billing-.*", True),
        ("client_id=billing", False),
        ("client_software_name=librdkafka,client_software_version=2\\..*", True),
        ("client_software_name=librdkafka,client_software_version=3\\..*", False),
        ("client_source_address = 10\\.0\\.0\\.[0-9]+", True),
        ("client_source_port=4711", True),
        ("client_instance_id=AAAAAAAAAAAAAAAAAAAABw", True),
    ],
)
def test_all_patterns_must_match_the_whole(match: str, chooses: bool) -> None:
    assert wanted({"metrics": "a", "match": match})[0] == (("a",) if chooses else ())


def test_the_id_tells_wishes_apart_and_fits_the_wire() -> None:
    def of(client: TelemetryClient, **texts: str) -> int:
        own = {name.replace("_", "."): text for name, text in texts.items()}
        return subscribed([Subscription(own)], client).subscription_id

    first = of(CLIENT, metrics="a")
    assert first == of(CLIENT, metrics="a")
    others = {
        of(CLIENT, metrics="b"),
        of(CLIENT, metrics="a", interval_ms="100"),
        of(CLIENT._replace(instance_id=UUID(int=8)), metrics="a"),
    }
    assert first not in others
    ids = [of(CLIENT._replace(instance_id=UUID(int=n)), metrics="a") for n in range(200)]
    assert all(-(2**31) <= each < 2**31 for each in ids)
    assert min(ids) < 0 < max(ids)


@pytest.mark.parametrize(
    ("texts", "error", "said"),
    [
        ({"interval": "100"}, InvalidRequest, "interval: no such setting of client metrics"),
        ({"interval.ms": "99"}, InvalidRequest, "interval.ms: 99 is outside 100 to 3600000"),
        ({"interval.ms": "3600001"}, InvalidRequest, "outside"),
        ({"interval.ms": "soon"}, InvalidConfig, "interval.ms: 'soon' is not"),
        ({"match": "client_id"}, InvalidConfig, "match: 'client_id' is not name=pattern"),
        ({"match": "colour=red"}, InvalidConfig, "match: 'colour=red'"),
        ({"match": "client_id="}, InvalidConfig, "match"),
        ({"match": "client_id=a,client_id=b"}, InvalidConfig, "twice"),
        ({"match": "client_id=["}, InvalidConfig, "match: "),
        ({"match": "client_id=" + "a" * 1_001}, InvalidConfig, "match: "),
        ({"metrics": ",".join(f"m{n}" for n in range(201))}, InvalidConfig, "metrics: at most"),
        ({"metrics": "m" * 201}, InvalidConfig, "metrics: at most"),
    ],
)
def test_what_cannot_be_a_subscription(
    texts: dict[str, str], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said) as refused:
        Subscription(texts)
    assert type(refused.value) is error
