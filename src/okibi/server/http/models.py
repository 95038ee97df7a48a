"""`GET /v1/models` and `GET /v1/models/{id}`: what is served, and how much of it fits."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from okibi.server.http.services import Services


class ModelsEndpoint:
    """The served model under each of its names."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def list(self, _: Request) -> Response:
        models = [self._model(name) for name in self._services.config.model_names]
        return _json({"object": "list", "data": models})

    async def one(self, request: Request) -> Response:
        return _json(self._model(self._services.check_model(request.path_params["model"])))

    def _model(self, name: str) -> dict[str, Any]:
        limits = self._services.engine.limits
        return {
            "id": name,
            "object": "model",
            "created": self._services.started_at_s,
            "owned_by": "okibi",
            "root": self._services.config.model_names[0],
            "parent": None,
            "max_model_len": limits.max_model_len,
            "prefix_match_unit": limits.prefix_match_unit,
        }


def _json(value: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
