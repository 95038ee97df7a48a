"""Operators' endpoints: metrics, and dropping the prefix cache."""

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from okibi.server.http.metrics import ServerMetrics
from okibi.server.http.services import Services


class AdminEndpoint:
    """What operators and benchmarks ask of one server."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._metrics = ServerMetrics(
            services.engine, services.latency, services.config.model_names[0]
        )

    async def metrics(self, _: Request) -> Response:
        return Response(self._metrics.exposition(), media_type=CONTENT_TYPE_LATEST)

    async def reset_prefix_cache(self, _: Request) -> Response:
        """Drop every cached block that no request uses. 503 without an engine."""
        self._services.engine.reset_prefix_cache()
        return Response(status_code=200)
