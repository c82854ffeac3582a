"""The registry's machine: what each command decides, and that the log tells it all again."""

import contextlib
from collections.abc import Callable, Collection
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.model.schemas.contexts import ContextId
from goqueue.model.schemas.messages import (
    CompatibilityLevel,
    DeleteContext,
    DeleteSubject,
    DeleteVersion,
    Mode,
    Reference,
    Register,
    Registered,
    SchemaIdentity,
    SetConfig,
    SetMode,
    StoredSchema,
    SubjectConfig,
)
from goqueue.state.machine import Outcome, StateRecord, Ticket
from goqueue.state.schemas import (
    Catalogue,
    RefusalKind,
    RegistryRefusal,
    SchemaMachine,
    records,
)
from tests.unit.state import durable_records

SIZE_MAX_BYTES = 100_000


class Log:
    """Runs a machine as the runtime does, and keeps what a compacted log would."""

    def __init__(self, *, contexts_max: int = 2, tenants: Collection[str] = ()) -> None:
        self.machine = SchemaMachine(
            contexts_max=contexts_max, size_max_bytes=SIZE_MAX_BYTES, tenants=lambda: tenants
        )
        self.entries: dict[bytes, bytes] = {}

    def run(self, command: Callable[..., Outcome], request: object) -> Any:
        """The answer; a refusal is raised, and must not have written anything."""
        outcome = command(self.machine, request, ticket=Ticket(7))
        for record in outcome.records:
            self.machine.replay(record)
            self.entries.pop(record.key, None)
            if record.value is not None:
                self.entries[record.key] = record.value
        ((ticket, answer),) = outcome.replies
        assert ticket == 7
        if isinstance(answer, RegistryRefusal):
            assert not outcome.records
            raise answer
        return answer

    def register(self, subject: str, text: str, **given: Any) -> Registered:
        references = given.pop("references", ())
        identity = SchemaIdentity("AVRO", f"print of {text}", references)
        request = Register(subject, text, identity, 1_000, **given)
        answer: Registered = self.run(SchemaMachine.register, request)
        return answer

    def delete(self, subject: str, number: int | None = None, *, permanent: bool = False) -> Any:
        if number is None:
            return self.run(SchemaMachine.delete_subject, DeleteSubject(subject, permanent))
        return self.run(SchemaMachine.delete_version, DeleteVersion(subject, number, permanent))

    def set_mode(self, subject: str | None, mode: Mode | None, *, is_forced: bool = False) -> Any:
        return self.run(SchemaMachine.set_mode, SetMode(subject, mode, is_forced))

    def set_config(self, subject: str | None, config: SubjectConfig | None) -> Any:
        return self.run(SchemaMachine.set_config, SetConfig(subject, config))

    def restarted(self) -> Catalogue:
        machine = SchemaMachine(contexts_max=2, size_max_bytes=SIZE_MAX_BYTES)
        for key, value in self.entries.items():
            machine.replay(StateRecord(key, value))
        return machine.catalogue


@pytest.fixture
def log() -> Log:
    return Log()


def kind_of(call: Callable[[], object]) -> RefusalKind:
    with pytest.raises(RegistryRefusal) as raised:
        call()
    return raised.value.kind


def test_one_schema_has_one_id_in_all_subjects(log: Log) -> None:
    first = log.register("a", "x")
    assert (first.schema.id, first.version.number) == (1, 1)
    assert log.register("a", "x") == first
    assert log.register("b", "x").schema.id == 1
    second = log.register("a", "y")
    assert (second.schema.id, second.version.number) == (2, 2)
    assert [v.subject for v in log.machine.catalogue.uses(ContextId(".", 1))] == ["a", "b"]


