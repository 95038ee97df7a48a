"""Errors in OpenAI's shape, whoever raises them.

`ApiError` carries everything an answer needs; framework errors and defects become one here, so
that a client never sees another shape. A defect's own text stays in the log.
"""

import logging
from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from okibi.core.output import Rejection, RejectReason
from okibi.server.engine_client import EngineLost
from okibi.server.prompt.messages import InvalidPrompt

_log = logging.getLogger("okibi.http")


class ApiError(Exception):
    """An error with a client's part and a status.

    Attributes:
        param: The field of the request that is wrong, if one is.
        code: A short name that programs can act on.
        retry_after_s: When trying again makes sense; None if it does not.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str | None = None,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind or _KINDS.get(status, "invalid_request_error")
        self.param = param
        self.code = code
        self.retry_after_s = retry_after_s

    def as_json(self) -> dict[str, object]:
        """OpenAI's error object."""
        error = {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }
        return {"error": error}

    def response(self) -> Response:
        headers = {}
        if self.retry_after_s is not None:
            headers["retry-after"] = str(max(1, round(self.retry_after_s)))
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers["www-authenticate"] = "Bearer"
        if self.status == HTTPStatus.REQUEST_TIMEOUT:
            # What may still come of the request is not worth a connection.
            headers["connection"] = "close"
        return Response(
            msgspec.json.encode(self.as_json()),
            status_code=self.status,
            media_type="application/json",
            headers=headers,
        )


_KINDS = {
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
}


def invalid(message: str, param: str | None, code: str | None = None) -> ApiError:
    """A request that must be changed before it can work."""
    return ApiError(HTTPStatus.BAD_REQUEST, message, param=param, code=code)


def context_overflow(num_tokens: int, max_model_len: int, what: str, field: str) -> ApiError:
    """More tokens than the model can take; `what` says what they are, `field` what to shorten."""
    return invalid(
        f"This model's maximum context length is {max_model_len} tokens. However, {what} "
        f"{num_tokens} tokens. Please reduce the length of the {field} or completion.",
        field,
        "context_length_exceeded",
    )


def unavailable(message: str, code: str, retry_after_s: float | None = None) -> ApiError:
    """The server cannot answer now."""
    return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, message, code=code, retry_after_s=retry_after_s)


def from_rejection(rejection: Rejection) -> ApiError:
    """The answer to a request that the engine refused."""
    match rejection.reason:
        case RejectReason.QUEUE_FULL:
            return ApiError(
                HTTPStatus.TOO_MANY_REQUESTS,
                rejection.message,
                code="queue_full",
                retry_after_s=rejection.retry_after_s,
            )
        case RejectReason.DRAINING:
            return unavailable(rejection.message, "draining", rejection.retry_after_s)
        case RejectReason.CONTEXT_LENGTH_EXCEEDED:
            return invalid(rejection.message, None, "context_length_exceeded")
        case RejectReason.INVALID:
            return invalid(rejection.message, None, "invalid_request")


def as_api_error(error: Exception) -> ApiError:
    """The client's view of any exception."""
    match error:
        case ApiError():
            return error
        case InvalidPrompt():
            return invalid(str(error), error.param)
        case EngineLost():
            return unavailable(f"The engine is not available: {error}.", "engine_unavailable")
        case HTTPException():
            return ApiError(error.status_code, error.detail, code=_http_code(error.status_code))
        case _:
            return ApiError(
                HTTPStatus.INTERNAL_SERVER_ERROR, "The server hit a defect.", code="internal_error"
            )


async def answer_error(_: Request, error: Exception) -> Response:
    """A Starlette exception handler."""
    answer = as_api_error(error)
    if answer.code == "internal_error":
        _log.error("a request failed", exc_info=error)
    return answer.response()


def _http_code(status: int) -> str:
    return HTTPStatus(status).phrase.lower().replace(" ", "_")
