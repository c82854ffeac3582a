"""Doors of one process share their routes, and nothing else."""

from pathlib import Path

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.doors.http import HttpDoor
from goqueue.model.broker_config import broker_config
from goqueue.service.broker_service import BrokerService

pytestmark = pytest.mark.anyio


async def test_each_answers_for_its_own_broker(
    tmp_path: Path, client: httpx.AsyncClient, orders: str
) -> None:
    texts = {
        "data.dir": str(tmp_path / "other"),
        "http.port": "0",
        "http.request.max.bytes": "1024",
    }
    broker = await Node.open(broker_config(texts))
    door = HttpDoor(BrokerService(broker), broker.config)
    try:
        host, port = await door.start()
        async with httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=60) as other:
            assert (await other.get(f"/topics/{orders}")).status_code == 404
            assert (await client.get(f"/topics/{orders}")).status_code == 200
            # Only the first has announced itself.
            assert (await other.get("/readyz")).status_code == 503
            assert (await client.get("/readyz")).status_code == 200
            larger = {"messages": [{"value": "x" * 2000}]}
            path = f"/topics/{orders}/messages"
            assert (await other.post(path, json=larger)).status_code == 413
            assert (await client.post(path, json=larger)).status_code == 200
    finally:
        await door.stop()
        await broker.close()
