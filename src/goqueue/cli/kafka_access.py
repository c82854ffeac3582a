"""How commands ask brokers over Kafka's protocol."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from goqueue.client.admin import KafkaAdmin

Result = TypeVar("Result")


def with_admin(bootstrap: str, work: Callable[["KafkaAdmin"], Awaitable[Result]]) -> Result:
    """What `work` finds. Brokers that did not answer are named: what they know is missing."""
    from goqueue.client.admin import KafkaAdmin

    async def run() -> Result:
        async with KafkaAdmin(bootstrap) as admin:
            found = await work(admin)
            for node, reason in sorted(admin.silent.items()):
                typer.echo(f"goqueue: broker {node} is left out: {reason}", err=True)
            return found

    return asyncio.run(run())
