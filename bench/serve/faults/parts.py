"""All parts in order, on two servers: ours, and ours with a runner that fails."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict

from bench.backend import Settings
from bench.serve.endpoint import Endpoint
from bench.serve.engine_config import thread_environment
from bench.serve.faults.bad_bodies import large_bodies, malformed
from bench.serve.faults.failing_runner import failing_runner
from bench.serve.faults.half_open import half_open
from bench.serve.faults.part import Body, Part, run_part
from bench.serve.faults.questions import Questions, answered_questions
from bench.serve.faults.sigterm import sigterm
from bench.serve.faults.site import Site
from bench.serve.faults.sizes import Sizes
from bench.serve.faults.soak import soak
from bench.serve.faults.streams import hang_ups, short_requests, slow_readers
from bench.serve.peers import HOST, IGNORE_EOS, OURS, server_command
from bench.serve.server_process import ServerCommand, ServerProcess, free_port
from serving.settings import allow_many_connections

OnProgress = Callable[[str], object]


def parts_of(sizes: Sizes) -> dict[str, Body]:
    """Return the parts on our server, in order, by what they are."""
    return {
        f"{sizes.streams:,} streams, 30% hang up": hang_ups,
        f"{sizes.slow_readers} slow readers": slow_readers,
        f"{sizes.short_requests:,} short requests": short_requests,
        "malformed requests": malformed,
        f"bodies of {sizes.body_bytes / 2**20:.0f} MiB": large_bodies,
        f"{sizes.half_open:,} half-open connections": half_open,
        f"{sizes.minutes:g} minutes of load": soak,
        "SIGTERM in the middle": sigterm,
    }


def run_parts(settings: Settings, sizes: Sizes, on_progress: OnProgress) -> Iterator[Part]:
    """Yield what each part found. Raises `PeerError` if a server does not start, `ValueError` if it answers wrongly."""
    allow_many_connections()
    on_progress("Answering offline")
    questions = answered_questions(settings, sizes.slow_readers, sizes.slow_tokens)
    yield from parts_on(server_command(OURS, settings), questions, sizes, parts_of(sizes), on_progress)
    faulty = {"a runner that raises every 50 steps": failing_runner}
    yield from parts_on(faulty_command(settings), questions, sizes, faulty, on_progress, may_fail=True)


def parts_on(
    command: ServerCommand,
    questions: Questions,
    sizes: Sizes,
    parts: Mapping[str, Body],
    on_progress: OnProgress,
    *,
    may_fail: bool = False,
) -> Iterator[Part]:
    """Start a server and yield what each part found on it."""
    on_progress(f"{command.name}: starting")
    server = ServerProcess(command)
    try:
        site = Site(server, questions, sizes)
        asyncio.run(site.warm_up(may_fail=may_fail))
        for number, (name, body) in enumerate(parts.items(), start=1):
            on_progress(f"part {number} of {len(parts)}: {name}")
            part = asyncio.run(run_part(name, body, site, ends_server=body is sigterm))
            yield part
            if part.after is None:
                return
    finally:
        server.stop()


def faulty_command(settings: Settings) -> ServerCommand:
    """Return how the server with the failing runner is started."""
    port = free_port()
    arguments = [sys.executable, "-m", "bench.serve.faulty_server", json.dumps(asdict(settings)), str(port)]
    endpoint = Endpoint(f"http://{HOST}:{port}", OURS, extra_body=IGNORE_EOS)
    return ServerCommand("the server with a failing runner", arguments, endpoint, thread_environment(settings))
