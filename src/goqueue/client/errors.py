"""What can go wrong between a client and a broker."""

from goqueue.model.errors import BrokerUnreachable, GoQueueError

__all__ = ["BrokerUnreachable", "RequestRefused"]


class RequestRefused(GoQueueError):
    """The broker said no. `kafka_code` is Kafka's error code."""

    code = "request_refused"

    def __init__(self, message: str, kafka_code: int) -> None:
        super().__init__(message)
        self.kafka_code = kafka_code
