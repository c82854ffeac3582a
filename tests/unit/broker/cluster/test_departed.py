"""Clients are told of brokers that departed, for a while."""

from dataclasses import replace
from uuid import UUID

from goqueue.broker.membership.departed import KEPT_S, Departed
from goqueue.model.membership import NodeRecord, Registration
from goqueue.model.names import NodeId
from goqueue.model.topics import BrokerView
from goqueue.state.metadata_image import KnownNode, MetadataImage

ONE, TWO = NodeId(1), NodeId(2)


class World:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.image = MetadataImage.empty()
        self.departed = Departed(lambda: self.image, clock_s=lambda: self.now_s)

    def register(self, node: NodeId, epoch: int, port: int = 9092) -> BrokerView:
        registration = Registration(
            directory=UUID(int=node), trail=(UUID(int=epoch),), is_kept=True
        )
        broker = BrokerView(node, "h", port, 8080, None, epoch, registration)
        self._change(brokers={**self.image.brokers, node: broker})
        return broker

    def admit(self, node: NodeId) -> None:
        epoch = self.image.brokers[node].epoch
        record = NodeRecord(
            directory=UUID(int=node), incarnation=UUID(int=epoch), broker_epoch=epoch
        )
        self._change(nodes={**self.image.nodes, node: KnownNode(record, epoch)})

    def leave(self, node: NodeId, *, for_good: bool = False) -> None:
        self._change(brokers={n: b for n, b in self.image.brokers.items() if n != node})
        if for_good:
            self._change(nodes={n: k for n, k in self.image.nodes.items() if n != node})

    def told(self) -> list[BrokerView]:
        return list(self.departed.brokers)

    def _change(self, **changes: object) -> None:
        self.image = replace(self.image, **changes)  # type: ignore[arg-type]
        self.departed.look()


def test_who_left_is_told_of_for_a_while() -> None:
    world = World()
    two = world.register(TWO, 5)
    assert world.told() == []
    world.leave(TWO)
    # It never was one that clients knew.
    assert world.told() == []
    two = world.register(TWO, 6)
    world.admit(TWO)
    world.leave(TWO)
    assert world.told() == [two]
    world.now_s += KEPT_S
    assert world.told() == [two]
    world.now_s += 1
    assert world.told() == []


def test_who_comes_back_is_told_of_where_it_is_now() -> None:
    world = World()
    world.register(TWO, 5)
    world.admit(TWO)
    world.leave(TWO)
    moved = world.register(TWO, 9, port=19092)
    assert world.told() == [moved]
    world.admit(TWO)
    assert world.told() == []


def test_who_left_for_good_is_forgotten() -> None:
    world = World()
    for node in (ONE, TWO):
        world.register(node, 5)
        world.admit(node)
    world.leave(TWO, for_good=True)
    assert world.told() == []
