"""How large a request may be, by operation: its frame, and the elements in its arrays.

Produce carries records. Whatever else is as large is not what it seems, and a request of many small
elements costs a hundred times its bytes in objects.
"""

from collections.abc import Mapping

from goqueue.doors.kafka.large_requests import LARGE_ELEMENTS
from goqueue.doors.kafka.operation import Operation
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.calls import CALL_API_KEY


class RequestLimits:
    largest_setting = "socket.request.max.bytes"

    def __init__(self, config: BrokerConfig, operations: Mapping[int, Operation]) -> None:
        self._elements = config.request_max_elements
        self._resources = config.request_max_resources
        self._elements_at_once = min(self._elements, LARGE_ELEMENTS)
        self._resources_at_once = min(self._resources, LARGE_ELEMENTS)
        self.largest_bytes = config.socket_request_max_bytes
        # No operation has a lower limit.
        self.smallest_bytes = min(config.request_max_bytes, self.largest_bytes)
        self._carry_records = {op.api_key for op in operations.values() if op.carries_records}
        # Brokers hand on what clients publish.
        self._carry_records.add(CALL_API_KEY)

    def bytes_of(self, api_key: int) -> int:
        return self.largest_bytes if api_key in self._carry_records else self.smallest_bytes

    def elements_of(self, operation: Operation) -> int:
        return self._resources if operation.names_resources else self._elements

    def elements_at_once(self, operation: Operation) -> int:
        """With more of them, a request is decoded in slices."""
        return self._resources_at_once if operation.names_resources else self._elements_at_once

    @staticmethod
    def elements_setting(operation: Operation) -> str:
        return "request.max.resources" if operation.names_resources else "request.max.elements"
