"""What the registry says about itself."""

from goqueue import __version__
from goqueue.doors.registry.errors import HttpRefusal
from goqueue.doors.registry.requests import Call


async def root(_call: Call) -> dict[str, str]:
    return {}


async def show_id(call: Call) -> dict[str, object]:
    cluster_id = call.service.schemas.cluster_id
    clusters = {"kafka-cluster": cluster_id, "schema-registry-cluster": "schema-registry"}
    return {"scope": {"path": [], "clusters": clusters}, "id": ""}


async def show_version(_call: Call) -> dict[str, str]:
    return {"version": __version__, "commitId": ""}


async def show_deployment(_call: Call) -> dict[str, list[str]]:
    return {"attributes": []}


async def list_associations(_call: Call) -> list[object]:
    """Clients ask before they fall back to a subject named after the topic."""
    return []


async def refuse_association(_call: Call) -> None:
    raise HttpRefusal(
        422,
        "associations cannot be made here; register schemas under the subject that is named "
        "after the topic, such as orders-value",
    )
