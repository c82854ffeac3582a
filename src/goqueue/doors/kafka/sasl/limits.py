"""How large a frame may be before log-in: every one alike, and little."""

from goqueue.model.broker_config import BrokerConfig


class LogInLimits:
    largest_setting = "sasl.server.max.receive.size"

    def __init__(self, config: BrokerConfig) -> None:
        self.largest_bytes = config.sasl_server_max_receive_size
        self.smallest_bytes = self.largest_bytes

    def bytes_of(self, api_key: int) -> int:  # noqa: ARG002
        return self.largest_bytes
