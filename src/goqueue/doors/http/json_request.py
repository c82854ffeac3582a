"""Requests as Litestar hands them to handlers, with their body decoded strictly."""

from functools import lru_cache
from typing import Any

import msgspec
from litestar import Request

from goqueue.doors.http.behind_door import behind_door
from goqueue.doors.http.body import decode, read_json
from goqueue.doors.http.errors import Refusal


@lru_cache
def _decoder_for(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


class JsonRequest(Request[Any, Any, Any]):
    """A request whose `data` is decoded strictly into the type its handler names.

    Litestar by itself converts leniently ("3" for 3) and takes any content type.
    """

    _whole_body: bytes | None = None

    async def body(self) -> bytes:
        if self._whole_body is None:
            bodies = behind_door(self.scope).bodies
            self._whole_body = await read_json(bodies, self.scope["headers"], self.receive)
            if not self._whole_body:
                raise Refusal(400, "invalid_request", "the request needs a body of JSON")
        return self._whole_body

    async def json(self) -> Any:
        field = self.route_handler.parsed_data_field
        assert field is not None
        return decode(await self.body(), _decoder_for(field.annotation))
