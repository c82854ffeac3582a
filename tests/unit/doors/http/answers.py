"""What the tests ask of answers."""

from typing import Any

import httpx


def error_code(response: httpx.Response, status: int) -> str:
    """The code of an error answer, which must have exactly the documented form."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body: dict[str, Any] = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message"}
    assert body["error"]["message"]
    return str(body["error"]["code"])


def error_message(response: httpx.Response) -> str:
    return str(response.json()["error"]["message"])
