"""Clients that ask and push: how often they may, what is kept of them, and for how long."""

from collections.abc import Iterable
from itertools import count
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from goqueue.model.client_metrics.messages import (
    ClientSoftware,
    MetricKind,
    Point,
    Push,
    SeriesName,
    TelemetryClient,
    TelemetryError,
)
from goqueue.state.client_metrics import instances
from goqueue.state.client_metrics.instances import ClientInstances, Unpacked
from goqueue.state.client_metrics.subscriptions import Subscription

INTERVAL_MS = 1_000
MAX_BYTES = 100
OK, THROTTLED = TelemetryError.NONE, TelemetryError.THROTTLED


def client(number: int = 1) -> TelemetryClient:
    software = ClientSoftware("librdkafka", "2.16.0")
    return TelemetryClient(UUID(int=number), f"client-{number}", software, "10.0.0.1", 4711)


def gauge(name: str, value: float) -> Point:
    return Point(SeriesName(name, ()), MetricKind.GAUGE, value)


class World:
    def __init__(self) -> None:
        ids = count(1_000)
        self.machine = ClientInstances(MAX_BYTES, lambda: UUID(int=next(ids)))
        self.now_ms = 1_000_000
        self.subscribe(metrics="*")

    def subscribe(self, **texts: str) -> None:
        self.machine.subscribe([Subscription({"interval.ms": str(INTERVAL_MS), **texts})])

    def ask(self, number: int = 1) -> TelemetryError:
        return self.machine.ask(client(number), now_ms=self.now_ms).error

    def subscription(self, number: int = 1) -> int:
        """The id, learned without asking: the same at any machine."""
        other = World()
        other.machine._subscriptions = self.machine._subscriptions
        answer = other.machine.ask(client(number), now_ms=0)
        return answer.subscribed.subscription_id

    def push(
        self,
        number: int = 1,
        *points: Point,
        subscription: int | None = None,
        terminating: bool = False,
        compression: int = 0,
        data: bytes = b"x",
    ) -> TelemetryError:
        known = self.subscription(number) if subscription is None else subscription
        push = Push(known, terminating, compression, data)
        return self.machine.push(
            client(number), push, lambda _: Unpacked(OK, points), now_ms=self.now_ms
        )

    def values(self) -> dict[str, dict[str, float]]:
        return {
            view.client.client_id: {name.metric: each.value for name, each in view.series.items()}
            for view in self.machine.figures(self.now_ms).clients
        }


def test_a_client_without_an_id_gets_one() -> None:
    world = World()
    answer = world.machine.ask(client(0), now_ms=world.now_ms)
    assert (answer.error, answer.instance_id) == (OK, UUID(int=1_000))
    assert answer.subscribed.metrics == ("*",)
    assert world.push(0) is TelemetryError.INVALID_REQUEST, "none can push without"


def test_asking_and_pushing_have_their_time() -> None:
    world = World()
    assert world.ask() is OK
    assert world.ask() is THROTTLED
    assert world.push() is OK, "the first comes after a part of the interval"
    assert world.push() is THROTTLED
    world.now_ms += INTERVAL_MS - 1
    assert world.push() is THROTTLED
    world.now_ms += 1
    assert world.push() is OK
    assert world.push(terminating=True) is OK, "the last comes when it comes"
    world.now_ms += INTERVAL_MS
    assert world.push() is TelemetryError.INVALID_REQUEST, "nothing comes after the last"


def test_a_push_to_a_broker_that_knows_nothing_of_it_is_taken() -> None:
    assert World().push(1, gauge("a", 1.0)) is OK


def test_other_wishes_are_learned_at_once() -> None:
    world = World()
    assert (world.ask(), world.push(1, gauge("a", 1.0))) == (OK, OK)
    before = world.subscription()
    world.subscribe(metrics="b")
    assert world.push(subscription=before) is TelemetryError.UNKNOWN_SUBSCRIPTION
    assert world.ask() is OK, "it need not wait"
    assert world.push() is OK
    assert world.values() == {"client-1": {"a": 1.0}}, "what was pushed before stays"
    world.subscribe(metrics="b")
    assert world.push() is THROTTLED, "the same wishes are no others"


def test_what_cannot_be_taken() -> None:
    world = World()
    world.ask()
    assert world.push(compression=5) is TelemetryError.UNSUPPORTED_COMPRESSION
    assert world.ask() is OK
    assert world.push(data=b"x" * (MAX_BYTES + 1)) is TelemetryError.TOO_LARGE
    assert world.ask() is THROTTLED
    world.now_ms += INTERVAL_MS
    push = Push(world.subscription(), False, 0, b"x")
    bad = Unpacked(TelemetryError.INVALID_METRICS)
    error = world.machine.push(client(), push, lambda _: bad, now_ms=world.now_ms)
    assert error is TelemetryError.INVALID_METRICS
    pushes = world.machine.figures(world.now_ms).pushes
    assert pushes[TelemetryError.TOO_LARGE] == pushes[TelemetryError.INVALID_METRICS] == 1


