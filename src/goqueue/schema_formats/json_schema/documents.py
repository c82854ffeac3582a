"""A schema's document with all it refers to: every `$ref` is resolved here, and nowhere else."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urldefrag, urljoin

from goqueue.model.schemas.formats import InvalidSchema, SchemaSource
from goqueue.schema_formats.json_schema.dialects import (
    IN_PLACE,
    META_SCHEMAS,
    Draft,
    Schema,
    draft_of,
    only_refers,
    reference_keywords,
    subschemas,
)
from goqueue.schema_formats.json_schema.json_text import load
from goqueue.schema_formats.json_schema.meta_schemas import check_against_meta_schema, meta_schemas

# What relative names are relative to in a document without an `$id`; never fetched (RFC 6761).
DEFAULT_BASE: Final = "https://schema.invalid/"


class Subschema(NamedTuple):
    """A schema within a document, with where it stands; `path` is for people."""

    schema: Schema
    base: str
    draft: Draft
    path: str
    documents: "Documents"

    def inner(self, schema: Schema, pointer: str) -> "Subschema":
        base = _base_within(schema, self.base, self.draft)
        return Subschema(schema, base, self.draft, self.path + pointer, self.documents)

    def target(self, keyword: str) -> "Subschema":
        """What the reference under `keyword` stands for."""
        return self.documents.links[id(self.schema), keyword]


class Documents:
    """Raises `InvalidSchema` when a document or a reference is wrong."""

    def __init__(self, source: SchemaSource) -> None:
        self.links: dict[tuple[int, str], Subschema] = {}
        # All documents by address: what a validator has to be given.
        self.by_address: dict[str, Schema] = {}
        self._resources: dict[str, Subschema] = {}
        self._anchors: dict[tuple[str, str], Subschema] = {}
        self._names: dict[str, str] = {}
        self._schemas: list[Subschema] = []
        self._seen: set[int] = set()
        self.root = self._add_document(_read(source.text, "#"), DEFAULT_BASE, "#")
        for name, text in source.references:
            address = _address(self.root.base, name)
            self._names[_plain(name)] = address
            self._add_document(_read(text, f"{name}#"), address, f"{name}#")
        self._link()
        self._refuse_endless_references()

    def _add_document(self, schema: Schema, address: str, path: str) -> Subschema:
        draft = draft_of(schema)
        subschema = Subschema(schema, _base_within(schema, address, draft), draft, path, self)
        self._resources.setdefault(address, subschema)
        for known_as in (address, subschema.base):
            self.by_address.setdefault(known_as, schema)
        self._index(subschema)
        return subschema

    def _index(self, start: Subschema) -> None:
        """Makes known what in a document can be referred to by name."""
        places = [start]
        while places:
            subschema = places.pop()
            if isinstance(subschema.schema, bool) or id(subschema.schema) in self._seen:
                continue
            self._seen.add(id(subschema.schema))
            self._schemas.append(subschema)
            if subschema.base not in self._resources:
                self._resources[subschema.base] = subschema
            for anchor in _anchors_of(subschema.schema, subschema.draft):
                self._anchors.setdefault((subschema.base, anchor), subschema)
            places.extend(subschema.inner(item, at) for _, at, item in subschemas(subschema.schema))

    def _link(self) -> None:
        # Grows when a reference leads to where no schema was expected.
        for subschema in self._schemas:
            assert isinstance(subschema.schema, dict)
            for keyword in reference_keywords(subschema.draft):
                reference = subschema.schema.get(keyword)
                if isinstance(reference, str):
                    target = self._resolve(subschema, keyword, reference)
                    self.links[id(subschema.schema), keyword] = target
                    self._index(target)

    def _resolve(self, subschema: Subschema, keyword: str, reference: str) -> Subschema:
        where = f"{subschema.path}/{keyword}"
        address, fragment = urldefrag(_join(subschema.base, reference))
        resource = self._resources.get(address) or self._meta_schema(address)
        if resource is None and (named := self._names.get(_plain(reference))) is not None:
            # A reference by its registered name, from a document with another base: the validator
            # knows only addresses.
            resource, address = self._resources[named], named
            assert isinstance(subschema.schema, dict)
            subschema.schema[keyword] = f"{address}#{fragment}"
        if resource is None:
            raise InvalidSchema(
                f"{where}: {reference[:200]!r} is not in this schema; "
                "register it and add it to the references under this name"
            )
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            found = self._anchors.get((resource.base, fragment))
        else:
            found = _at_pointer(resource, fragment)
        if found is None:
            raise InvalidSchema(f"{where}: {reference[:200]!r} points at no schema")
        return found

    def _meta_schema(self, address: str) -> Subschema | None:
        for draft, uri in META_SCHEMAS.items():
            if not address.startswith(uri.removesuffix("#").removesuffix("schema")):
                continue
            for other, schema in meta_schemas(draft).items():
                if other not in self._resources:
                    self._add_document(schema, other, f"{other}#")
        return self._resources.get(address)

    def _refuse_endless_references(self) -> None:
        """A schema that is reached from itself with the same value never ends (core, 9.4.1)."""
        finished: set[int] = set()
        for start in self._schemas:
            on_path = {id(start.schema)}
            trail = [(start, judging_the_same_value(start))]
            while trail and id(start.schema) not in finished:
                subschema, following = trail[-1]
                after = next(following, None)
                if after is None:
                    trail.pop()
                    on_path.discard(id(subschema.schema))
                    finished.add(id(subschema.schema))
                elif id(after.schema) in on_path:
                    raise InvalidSchema(
                        f"{subschema.path}: leads back to {after.path} without a property or an "
                        "item between, so it never ends; put one between or take the reference out"
                    )
                elif id(after.schema) not in finished:
                    on_path.add(id(after.schema))
                    trail.append((after, judging_the_same_value(after)))


def _read(text: str, path: str) -> Schema:
    schema = load(text)
    if not isinstance(schema, dict | bool):
        raise InvalidSchema(f"{path}: a schema is an object or a boolean, not {text.strip()[:40]}")
    if isinstance(schema, dict):
        # Spelled out, since the library takes a schema without it for the newest draft.
        schema["$schema"] = META_SCHEMAS[draft_of(schema)]
        check_against_meta_schema(schema, path)
    return schema


def judging_the_same_value(subschema: Subschema) -> Iterator[Subschema]:
    schema = subschema.schema
    if isinstance(schema, bool):
        return
    for keyword in reference_keywords(subschema.draft):
        if isinstance(schema.get(keyword), str):
            target = subschema.target(keyword)
            if isinstance(target.schema, dict):
                yield target
    if not only_refers(schema, subschema.draft):
        for keyword, pointer, item in subschemas(schema):
            if keyword in IN_PLACE and isinstance(item, dict):
                yield subschema.inner(item, pointer)


def _declared_id(schema: Schema, draft: Draft) -> str | None:
    if isinstance(schema, bool) or only_refers(schema, draft):
        return None
    declared = schema.get("id" if draft == Draft.DRAFT_04 else "$id")
    return declared if isinstance(declared, str) else None


def _base_within(schema: Schema, base: str, draft: Draft) -> str:
    declared = _declared_id(schema, draft)
    return base if declared is None else urldefrag(_join(base, declared))[0]


def _anchors_of(schema: dict[str, Any], draft: Draft) -> Iterator[str]:
    if draft <= Draft.DRAFT_07:
        anchor = urldefrag(_declared_id(schema, draft) or "")[1]
        if anchor:
            yield anchor
        return
    for keyword in ("$anchor", "$dynamicAnchor"):
        if isinstance(schema.get(keyword), str):
            yield schema[keyword]


def _at_pointer(resource: Subschema, pointer: str) -> Subschema | None:
    subschema, value = resource, resource.schema
    for segment in pointer.split("/")[1:]:
        name = segment.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and len(name) < 10:
            value = value[int(name)] if int(name) < len(value) else None
        else:
            return None
        if isinstance(value, dict):
            subschema = subschema.inner(value, f"/{segment}")
        else:
            subschema = subschema._replace(path=f"{subschema.path}/{segment}")
    return subschema._replace(schema=value) if isinstance(value, dict | bool) else None


def _address(root_base: str, name: str) -> str:
    address = urldefrag(_join(root_base, name))[0]
    return address if "://" in address else DEFAULT_BASE + quote(name)


def _plain(name: str) -> str:
    return urldefrag(name)[0].removeprefix("./")


def _join(base: str, reference: str) -> str:
    try:
        # urljoin knows no bases such as urn:…, which a fragment may follow all the same.
        return base + reference if reference.startswith("#") else urljoin(base, reference)
    except ValueError as error:
        raise InvalidSchema(f"{reference[:200]!r} is no URI: {error}") from None