def test_deleting_takes_two_steps(log: Log) -> None:
    log.register("a", "x")
    log.register("a", "y")
    assert kind_of(lambda: log.delete("b")) is RefusalKind.SUBJECT_NOT_FOUND
    assert kind_of(lambda: log.delete("a", 9)) is RefusalKind.VERSION_NOT_FOUND
    assert kind_of(lambda: log.delete("a", 1, permanent=True)) is (
        RefusalKind.VERSION_NOT_SOFT_DELETED
    )
    assert log.delete("a", 1) == 1
    assert kind_of(lambda: log.delete("a", 1)) is RefusalKind.VERSION_SOFT_DELETED
    assert kind_of(lambda: log.delete("a", permanent=True)) is RefusalKind.SUBJECT_NOT_SOFT_DELETED
    assert log.machine.catalogue.schema(ContextId(".", 1)).text == "x"
    assert log.delete("a") == [2]
    assert kind_of(lambda: log.delete("a")) is RefusalKind.SUBJECT_SOFT_DELETED
    assert log.delete("a", permanent=True) == [1, 2]
    assert not log.machine.catalogue.schemas


def test_an_id_is_never_given_twice(log: Log) -> None:
    log.register("a", "x")
    log.delete("a")
    log.delete("a", permanent=True)
    assert log.restarted().highest_id(".") == 1
    assert log.register("a", "y").schema.id == 2


def test_registered_again_after_a_soft_delete(log: Log) -> None:
    log.register("a", "x")
    log.register("a", "y")
    log.delete("a", 1)
    again = log.register("a", "x")
    assert (again.schema.id, again.version.number) == (1, 3)
    numbers = [v.number for v in log.machine.catalogue.versions("a", deleted=True)]
    assert numbers == [2, 3]


def test_settings_go_with_the_last_version(log: Log) -> None:
    log.register("a", "x")
    log.set_config("a", SubjectConfig(compatibility=CompatibilityLevel.NONE))
    log.set_mode("a", Mode.READWRITE)
    log.delete("a", 1)
    assert not log.machine.catalogue.configs
    assert not log.machine.catalogue.modes


def test_what_is_referred_to_stays(log: Log) -> None:
    log.register("base", "x")
    reference = Reference("Base", "base", 1)
    assert kind_of(lambda: log.register("a", "y", references=(Reference("B", "c", 1),))) is (
        RefusalKind.INVALID_SCHEMA
    )
    user = log.register("a", "y", references=(reference,))
    assert log.machine.catalogue.referrers("base", 1) == [user.schema.context_id]
    assert kind_of(lambda: log.delete("base")) is RefusalKind.REFERENCE_EXISTS
    assert kind_of(lambda: log.delete("base", 1)) is RefusalKind.REFERENCE_EXISTS
    log.delete("a")
    assert log.delete("base") == [1]
    assert kind_of(lambda: log.register("b", "y", references=(reference,))) is (
        RefusalKind.INVALID_SCHEMA
    )


def test_modes(log: Log) -> None:
    log.set_mode(None, Mode.READONLY)
    assert kind_of(lambda: log.register("a", "x")) is RefusalKind.NOT_PERMITTED
    log.set_mode("a", Mode.READWRITE)
    log.register("a", "x")
    log.set_mode(None, Mode.READONLY_OVERRIDE)
    assert log.register("a", "x").version.number == 1
    for write in (
        lambda: log.register("a", "y"),
        lambda: log.delete("a"),
        lambda: log.set_config("a", SubjectConfig(normalize=True)),
    ):
        assert kind_of(write) is RefusalKind.NOT_PERMITTED
    assert log.set_mode(None, None) is Mode.READONLY_OVERRIDE
    assert log.set_mode("a", None) is Mode.READWRITE
    assert kind_of(lambda: log.set_mode("a", None)) is RefusalKind.SUBJECT_NOT_FOUND


def test_importing_keeps_ids_and_versions(log: Log) -> None:
    assert kind_of(lambda: log.register("a", "x", schema_id=7)) is RefusalKind.NOT_PERMITTED
    log.set_mode(None, Mode.IMPORT)
    assert kind_of(lambda: log.register("a", "x")) is RefusalKind.NOT_PERMITTED
    imported = log.register("a", "x", schema_id=7, version=3)
    assert (imported.schema.id, imported.version.number) == (7, 3)
    assert log.register("a", "x", schema_id=7, version=3) == imported
    assert kind_of(lambda: log.register("a", "y", version=4)) is RefusalKind.NOT_PERMITTED
    assert kind_of(lambda: log.register("a", "y", schema_id=7)) is RefusalKind.NOT_PERMITTED
    assert kind_of(lambda: log.register("a", "y", schema_id=8, version=3)) is (
        RefusalKind.NOT_PERMITTED
    )
    assert kind_of(lambda: log.register("a", "y", schema_id=2**31)) is RefusalKind.NOT_PERMITTED
    log.register("b", "x", schema_id=5)
    log.set_mode(None, Mode.READWRITE)
    assert log.register("c", "x").schema.id == 5
    assert log.register("c", "z").schema.id == 8
    assert kind_of(lambda: log.set_mode(None, Mode.IMPORT)) is RefusalKind.NOT_PERMITTED
    assert log.set_mode(None, Mode.IMPORT, is_forced=True) is Mode.IMPORT


