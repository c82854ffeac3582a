"""kill -9 while schemas are registered and deleted: what was answered is there, ids are unique."""

import json
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from tests.interop.servers import NewServer

ROUNDS = 3
CLIENTS = 4
# Enough that the server is killed in the middle of several.
SCHEMAS_PER_ROUND = 60
WAIT_SECONDS = 120


def schema_text(number: int) -> str:
    fields = [{"name": "f", "type": "string"}]
    return json.dumps({"type": "record", "name": f"R{number}", "fields": fields})


class Load:
    """Registers until the server dies; every fifth schema is deleted for good again."""

    def __init__(self) -> None:
        self.registered: dict[int, int] = {}
        self.deleted: dict[int, int] = {}
        self.in_doubt: set[int] = set()
        self._numbers = count()

    def run(self, url: str) -> None:
        with httpx.Client(base_url=url, timeout=60, verify=False) as client:
            try:
                while True:
                    self._step(client)
            except httpx.HTTPError:
                return

    def wait_for(self, more: int) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        wanted = len(self.registered) + more
        while len(self.registered) < wanted:
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def _step(self, client: httpx.Client) -> None:
        number = next(self._numbers)
        body = {"schema": schema_text(number)}
        answer = client.post(f"/subjects/s{number}/versions", json=body)
        schema_id = answer.raise_for_status().json()["id"]
        self.registered[number] = schema_id
        if number % 5 == 0:
            self.in_doubt.add(number)
            client.delete(f"/subjects/s{number}").raise_for_status()
            client.delete(f"/subjects/s{number}?permanent=true").raise_for_status()
            self.deleted[number] = self.registered.pop(number)


def check(load: Load, url: str) -> None:
    with httpx.Client(base_url=url, timeout=60, verify=False) as client:
        listed: list[dict[str, Any]] = []
        while page := client.get(f"/schemas?offset={len(listed)}").raise_for_status().json():
            listed += page
    # A schema whose answer was lost may be there; its id is nobody else's.
    stored = {each["id"]: each for each in listed}
    assert len(stored) == len(listed)
    for number, schema_id in load.registered.items():
        if schema_id in stored or number not in load.in_doubt:
            assert json.loads(stored[schema_id]["schema"]) == json.loads(schema_text(number))
    assert not stored.keys() & load.deleted.values()


def test_registrations_over_crashes(new_server: NewServer, tmp_path: Path) -> None:
    load = Load()
    with new_server(tmp_path / "data") as server:
        for _ in range(ROUNDS):
            threads = [
                threading.Thread(target=load.run, args=(server.http_url,)) for _ in range(CLIENTS)
            ]
            for thread in threads:
                thread.start()
            load.wait_for(SCHEMAS_PER_ROUND)
            server.sigkill()
            for thread in threads:
                thread.join()
            server.start()
            check(load, server.http_url)
    ids = [*load.registered.values(), *load.deleted.values()]
    assert len(set(ids)) == len(ids) >= ROUNDS * SCHEMAS_PER_ROUND
