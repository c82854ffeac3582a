"""Settings that are changed while the broker runs, handed to the parts that go by them."""

from typing import TYPE_CHECKING

from goqueue.model.broker_config import BrokerConfig

if TYPE_CHECKING:
    from goqueue.broker.node import Node


def follow_settings(node: "Node") -> None:
    def take_over(config: BrokerConfig) -> None:
        node.config = config
        node.groups.use_settings(config)
        node.group_configs.use_defaults(config)
        node.transactions.use_settings(config)
        node.quotas.use_settings(config)
        node.compactor.backoff_ms = config.log_cleaner_backoff_ms
        node.hosted.use_producer_expiration(config.producer_id_expiration_ms)

    node.broker_configs.follow(take_over)
