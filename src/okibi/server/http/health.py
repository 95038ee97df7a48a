"""Three questions that operators ask, kept apart: does the process live (`/health`), can it take
requests (`/ready`), does work move (`/progress`)?

Answers come from state at hand; none waits for the engine.
"""

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from okibi import __version__
from okibi.server.http.errors import unavailable
from okibi.server.http.lifecycle import RETRY_AFTER_S
from okibi.server.http.services import Services


class HealthEndpoint:
    """Liveness, readiness and progress of one server."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def root(self, _: Request) -> Response:
        return _json({"name": "okibi", "version": __version__})

    async def health(self, _: Request) -> Response:
        return _json({"status": "alive"})

    async def ready(self, _: Request) -> Response:
        """503 while shutting down or without an engine."""
        if self._services.lifecycle.is_draining:
            raise unavailable("The server is shutting down.", "draining", RETRY_AFTER_S)
        if not self._services.engine.is_available:
            raise unavailable("The engine is not available.", "engine_unavailable")
        return _json({"status": "ready"})

    async def progress(self, _: Request) -> Response:
        """503 if work is running and no step has ended for too long."""
        waited_s = self._services.engine.seconds_without_progress()
        if waited_s > self._services.config.progress_timeout_s:
            raise unavailable(f"No step has ended for {waited_s:.1f} s.", "no_progress")
        return _json(
            {
                "status": "moving" if self._services.engine.has_work else "idle",
                "seconds_without_progress": waited_s,
            }
        )


def _json(value: dict[str, object]) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
