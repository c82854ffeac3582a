"""Reading schemas from a registry with Confluent's REST API."""

from dataclasses import dataclass
from typing import Final

from goqueue.client.http_api import HttpApi
from goqueue.model.client_security import NO_SECURITY, ClientSecurity


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """`references` are the schemas it builds on, those they build on first: name -> text.

    Texts of Protobuf are file descriptors as base64.
    """

    type: str
    text: str
    references: dict[str, str]
    # What it is in its subject, where it was asked for there.
    version: int | None = None


# Protobuf as descriptors, which needs no compiler here; others have one form only.
_FORM: Final = "serialized"


class Registry:
    def __init__(self, url: str, security: ClientSecurity = NO_SECURITY) -> None:
        self._api = HttpApi(url, security=security)

    def by_version(self, subject: str, version: str) -> RegisteredSchema:
        """`version` is a number or `latest`."""
        return self._with_references(self._version(subject, version))

    def by_id(self, schema_id: int) -> RegisteredSchema:
        return self._with_references(self._api.get("schemas", "ids", str(schema_id), format=_FORM))

    def versions_of(self, schema_id: int, subject: str) -> list[int]:
        """Which versions of the subject this schema is."""
        found = self._api.get("schemas", "ids", str(schema_id), "versions")
        return [int(each["version"]) for each in found if each["subject"] == subject]

    def _version(self, subject: str, version: str) -> dict[str, object]:
        found = self._api.get("subjects", subject, "versions", version, format=_FORM)
        assert isinstance(found, dict)
        return found

    def _with_references(self, found: dict[str, object]) -> RegisteredSchema:
        texts: dict[str, str] = {}
        self._collect(found, texts)
        # Avro is what a schema is unless it says otherwise.
        kind = str(found.get("schemaType") or "AVRO")
        version = found.get("version")
        return RegisteredSchema(
            type=kind,
            text=str(found["schema"]),
            references=texts,
            version=version if isinstance(version, int) else None,
        )

    def _collect(self, found: dict[str, object], texts: dict[str, str]) -> None:
        references = found.get("references") or []
        assert isinstance(references, list)
        for each in references:
            if each["name"] in texts:
                continue
            used = self._version(each["subject"], str(each["version"]))
            self._collect(used, texts)
            texts[each["name"]] = str(used["schema"])