def test_importing_the_same_schema_again(log: Log) -> None:
    log.set_mode(None, Mode.IMPORT)
    log.register("a", "x", schema_id=7, version=1)
    assert log.register("a", "x", schema_id=7, version=2).version.number == 2
    assert log.register("a", "x", schema_id=7, version=1).version.number == 1
    assert log.register("a", "x", schema_id=9, version=3).schema.id == 9
    versions = log.machine.catalogue.versions("a", deleted=True)
    assert [(v.number, v.schema_id) for v in versions] == [(1, 7), (2, 7), (3, 9)]


def test_importing_over_what_was_deleted(log: Log) -> None:
    log.register("a", "x")
    log.delete("a")
    log.set_mode(None, Mode.IMPORT)
    assert log.register("a", "y", schema_id=4, version=1).schema.id == 4
    assert sorted(log.machine.catalogue.schemas) == [(".", 4)]
    log.delete("a")
    tagged = SchemaIdentity("AVRO", "print of y", metadata=b'{"properties":{"k":"v"}}')
    request = Register("a", "y", tagged, 1_000, schema_id=4, version=1)
    assert log.run(SchemaMachine.register, request).schema.identity == tagged
    log.delete("a")
    assert kind_of(lambda: log.register("b", "y", schema_id=4)) is RefusalKind.NOT_PERMITTED
    assert kind_of(lambda: log.register("a", "z", schema_id=4)) is RefusalKind.NOT_PERMITTED


def test_a_version_may_be_said_beforehand(log: Log) -> None:
    assert log.register("a", "x", version=1).version.number == 1
    assert kind_of(lambda: log.register("a", "y", version=3)) is RefusalKind.INVALID_SCHEMA
    assert log.register("a", "y", version=2).version.number == 2


def test_an_imported_twin_is_still_found_by_guid(log: Log) -> None:
    log.set_mode(None, Mode.IMPORT)
    kept = log.register("a", "x", schema_id=7).schema
    log.register("b", "x", schema_id=5)
    log.delete("b")
    log.delete("b", permanent=True)
    assert log.machine.catalogue.ids_of_guid(kept.guid) == [kept.context_id]


def test_config_is_merged_and_falls_back(log: Log) -> None:
    catalogue = log.machine.catalogue
    assert catalogue.compatibility_of("a") is CompatibilityLevel.BACKWARD
    log.set_config(None, SubjectConfig(compatibility=CompatibilityLevel.FULL, normalize=True))
    log.set_config("a", SubjectConfig(alias="b"))
    log.set_config("a", SubjectConfig(normalize=False))
    assert catalogue.compatibility_of("a") is CompatibilityLevel.FULL
    assert not catalogue.normalizes("a")
    assert catalogue.normalizes("c")
    assert catalogue.resolve_alias("a") == "b"
    assert log.set_config("a", None) == SubjectConfig(alias="b", normalize=False)
    assert kind_of(lambda: log.set_config("a", None)) is RefusalKind.SUBJECT_NOT_FOUND
    clear = SetConfig(None, SubjectConfig(alias="c"), frozenset({"normalize"}))
    assert log.run(SchemaMachine.set_config, clear) == SubjectConfig(
        compatibility=CompatibilityLevel.FULL, alias="c"
    )
    assert log.set_config(None, None).compatibility is CompatibilityLevel.FULL
    assert log.set_config(None, None) == SubjectConfig()


