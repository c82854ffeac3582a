"""How fast replicas are moved between brokers: settings that change at run time. Pure."""

from goqueue.model.names import NodeId
from goqueue.model.replication_config import (
    MOVE_RATE,
    MOVES_PAUSED,
    NO_MOVE_LIMIT,
    THROTTLE_SETTINGS,
    UNLIMITED,
)
from goqueue.model.settings import Value
from goqueue.state.metadata_image import MetadataImage


def rate_of(image: MetadataImage, node_id: NodeId | None, name: str) -> int:
    """Bytes per second, of one of the rates: as it was set of this broker, or else of all, or else
    the default; without a broker, of all."""
    rate = _value(image, name, node_id)
    assert isinstance(rate, int)
    return UNLIMITED if name == MOVE_RATE and rate == NO_MOVE_LIMIT else rate


def are_moves_paused(image: MetadataImage, node_id: NodeId | None = None) -> bool:
    """On one broker; without one, everywhere."""
    return _value(image, MOVES_PAUSED, node_id) is True


def _value(image: MetadataImage, name: str, node_id: NodeId | None) -> Value:
    own = {} if node_id is None else image.broker_config(node_id)
    for overrides in (own, image.broker_config(None)):
        if name in overrides:
            return THROTTLE_SETTINGS[name].parse(overrides[name])
    return THROTTLE_SETTINGS[name].default
