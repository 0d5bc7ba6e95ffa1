"""`mini-vllm serve`: runs an OpenAI-compatible server on the lineup's engine."""

import gc
import logging
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from mini_vllm.config import EngineConfig
from mini_vllm.installation import install_command
from mini_vllm_labs.pictures.terminal.console import fail, friendly, make_console, whose_code
from mini_vllm_labs.pictures.terminal.engine_options import EngineOptions, RunnerOptions, engine_config
from mini_vllm_labs.pictures.terminal.learner_lineup import WHOLE_REFERENCE, lineup_to_run, remark_on_electives
from mini_vllm_labs.pictures.terminal.option_groups import with_option_groups
from mini_vllm_labs.pictures.terminal.options import (
    FakeModel,
    LineupText,
    adapters_of,
    remark_on_phase_6,
    stands_in_for_phase_6,
)
from mini_vllm_labs.pictures.terminal.progress import reported
from mini_vllm_labs.serving.settings import ServerSettings, allow_many_connections

if TYPE_CHECKING:
    from mini_vllm_labs.cli.serving.engine_spec import EngineSpec
    from mini_vllm_labs.serving.server import Server

NEEDED = ("fastapi", "uvicorn", "httptools", "prometheus_client", "httpx")
DEFAULTS = ServerSettings()
ModelArgument = Annotated[
    str | None, typer.Argument(help="A model directory or hub name. Default: the embedded model.", show_default=False)
]


@friendly
@with_option_groups
def serve(
    model: ModelArgument = None,
    lineup: LineupText = None,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 is every network.")] = DEFAULTS.host,
    port: Annotated[int, typer.Option(help="The port to listen on; 0 picks a free one.")] = DEFAULTS.port,
    api_key: Annotated[
        str | None, typer.Option(envvar="VLLM_API_KEY", help="Refuse requests without this key.", show_default=False)
    ] = None,
    served_model_name: Annotated[
        str | None, typer.Option(help="The model's name in requests. Default: MODEL, or mini-vllm.", show_default=False)
    ] = None,
    allowed_host: Annotated[
        list[str], typer.Option(help="Another host name that clients may use; * allows any.", show_default=False)
    ] = [],  # noqa: B006
    lora_modules: Annotated[
        list[str], typer.Option(metavar="NAME=PATH", help="An adapter, by its name in requests. May be repeated.")
    ] = [],  # noqa: B006
    max_num_waiting: Annotated[int, typer.Option(help="Refuse requests while this many wait.")] = 1024,
    request_timeout: Annotated[
        float | None, typer.Option(help="Seconds after which a request is ended. Default: never.", show_default=False)
    ] = None,
    shutdown_timeout: Annotated[
        float, typer.Option(help="Seconds that running requests have when the server ends.")
    ] = DEFAULTS.shutdown_timeout,
    data_parallel_size: Annotated[
        int,
        typer.Option(min=1, help="Number of engines, each in its own process; a router assigns requests by prefix."),
    ] = 1,
    fake_model: FakeModel = False,
    *,
    engine: EngineOptions,
    runner: RunnerOptions,
) -> None:
    """Serve the engine through an OpenAI-compatible API.

    Ctrl-C or SIGTERM lets running requests finish.
    """
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        fail(f"the server needs {', '.join(missing)}. To install what is missing: {install_command('serve')}", 1)
    from mini_vllm_labs.cli.serving.engine_spec import EngineSpec

    adapters = adapters_of(lora_modules)
    server_settings = replace(
        DEFAULTS,
        host=host,
        port=port,
        api_key=api_key,
        allowed_hosts=tuple(allowed_host),
        model_name=served_model_name or model or DEFAULTS.model_name,
        request_timeout=request_timeout,
        adapters=tuple(adapters),
        shutdown_timeout=shutdown_timeout,
    )
    config = replace(engine_config(EngineConfig(), engine, runner), max_num_waiting=max_num_waiting)
    console = make_console()
    team = lineup_to_run(lineup, console, WHOLE_REFERENCE)
    dense = stands_in_for_phase_6(team, model, fake_model=fake_model)
    remarks = [remark_on_phase_6(team, dense=dense), remark_on_electives(team, config)]
    for line in filter(None, [whose_code(team), *remarks]):
        console.print(line, markup=False)
    spec = EngineSpec(config, team, model, dense, adapters)
    if data_parallel_size > 1:
        run_front(server_settings, spec, data_parallel_size)
    else:
        run_server(server_settings, spec)


def run_server(settings: ServerSettings, engine: "EngineSpec") -> None:
    """Serve an engine that runs in a separate process, until a signal ends it."""
    from mini_vllm.engine.async_llm import AsyncLLM
    from mini_vllm_labs.cli.serving.call_watch import watch_calls
    from mini_vllm_labs.serving.server import Server, engine_server

    def open_server() -> Server:
        with reported("Loading torch and the model"):
            llm = AsyncLLM(engine.open, watch_calls)
        return engine_server(llm, settings)

    listen(settings, open_server)


def run_front(settings: ServerSettings, engine: "EngineSpec", size: int) -> None:
    """Serve several engines behind a router until a signal stops them."""
    from mini_vllm_labs.cli.serving.call_watch import watch_calls
    from mini_vllm_labs.serving.router.front import create_front
    from mini_vllm_labs.serving.router.policies import PrefixAware
    from mini_vllm_labs.serving.router.replicas import Replicas
    from mini_vllm_labs.serving.server import Server

    def open_server() -> Server:
        with reported(f"Starting {size} engines"):
            replicas = Replicas(engine.open, settings, size, watch_calls)
        return Server(create_front(replicas, PrefixAware()), replicas, settings)

    listen(settings, open_server)


def listen(settings: ServerSettings, open_server: Callable[[], "Server"]) -> None:
    """Serve until a signal is received. The port is bound first, because opening the engine is slow."""
    from mini_vllm_labs.serving.server import address_of, bound_socket

    allow_many_connections()
    listener = bound_socket(settings)
    server = open_server()
    show_statistics()
    address = address_of(listener)
    places = f"OpenAI's API: {address}/v1; the page: {address}/"
    typer.echo(f"Serving {settings.model_name} at {address} ({places}). Ctrl-C ends it.")
    gc.freeze()  # everything loaded so far stays in memory, so the garbage collector need not traverse it again
    server.run([listener])


def show_statistics() -> None:
    """Print the log line that appears every ten seconds, as in vLLM."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(asctime)s %(message)s", "%m-%d %H:%M:%S"))
    logger = logging.getLogger("mini_vllm.engine.metrics")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
