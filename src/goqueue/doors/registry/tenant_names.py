"""Subjects of a tenant in answers: its own names, whatever they are behind the door."""

from typing import Any

import msgspec

from goqueue.doors.registry.answers import LongList, ReferenceAnswer, SchemaAnswer, VersionAnswer
from goqueue.doors.registry.compatibility import CompatibilityAnswer
from goqueue.doors.registry.settings import ConfigAnswer, ConfigBody
from goqueue.model.schemas.tenant_subjects import local_subject, local_words

_replaced = msgspec.structs.replace


def local_answer(tenant: str, answer: Any) -> Any:
    """Texts of schemas are not looked into: they are the tenant's own."""
    if isinstance(answer, LongList):
        return LongList(local_answer(tenant, each) for each in answer.items)
    if isinstance(answer, list):
        return [local_answer(tenant, each) for each in answer]
    if isinstance(answer, str):
        return local_subject(tenant, answer)
    if isinstance(answer, VersionAnswer | ReferenceAnswer):
        return _replaced(answer, subject=local_subject(tenant, answer.subject))
    if isinstance(answer, SchemaAnswer):
        subject = None if answer.subject is None else local_subject(tenant, answer.subject)
        references = local_answer(tenant, answer.references)
        return _replaced(answer, subject=subject, references=references)
    if isinstance(answer, ConfigAnswer | ConfigBody) and isinstance(answer.alias, str):
        return _replaced(answer, alias=local_subject(tenant, answer.alias))
    if isinstance(answer, CompatibilityAnswer) and answer.messages:
        said = [local_words(tenant, each) for each in answer.messages]
        return _replaced(answer, messages=said)
    return answer
