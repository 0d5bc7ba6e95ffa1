"""Where requests go, and how one is written."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from bench.serve.text_requests import TextRequest


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI endpoint: `base_url` with or without `/v1`; `extra_body` is added to every request.

    `is_chat` sends the prompt as one user's message to `/v1/chat/completions`. Raises `ValueError` for a URL that is
    not http or https.
    """

    base_url: str
    model: str
    api_key: str | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    is_chat: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"base_url must be http://HOST:PORT or https://HOST:PORT, got {self.base_url!r}")

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.base_url).port or (443 if self.is_encrypted else 80)

    @property
    def is_encrypted(self) -> bool:
        return urlsplit(self.base_url).scheme == "https"

    @property
    def path(self) -> str:
        """The path of completions."""
        return "/v1/chat/completions" if self.is_chat else "/v1/completions"

    def body(self, request: TextRequest) -> dict[str, Any]:
        """Return a request's body: greedy, streamed, with its usage at the end."""
        prompt: dict[str, Any] = {"prompt": request.prompt}
        if self.is_chat:
            prompt = {"messages": [{"role": "user", "content": request.prompt}]}
        return {
            "model": self.model,
            **prompt,
            "max_tokens": request.max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.extra_body,
        }

    def post(self, request: TextRequest) -> bytes:
        """Return the bytes of a request."""
        return self.http("POST", self.path, json.dumps(self.body(request)).encode())

    def http(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Return the bytes of an HTTP request that ends its connection."""
        prefix = urlsplit(self.base_url).path.rstrip("/").removesuffix("/v1")
        headers = [
            f"{method} {prefix}{path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            "Connection: close",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        ]
        if self.api_key is not None:
            headers.append(f"Authorization: Bearer {self.api_key}")
        return "\r\n".join([*headers, "", ""]).encode() + body
