"""Subscriptions to clients' metrics, made by kafka-python: librdkafka's admin client has none."""

import json
from typing import Any
from urllib.request import urlopen

from kafka import KafkaAdminClient
from kafka import admin as python_admin

from tests.interop.servers import Server, http_urls_of

# Its names are re-exports that the type checker does not see.
_admin: Any = python_admin
_TIMEOUT_SECONDS = 60


def subscribe(bootstrap: str, name: str, settings: dict[str, str]) -> None:
    _alter(bootstrap, name, settings)


def unsubscribe(bootstrap: str, name: str, *settings: str) -> None:
    _alter(bootstrap, name, dict.fromkeys(settings, ("DELETE", None)))


def _alter(bootstrap: str, name: str, changes: dict[str, Any]) -> None:
    client: Any = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        kind = _admin.ConfigResourceType.CLIENT_METRICS
        told = client.alter_configs([_admin.ConfigResource(kind, name, changes)])
        assert told["client_metrics"][name] == "OK", told
    finally:
        client.close()


def pushing_clients(server: Server) -> dict[str, dict[str, Any]]:
    """Those that have pushed to any broker, by their names."""
    found: dict[str, dict[str, Any]] = {}
    for url in http_urls_of(server):
        with urlopen(f"{url}/clients/metrics?limit=100", timeout=_TIMEOUT_SECONDS) as answer:
            for client in json.load(answer)["clients"]:
                if client["metrics"]:
                    found[client["clientId"]] = client
    return found
