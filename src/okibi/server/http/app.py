"""Every route of the server, and the layers around them.

The one list to read to know what okibi answers. Authentication comes first, then the request id;
errors of any origin end as API errors.
"""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.routing import Route

from okibi.server.engine_client import EngineLost
from okibi.server.http.admin import AdminEndpoint
from okibi.server.http.auth import RequireKey
from okibi.server.http.chat import ChatEndpoint
from okibi.server.http.completions import CompletionEndpoint
from okibi.server.http.disconnect import ClientGone, answer_nobody
from okibi.server.http.errors import ApiError, answer_error
from okibi.server.http.health import HealthEndpoint
from okibi.server.http.models import ModelsEndpoint
from okibi.server.http.request_id import RequestIdHeader
from okibi.server.http.services import Services
from okibi.server.http.tokenize import TokenizeEndpoint
from okibi.server.prompt.messages import InvalidPrompt


def make_app(services: Services) -> Starlette:
    """The ASGI application."""
    middleware = [Middleware(RequestIdHeader)]
    if services.config.api_key is not None:
        middleware.append(Middleware(RequireKey, key=services.config.api_key))
    handled = (ApiError, InvalidPrompt, EngineLost, HTTPException, Exception)
    return Starlette(
        routes=_routes(services),
        middleware=middleware,
        exception_handlers={
            **dict.fromkeys(handled, answer_error),
            **dict.fromkeys((ClientGone, ClientDisconnect), answer_nobody),
        },
    )


def _routes(services: Services) -> list[Route]:
    chat, completions = ChatEndpoint(services), CompletionEndpoint(services)
    models, tokenizer = ModelsEndpoint(services), TokenizeEndpoint(services)
    health, admin = HealthEndpoint(services), AdminEndpoint(services)
    return [
        Route("/v1/chat/completions", chat.post, methods=["POST"]),
        Route("/v1/completions", completions.post, methods=["POST"]),
        Route("/v1/models", models.list, methods=["GET"]),
        Route("/v1/models/{model:path}", models.one, methods=["GET"]),
        Route("/tokenize", tokenizer.tokenize, methods=["POST"]),
        Route("/detokenize", tokenizer.detokenize, methods=["POST"]),
        Route("/health", health.health, methods=["GET"]),
        Route("/ready", health.ready, methods=["GET"]),
        Route("/progress", health.progress, methods=["GET"]),
        Route("/metrics", admin.metrics, methods=["GET"]),
        Route("/reset_prefix_cache", admin.reset_prefix_cache, methods=["POST"]),
        Route("/", health.root, methods=["GET"]),
    ]