def contents(catalogue: Catalogue) -> tuple[object, ...]:
    names = sorted(catalogue.subjects(deleted=True))
    versions = [v for name in names for v in catalogue.versions(name, deleted=True)]
    return (
        catalogue.schemas,
        {each: catalogue.highest_id(each) for each in catalogue.contexts()},
        versions,
        catalogue.configs,
        catalogue.modes,
        {i: catalogue.uses(i, deleted=True) for i in catalogue.schemas},
        [catalogue.referrers(v.subject, v.number) for v in versions],
        {s.guid: catalogue.ids_of_guid(s.guid) for s in catalogue.schemas.values()},
    )


subjects = st.sampled_from(["a", "b", ":.ctx:a", ":.ctx:b", ":.other:a", ":.third:a"])
scopes = st.none() | subjects | st.sampled_from([":.ctx:", ":.other:", ":.__GLOBAL:"])
numbers = st.integers(1, 4)
commands = st.one_of(
    st.tuples(st.just("register"), subjects, st.sampled_from("xyz")),
    st.tuples(st.just("refer"), subjects, subjects, numbers),
    st.tuples(st.just("import"), subjects, st.sampled_from("xyz"), numbers),
    st.tuples(st.just("delete"), subjects, st.none() | numbers, st.booleans()),
    st.tuples(st.just("drop"), st.sampled_from([".", ".ctx", ".other", ".third"])),
    st.tuples(st.just("mode"), scopes, st.none() | st.sampled_from(Mode)),
    st.tuples(st.just("config"), scopes, st.booleans()),
)


def carry_out(log: Log, command: tuple[Any, ...]) -> None:
    match command:
        case "register", subject, text:
            log.register(subject, text)
        case "refer", subject, used, number:
            reference = Reference("Base", used, number)
            log.register(subject, f"uses {used} {number}", references=(reference,))
        case "import", subject, text, number:
            log.register(subject, text, schema_id=number, version=number)
        case "delete", subject, number, permanent:
            log.delete(subject, number, permanent=permanent)
        case "drop", context:
            log.run(SchemaMachine.delete_context, DeleteContext(context))
        case "mode", scope, mode:
            log.set_mode(scope, mode, is_forced=True)
        case "config", scope, removes:
            log.set_config(scope, None if removes else SubjectConfig(normalize=True))


@settings(max_examples=150, deadline=None)
@given(script=st.lists(commands, max_size=30))
def test_the_log_tells_it_all_again(script: list[tuple[Any, ...]]) -> None:
    log = Log()
    given_ids: dict[ContextId, SchemaIdentity] = {}
    for command in script:
        with contextlib.suppress(RegistryRefusal):
            carry_out(log, command)
        catalogue = log.machine.catalogue
        if command[0] == "drop" and not catalogue.has_context(command[1]):
            # It may be made anew, and then numbers its schemas anew.
            given_ids = {key: kept for key, kept in given_ids.items() if key.context != command[1]}
        for place, schema in catalogue.schemas.items():
            if command[0] != "import":
                assert given_ids.setdefault(place, schema.identity) == schema.identity
            given_ids[place] = schema.identity
        assert len(catalogue.contexts()) <= 3
        assert contents(log.restarted()) == contents(catalogue)
        assert log.restarted().held_bytes.total == catalogue.held_bytes.total
    rebuilt = SchemaMachine(contexts_max=2, size_max_bytes=SIZE_MAX_BYTES)
    for record in durable_records.of_schemas(log.machine):
        rebuilt.replay(record)
    assert contents(rebuilt.catalogue) == contents(log.machine.catalogue)


def test_the_default_context_is_stored_as_it_always_was() -> None:
    """Otherwise a record of an earlier release and its successor would both be live."""
    schema = StoredSchema(7, "x", SchemaIdentity("AVRO", "print"))
    keys = [records.schema_record(schema).key, records.ids_record(".", 7).key]
    assert keys == [msgspec.msgpack.encode(["schema", 7]), msgspec.msgpack.encode(["ids"])]


def test_contexts_are_bounded(log: Log) -> None:
    for name in ("a", ":.one:a", ":.two:a"):
        log.register(name, "x")
    with pytest.raises(RegistryRefusal, match=r"max\.schema\.contexts"):
        log.register(":.three:a", "x")
    assert log.register(":.two:b", "x").schema.id == 1
    log.delete(":.one:a")
    log.delete(":.one:a", permanent=True)
    log.run(SchemaMachine.delete_context, DeleteContext(".one"))
    assert log.register(":.three:a", "x").schema.id == 1
    assert log.restarted().contexts() == [".", ".three", ".two"]