def test_totals_and_differences() -> None:
    world = World()
    name = SeriesName("sent", (("topic", "a"),))
    total = Point(name, MetricKind.COUNTER, 5.0)
    assert world.push(1, total) is OK
    world.now_ms += INTERVAL_MS
    assert world.push(1, total._replace(value=9.0)) is OK
    assert world.values() == {"client-1": {"sent": 9.0}}
    world.now_ms += INTERVAL_MS
    assert world.push(1, total._replace(value=2.0, is_delta=True)) is OK
    assert world.values() == {"client-1": {"sent": 11.0}}


def test_what_is_no_longer_told_goes() -> None:
    world = World()
    assert world.push(1, gauge("a", 1.0), gauge("b", 2.0)) is OK
    world.now_ms += INTERVAL_MS
    assert world.push(1, gauge("b", 3.0)) is OK
    assert world.values() == {"client-1": {"b": 3.0}}
    world.machine.subscribe([])
    assert world.ask() is OK
    assert world.values() == {}, "it is to push nothing any more"


def test_who_has_terminated_is_forgotten_whatever_it_sends() -> None:
    world = World()
    assert world.push(1, terminating=True) is OK
    for _ in range(6):
        assert world.push() is TelemetryError.INVALID_REQUEST
        world.now_ms += instances.FORGOTTEN_AFTER_MS // 6
    assert world.push() is OK


def test_silent_clients_are_forgotten() -> None:
    world = World()
    assert world.push(1, gauge("a", 1.0)) is OK
    world.now_ms += instances.FORGOTTEN_AFTER_MS - 1
    assert world.values() == {"client-1": {"a": 1.0}}
    world.now_ms += 1
    assert world.values() == {}


class Clients(RuleBasedStateMachine):
    """Small bounds, many clients: nothing grows beyond them, and no two pushes are taken within an
    interval unless the client asked in between."""

    @initialize()
    def begin(self) -> None:
        self.world = World()
        self.taken: dict[int, int] = {}
        self.asked: set[int] = set()

    @rule(number=st.integers(1, 9))
    def ask(self, number: int) -> None:
        if self.world.ask(number) is OK:
            self.asked.add(number)

    @rule(number=st.integers(1, 9), names=st.lists(st.sampled_from("abcdefgh"), max_size=6))
    def push(self, number: int, names: list[str]) -> None:
        known = any(each.instance_id == UUID(int=number) for each in self._held())
        error = self.world.push(number, *(gauge(name, 1.0) for name in names))
        if error is OK:
            last_ms = self.taken.get(number)
            waited = last_ms is None or self.world.now_ms - last_ms >= INTERVAL_MS
            assert waited or number in self.asked or not known
            self.taken[number] = self.world.now_ms
            self.asked.discard(number)

    @rule(passed_ms=st.sampled_from([1, INTERVAL_MS // 2, INTERVAL_MS, 61_000]))
    def wait(self, passed_ms: int) -> None:
        self.world.now_ms += passed_ms

    @rule(metrics=st.sampled_from(["*", "a", "b,c"]))
    def subscribe(self, metrics: str) -> None:
        self.world.subscribe(metrics=metrics)
        self.asked |= set(range(1, 10))

    def _held(self) -> Iterable[TelemetryClient]:
        return [each.client for each in self.world.machine._instances.values()]

    @invariant()
    def is_bounded(self) -> None:
        if not hasattr(self, "world"):
            return
        held = self.world.machine._instances.values()
        assert len(held) <= instances.INSTANCES_MAX
        assert all(len(each.series) <= instances.SERIES_PER_INSTANCE_MAX for each in held)
        total = sum(len(each.series) for each in held)
        assert total == self.world.machine._series <= instances.SERIES_MAX


class SmallClients(Clients):
    def __init__(self) -> None:
        super().__init__()
        self._bounds = {
            name: getattr(instances, name)
            for name in ("INSTANCES_MAX", "SERIES_PER_INSTANCE_MAX", "SERIES_MAX")
        }
        for name, small in zip(self._bounds, (4, 3, 8), strict=True):
            setattr(instances, name, small)

    def teardown(self) -> None:
        for name, value in self._bounds.items():
            setattr(instances, name, value)


TestClients = SmallClients.TestCase
TestClients.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
