"""What Litestar itself refuses, in the same form as everything else."""

from collections.abc import Mapping
from typing import Any, Final

from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.params import QueryParameter

from goqueue.doors.http.errors import answer, answer_to
from goqueue.doors.http.tenant_refusals import local_refusal

_CODE_OF_STATUS: Final[Mapping[int, str]] = {
    400: "invalid_request",
    404: "unknown_path",
    405: "method_not_allowed",
    413: "request_too_large",
    415: "unsupported_media_type",
}


def respond(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Litestar's exception handler."""
    if isinstance(error, HTTPException) and error.status_code < 500:
        code = _CODE_OF_STATUS.get(error.status_code, "invalid_request")
        found = answer(error.status_code, code, _explain(error, request), error.headers or {})
    else:
        found = answer_to(error)
    return Response(
        local_refusal(request.scope, found.body),
        status_code=found.status,
        headers=found.headers,
        media_type="application/json",
    )


def _explain(error: HTTPException, request: Request[Any, Any, Any]) -> str:
    if isinstance(error, ValidationException) and isinstance(error.extra, list):
        return "; ".join(
            f"{_name_of(item.get('key', 'request'), request)}: {item['message']}"
            for item in error.extra
        )
    if error.status_code == 404:
        return "there is no such path; GET /openapi.json lists those there are"
    if error.status_code == 405:
        allowed = (error.headers or {}).get("allow", "")
        return f"this path does not take that method; it takes {allowed}"
    return error.detail


def _name_of(argument: str, request: Request[Any, Any, Any]) -> str:
    """As the client wrote it: Litestar has the name that the handler gave it."""
    field = request.route_handler.parsed_fn_signature.parameters.get(argument)
    definition = None if field is None else field.kwarg_definition
    return (isinstance(definition, QueryParameter) and definition.name) or argument