def test_all_that_is_registered_is_bounded_together(log: Log) -> None:
    log.register("small", "x")
    large = "y" * (SIZE_MAX_BYTES // 2)
    log.register("a", large)
    with pytest.raises(
        RegistryRefusal, match=r"schema: .*all\.schemas\.max\.bytes is 100000"
    ) as no:
        log.register("b", f"{large}z")
    assert no.value.kind is RefusalKind.NOT_PERMITTED
    # The same text under another subject takes little; what is known is answered as before.
    assert log.register("b", large).schema.id == log.register("a", large).schema.id
    log.delete("a")
    log.delete("b")
    log.delete("b", permanent=True)
    with pytest.raises(RegistryRefusal, match=r"all\.schemas\.max\.bytes"):
        log.register("b", f"{large}z")
    # Who registers what was deleted softly makes nothing larger.
    log.register("a", large)
    log.delete("a")
    log.delete("a", permanent=True)
    log.register("b", f"{large}z")


def test_versions_and_settings_count_too(log: Log) -> None:
    def versions() -> None:
        for number in range(SIZE_MAX_BYTES // 100):
            log.register(f"subject-{number}", "x")

    def configs() -> None:
        for number in range(SIZE_MAX_BYTES // 100):
            log.set_config(f"subject-{number}", SubjectConfig(normalize=True))

    def modes() -> None:
        for number in range(SIZE_MAX_BYTES // 100):
            log.set_mode(f"subject-{number}", Mode.READWRITE)

    for fill in (versions, configs, modes):
        with pytest.raises(RegistryRefusal, match=r"all\.schemas\.max\.bytes"):
            fill()
    assert log.machine.catalogue.held_bytes.total <= SIZE_MAX_BYTES
    assert log.restarted().held_bytes.total == log.machine.catalogue.held_bytes.total


def test_a_longer_setting_is_held_against_the_bound(log: Log) -> None:
    log.set_config("a", SubjectConfig(compatibility_group="x"))
    with pytest.raises(RegistryRefusal, match=r"config: .*all\.schemas\.max\.bytes"):
        log.set_config("a", SubjectConfig(compatibility_group="x" * SIZE_MAX_BYTES))
    log.set_config("a", None)
    assert log.machine.catalogue.held_bytes.total == 0


def registered_until_refused(log: Log, scope: str, *, is_one_context: bool) -> tuple[int, str]:
    for number in range(SIZE_MAX_BYTES):
        name = f":{scope}:s{number}" if is_one_context else f":{scope}{number}:s"
        try:
            log.register(name, f"{number}" + "x" * (500 if is_one_context else 1))
        except RegistryRefusal as refusal:
            return number, str(refusal)
    raise AssertionError("nothing is bounded")


@pytest.mark.parametrize("is_one_context", [True, False])
def test_a_tenant_leaves_room_for_others(is_one_context: bool) -> None:
    """In bytes of all that is registered, or in contexts."""
    log = Log(contexts_max=60, tenants=("acme", "zeta"))
    many, reason = registered_until_refused(log, ".acme@", is_one_context=is_one_context)
    few, _ = registered_until_refused(log, ".zeta@", is_one_context=is_one_context)
    own, _ = registered_until_refused(log, ".own", is_one_context=is_one_context)
    bound = "max.bytes is 100000" if is_one_context else "max.schema.contexts is 60"
    assert f"{bound}, of which its tenant has its share;" in reason
    everything = many + few + own
    # A sixth is promised to each of the three, and half is for whoever comes first.
    assert 0.6 < many / everything < 0.7
    assert few / everything > 0.15
    assert own / everything > 0.15


def test_without_tenants_everything_is_for_everybody() -> None:
    log = Log(contexts_max=60)
    made, reason = registered_until_refused(log, ".acme@", is_one_context=False)
    assert made == 60
    assert "there are 60, max.schema.contexts is 60; delete" in reason
