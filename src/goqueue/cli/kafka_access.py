"""How commands ask brokers over Kafka's protocol."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import typer

from goqueue.cli.security.connecting import kafka_security

if TYPE_CHECKING:
    from goqueue.client.admin import KafkaAdmin

Result = TypeVar("Result")


def with_admin(bootstrap: str, work: Callable[["KafkaAdmin"], Awaitable[Result]]) -> Result:
    """What `work` finds. Brokers that did not answer are named: what they know is missing."""
    from goqueue.client.admin import KafkaAdmin

    security = kafka_security()

    async def run() -> Result:
        async with KafkaAdmin(bootstrap, security) as admin:
            found = await work(admin)
            for node, reason in sorted(admin.silent.items()):
                typer.echo(f"goqueue: broker {node} is left out: {reason}", err=True)
            return found

    return asyncio.run(run())


def aiokafka_options() -> dict[str, object]:
    """How aiokafka logs in, and by which TLS."""
    from goqueue.client.tls import tls_context

    security = kafka_security()
    context = tls_context(security)
    options: dict[str, object] = {}
    if security.sasl_mechanism is not None:
        options |= {
            "sasl_mechanism": security.sasl_mechanism,
            "sasl_plain_username": security.username,
            "sasl_plain_password": security.password,
        }
    if context is not None:
        options["ssl_context"] = context
    if options:
        way = "SSL" if context is not None else "PLAINTEXT"
        is_named = security.sasl_mechanism is not None
        options["security_protocol"] = f"SASL_{way}" if is_named else way
    return options
