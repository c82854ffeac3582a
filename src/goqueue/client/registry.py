"""Reading schemas from a registry with Confluent's REST API."""

from dataclasses import dataclass

from goqueue.client.http_api import HttpApi


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """`references` are the schemas it builds on, those they build on first: name -> text."""

    type: str
    text: str
    references: dict[str, str]


class Registry:
    def __init__(self, url: str) -> None:
        self._api = HttpApi(url)

    def by_version(self, subject: str, version: str) -> RegisteredSchema:
        """`version` is a number or `latest`."""
        return self._with_references(self._api.get("subjects", subject, "versions", version))

    def by_id(self, schema_id: int) -> RegisteredSchema:
        return self._with_references(self._api.get("schemas", "ids", str(schema_id)))

    def _with_references(self, found: dict[str, object]) -> RegisteredSchema:
        texts: dict[str, str] = {}
        self._collect(found, texts)
        # Avro is what a schema is unless it says otherwise.
        kind = str(found.get("schemaType") or "AVRO")
        return RegisteredSchema(type=kind, text=str(found["schema"]), references=texts)

    def _collect(self, found: dict[str, object], texts: dict[str, str]) -> None:
        references = found.get("references") or []
        assert isinstance(references, list)
        for each in references:
            if each["name"] in texts:
                continue
            used = self._api.get("subjects", each["subject"], "versions", str(each["version"]))
            self._collect(used, texts)
            texts[each["name"]] = str(used["schema"])
