"""Client metrics (KIP-714): what clients are to push, and what they pushed."""

from uuid import UUID

from goqueue.broker.node import Node
from goqueue.model.caller import Caller
from goqueue.model.client_metrics.messages import (
    ClientFigures,
    ClientSoftware,
    Push,
    SubscriptionAnswer,
    TelemetryClient,
    TelemetryError,
)
from goqueue.service.security.access import Access


class ClientMetricsService:
    def __init__(self, node: Node, access: Access) -> None:
        self._telemetry = node.telemetry
        self._access = access

    # --- what any client may do: it tells of itself ---------------------------------------

    @property
    def are_wanted(self) -> bool:
        """Whether there is a subscription at all."""
        return self._telemetry.are_wanted

    @property
    def max_bytes(self) -> int:
        return self._telemetry.max_bytes

    def ask(
        self, caller: Caller, instance_id: UUID, software: ClientSoftware
    ) -> SubscriptionAnswer:
        return self._telemetry.ask(_client(caller, instance_id, software))

    def push(
        self, caller: Caller, instance_id: UUID, software: ClientSoftware, push: Push
    ) -> TelemetryError:
        return self._telemetry.push(_client(caller, instance_id, software), push)

    # --- what is known of all of them -----------------------------------------------------

    def figures(self, caller: Caller) -> ClientFigures:
        """Of the clients of this broker that are to push something, or did."""
        return self._telemetry.figures(self._access.describable_cluster(caller))


def _client(caller: Caller, instance_id: UUID, software: ClientSoftware) -> TelemetryClient:
    return TelemetryClient(instance_id, caller.client_id, software, caller.address, caller.port)
