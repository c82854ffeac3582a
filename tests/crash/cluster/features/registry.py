"""The schema registry: schemas of several subjects, registered and read at any broker."""

import json
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final

from goqueue.client.http_api import HttpApi, HttpRefused
from tests.crash.cluster.features.calls import RETRY_S, AnyBroker, NotAnswered, any_http
from tests.crash.cluster.features.loads import Load, Surroundings
from tests.crash.cluster.features.schema_history import SchemaHistory, Versions

SUBJECTS: Final = tuple(f"subject-{n}" for n in range(5))
# A broker that follows the log may know a new schema some moments later.
FOLLOWS_WITHIN_S: Final = 10.0


class SchemaRegistry(Load):
    name: ClassVar[str] = "registry"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.history = SchemaHistory()
        self.by_broker: dict[str, Versions] = {}
        self.read_count = 0
        self.read_again_count = 0
        self._texts: list[str] = []

    def prepare(self) -> None:
        # The first registration makes the registry's topic.
        self._register(self._brokers(), self.chance())
        for number in range(2):
            self.worker(f"writer {number}", self._writer(), 0.3)
        self.worker("reader", self._reader(), 0.1)

    def _brokers(self) -> AnyBroker[HttpApi]:
        return any_http(self.around.http_urls, self.calls, self.chance())

    # --- work -----------------------------------------------------------------------------

    def _writer(self) -> Callable[[], None]:
        broker, chance = self._brokers(), self.chance()
        return lambda: self._register(broker, chance)

    def _register(self, broker: AnyBroker[HttpApi], chance: random.Random) -> None:
        """A new schema, or one that is known under this subject or another."""
        if self._texts and chance.random() < 0.3:
            text = chance.choice(self._texts)
        else:
            text = _schema(chance.getrandbits(48))
            self._texts.append(text)
        subject = chance.choice(SUBJECTS)
        answer = broker.insist(
            "register",
            lambda api: api.post("subjects", subject, "versions", body={"schema": text}),
        )
        self.history.was_registered(subject, text, answer["id"])

    def _reader(self) -> Callable[[], None]:
        broker, chance = self._brokers(), self.chance()

        def step() -> None:
            schema_id = chance.choice(list(self.history.known_ids()))
            found = self._read(broker, "read id", "schemas", "ids", str(schema_id))
            if found is not None:
                self.history.id_means(schema_id, found["schema"], "when read")
            known = self.history.known_subjects()
            subject = chance.choice(known)
            versions = self._read(broker, "list versions", "subjects", subject, "versions")
            if versions:
                version = chance.choice(versions)
                path = ("subjects", subject, "versions", str(version))
                found = self._read(broker, "read version", *path)
                if found is not None:
                    self.history.id_means(found["id"], found["schema"], f"as {subject} {version}")
                    self.history.version_is(subject, version, found["id"], "when read")

        return step

    def _read(self, broker: AnyBroker[HttpApi], what: str, *path: str) -> Any:
        """What must be there; None after it was told that it is not."""
        deadline = time.monotonic() + FOLLOWS_WITHIN_S
        while True:
            try:
                found = broker.ask(what, lambda api: api.get(*path))
            except HttpRefused as refusal:
                if time.monotonic() > deadline:
                    self.history.told.append(f"registry: {'/'.join(path)}: {refusal.message}")
                    return None
                self.read_again_count += 1
            except NotAnswered:
                deadline = time.monotonic() + FOLLOWS_WITHIN_S
            else:
                self.read_count += 1
                return found
            time.sleep(RETRY_S)

    # --- the end --------------------------------------------------------------------------

    def settle(self) -> None:
        self.end()
        for url in self.around.http_urls:
            self.until(partial(self._knows_all, url), FOLLOWS_WITHIN_S)

    def _knows_all(self, url: str) -> bool:
        self.by_broker[url] = _all_versions(HttpApi(url))
        texts = {(subject, text) for (subject, _), (_, text) in self.by_broker[url].items()}
        return texts >= self.history.registered

    def violations(self) -> list[str]:
        return self.history.violations(self.by_broker)

    def figures(self) -> dict[str, object]:
        return {
            "schemas": len(self.history.texts),
            "registered under subjects": len(self.history.registered),
            "reads": self.read_count,
            "reads that came too soon": self.read_again_count,
        }


def _all_versions(api: HttpApi) -> Versions:
    return {
        (subject, version): (found["id"], found["schema"])
        for subject in api.get("subjects")
        for version in api.get("subjects", subject, "versions")
        for found in (api.get("subjects", subject, "versions", str(version)),)
    }


def _schema(number: int) -> str:
    """Each is another one, and compatible with all others."""
    return json.dumps(
        {"type": "record", "name": "Order", "doc": f"order {number}", "fields": []},
        separators=(",", ":"),
    )
