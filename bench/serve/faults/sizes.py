"""How much of everything: the whole run, and a trial run of seconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of requests and connections, bytes, and the minutes of steady load."""

    streams: int = 1_000
    slow_readers: int = 10
    slow_tokens: int = 400
    short_requests: int = 10_000
    malformed_rounds: int = 20
    body_bytes: int = 100 * 2**20
    half_open: int = 1_000
    failing_requests: int = 200
    last_streams: int = 64
    minutes: float = 1.0
    waits_for_deadlines: bool = True
    """Whether half-open connections are left to the server's own deadlines, or given up by the client."""


QUICK = Sizes(
    streams=60,
    slow_readers=3,
    slow_tokens=150,
    short_requests=100,
    malformed_rounds=1,
    body_bytes=8 * 2**20,
    half_open=30,
    failing_requests=40,
    last_streams=8,
    minutes=0.03,
    waits_for_deadlines=False,
)
