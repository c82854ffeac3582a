"""What a registry has told about schemas: none of it may ever change.

- another meaning: an id, or a version of a subject, stands for another schema than before;
- two ids: the same schema got another id;
- forgotten: a broker does not know what was registered.
"""

import threading
from dataclasses import dataclass, field

Versions = dict[tuple[str, int], tuple[int, str]]
"""Of a subject and a version: id and text."""


@dataclass
class SchemaHistory:
    texts: dict[int, str] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    versions: dict[tuple[str, int], int] = field(default_factory=dict)
    # What was registered by word of a broker, by subject.
    registered: set[tuple[str, str]] = field(default_factory=set)
    told: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def was_registered(self, subject: str, text: str, schema_id: int) -> None:
        self.id_means(schema_id, text, "at a registration")
        with self._lock:
            self.registered.add((subject, text))
            known = self.ids.setdefault(text, schema_id)
            if known != schema_id:
                self.told.append(f"registry: {text} has the ids {known} and {schema_id}")

    def id_means(self, schema_id: int, text: str, where: str) -> None:
        with self._lock:
            known = self.texts.setdefault(schema_id, text)
            if known != text:
                self.told.append(f"registry: id {schema_id} was {known} and is {text} {where}")

    def version_is(self, subject: str, version: int, schema_id: int, where: str) -> None:
        with self._lock:
            known = self.versions.setdefault((subject, version), schema_id)
            if known != schema_id:
                self.told.append(
                    f"registry: {subject} version {version} was id {known} and is {schema_id} "
                    f"{where}"
                )

    def known_ids(self) -> dict[int, str]:
        with self._lock:
            return dict(self.texts)

    def known_subjects(self) -> list[str]:
        with self._lock:
            return sorted({subject for subject, _ in self.registered})

    def violations(self, by_broker: dict[str, Versions]) -> list[str]:
        """`by_broker`: what each has at the end."""
        found = list(self.told)
        for broker, versions in by_broker.items():
            texts = {(subject, text) for (subject, _), (_, text) in versions.items()}
            found += [
                f"registry: {broker} does not know {text} of {subject}"
                for subject, text in sorted(self.registered - texts)
            ]
            found += [
                f"registry: {broker} has no version {version} of {subject}"
                for subject, version in sorted(self.versions.keys() - versions.keys())
            ]
            for (subject, version), (schema_id, text) in versions.items():
                if self.versions.get((subject, version), schema_id) != schema_id:
                    found.append(f"registry: {broker} has id {schema_id} for {subject} {version}")
                if self.texts.get(schema_id, text) != text:
                    found.append(f"registry: {broker} has {text} for id {schema_id}")
        return found
