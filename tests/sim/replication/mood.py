"""What one world is like. Each knows only some of the faults, so that none hides another's work."""

from dataclasses import dataclass
from random import Random

from goqueue.model.names import NodeId
from tests.sim.replication.faults import FAULTS, Fault, kill
from tests.sim.replication.moving import MOVES
from tests.sim.replication.plots import PLOTS


@dataclass(frozen=True, slots=True)
class Mood:
    """Which faults there are, how often, and how late things come."""

    fault_rate: float
    faults: tuple[Fault, ...]
    store_rate: float
    lateness: float
    lost_answers: float
    lag_max_ms: int
    # How often the faults leave the cluster a moment to do its work.
    calm_rate: float
    # Whose turn it is, in these proportions: one may be slow, and falls behind again and again.
    turns: tuple[NodeId, ...]
    slow: NodeId | None
    # Whether the brokers have to find each other first, or are at work already.
    is_new: bool


def mood(chance: Random, nodes: tuple[NodeId, ...], *, with_moves: bool = False) -> Mood:
    """`with_moves`: there are brokers to spare, and somebody moves partitions. Plots are for
    brokers that all have replicas."""
    variety = chance.choice((0.15, 0.3, 0.5))
    faults = [fault for fault in FAULTS if chance.random() < variety]
    faults += [plot for plot in PLOTS if chance.random() < 0.2 and not with_moves]
    if with_moves:
        faults += [*MOVES, *MOVES, *MOVES]
    slow = chance.choice((*nodes, None, None))
    return Mood(
        fault_rate=chance.choice((0.03, 0.06, 0.12)),
        faults=tuple(faults) or (kill,),
        store_rate=chance.choice((0.03, 0.08, 0.14)),
        lateness=chance.choice((0.0, 0.5, 0.9)),
        lost_answers=chance.choice((0.0, 0.2, 0.7)),
        lag_max_ms=chance.choice((6, 12, 40)),
        calm_rate=chance.choice((0.01, 0.04, 0.08)),
        turns=tuple(node for node in nodes for _ in range(1 if node == slow else 3)),
        slow=slow,
        is_new=chance.random() < 0.05,
    )
