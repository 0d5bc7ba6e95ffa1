"""`mini-vllm bench serve`: HTTP load on our own server and its peers, or on any other endpoint."""

import json
import math
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from mini_vllm.environment import API_KEY
from mini_vllm_labs.bench.backend import BackendSettings
from mini_vllm_labs.bench.case import Case
from mini_vllm_labs.bench.models import EMBEDDED, EMBEDDED_MODEL, RANDOM, model_directory
from mini_vllm_labs.bench.peer_process import chosen_peers
from mini_vllm_labs.bench.serve.server_process import OURS, SERVERS, MeasuredServer, server_command
from mini_vllm_labs.bench.serve.text_requests import DESCRIPTIONS, SHAREGPT
from mini_vllm_labs.cli.bench.measured import run_cases
from mini_vllm_labs.pictures.terminal.console import friendly, make_console
from mini_vllm_labs.pictures.terminal.learner_lineup import WHOLE_REFERENCE, lineup_to_run
from mini_vllm_labs.pictures.terminal.option_groups import with_option_groups
from mini_vllm_labs.pictures.terminal.options import AsJson, LineupText
from mini_vllm_labs.pictures.terminal.progress import ProgressReport

if TYPE_CHECKING:
    from mini_vllm_labs.bench.serve.load import Search, ServeLoad
    from mini_vllm_labs.bench.serve.text_requests import Endpoint

LOAD_PANEL, SEARCH_PANEL, SERVER_PANEL = "What is sent", "What is searched", "Our server and its peers"
KV_CACHE_TOKENS = 32_768
ServerThreads = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Compute threads of every server. Default: its own choice; ours takes one for a small model.",
        show_default=False,
    ),
]
QUICK_LOAD: dict[str, Any] = {"num_requests": 6, "scale": 0.05}
QUICK_SEARCH: dict[str, Any] = {"bound": 5.0, "num_probes": 2, "probe_seconds": 0.5, "min_requests": 4}


def _load(help: str) -> Any:
    return typer.Option(help=help, rich_help_panel=LOAD_PANEL)


def _search(help: str) -> Any:
    return typer.Option(help=help, rich_help_panel=SEARCH_PANEL)


@dataclass(frozen=True)
class EndpointOptions:
    """The endpoint that receives the requests."""

    base_url: Annotated[str | None, typer.Option(help="An OpenAI endpoint. Default: our server and its peers.")] = None
    model: Annotated[
        str,
        typer.Option(help=f"'{EMBEDDED}', '{RANDOM}' or a model directory; with --base-url, the model's name there."),
    ] = EMBEDDED
    api_key: Annotated[str | None, typer.Option(help="Default: OPENAI_API_KEY.", show_default=False)] = None
    chat: Annotated[bool, typer.Option("--chat", help="Use /v1/chat/completions.")] = False
    extra_body: Annotated[str, typer.Option(help="JSON added to every request: '{\"ignore_eos\": true}'.")] = "{}"

    def endpoint(self, base_url: str) -> "Endpoint":
        """Return the endpoint at this address. Raises `ValueError` if `--extra-body` is not a JSON object."""
        from mini_vllm_labs.bench.serve.text_requests import Endpoint

        key = self.api_key or API_KEY.get()
        return Endpoint(base_url, self.model, key, parse_extra_body(self.extra_body), self.chat)


@dataclass(frozen=True)
class LoadOptions:
    """The requests to send."""

    workload: Annotated[str, _load(f"One of {', '.join(DESCRIPTIONS)}.")] = SHAREGPT
    num_prompts: Annotated[int, _load("Number of requests.")] = 100
    request_rate: Annotated[float, _load("Requests per second; inf sends all at once.")] = math.inf
    burstiness: Annotated[float, _load("Gamma shape of the gaps; 1 is Poisson, less makes bursts.")] = 1.0
    scale: Annotated[float, _load("Factor for all lengths.")] = 0.25
    seed: Annotated[int, _load("Seed of lengths, words and arrivals.")] = 0
    max_concurrency: Annotated[int | None, _load("Maximum number of concurrent requests. Default: no limit.")] = None
    goodput: Annotated[list[str] | None, _load("Objectives in ms, such as 'ttft:200 tpot:50'; also e2el.")] = None
    timeout: Annotated[float, _load("Seconds after which a request counts as failed.")] = 600.0

    def load(self) -> "ServeLoad":
        """Return the load. Raises `ValueError` for an invalid `--goodput`."""
        from mini_vllm_labs.bench.serve.load import ServeLoad
        from mini_vllm_labs.bench.serve.report import parse_objective

        given = vars(self).copy()
        objective, num_requests = parse_objective(given.pop("goodput") or []), given.pop("num_prompts")
        return ServeLoad(num_requests=num_requests, objective=objective, **given)


@dataclass(frozen=True)
class SearchOptions:
    """The search for the highest rate."""

    find_rate: Annotated[
        bool | None, _search("Search for the highest rate within the bound. Default: on without --base-url.")
    ] = None
    max_p99_ttft: Annotated[float, _search("The bound, in ms.")] = 1000.0
    probes: Annotated[int, _search("Rates to try.")] = 6
    probe_seconds: Annotated[float, _search("Minimum seconds of a probe, which also has at least 100 requests.")] = 20.0


@friendly
@with_option_groups
def bench_serve(
    *,
    where: EndpointOptions,
    sent: LoadOptions,
    searched: SearchOptions,
    rounds: Annotated[int, typer.Option(min=0, help="Rounds of offline and HTTP in turns; 0 skips them.")] = 5,
    peers: Annotated[
        str, typer.Option(metavar="A,B", help=f"{', '.join(SERVERS[1:])}; 'none'.", rich_help_panel=SERVER_PANEL)
    ] = ",".join(SERVERS[1:]),
    lineup: LineupText = None,
    threads: ServerThreads = None,
    dtype: Annotated[Literal["float32", "bfloat16"], typer.Option(help="Type of weights and KV cache.")] = "float32",
    hostile: Annotated[
        bool, typer.Option("--hostile", help="Measure how one client's costly requests delay another's stream.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A trial run: a handful of short requests.")] = False,
    as_json: AsJson = False,
) -> None:
    """Send requests at their planned times, without waiting for answers.

    Prints the same figures as vLLM's `bench serve`.

    Without --base-url, the command starts our server and its peers one after another. For each server, it finds the
    highest request rate that keeps the time to first token within a bound. The command also measures the overhead that
    HTTP adds to LLM.generate.
    """
    # Imported here to keep `--help` fast.
    from mini_vllm_labs.bench.serve.comparison import ServingPlan, load_cases, server_cases
    from mini_vllm_labs.bench.serve.http_cost import NUM_STREAMS
    from mini_vllm_labs.bench.serve.load import Search

    if hostile:
        bench_hostile(where, lineup, threads, as_json=as_json)
        return
    load = sent.load()
    search = Search(searched.max_p99_ttft / 1e3, searched.probes, searched.probe_seconds)
    if quick:
        load, search, rounds = replace(load, **QUICK_LOAD), Search(**QUICK_SEARCH), min(rounds, 1)
    load.requests(0)  # rejects invalid values before anything starts
    base_url, model = where.base_url, where.model
    wanted = search if (base_url is None if searched.find_rate is None else searched.find_rate) else None
    facts: dict[str, Any] = {"model": model}
    closing: list[str | Table] = []
    team, names, endpoint = None, [model], where.endpoint(base_url) if base_url is not None else None
    if endpoint is None:
        team = lineup_to_run(lineup, make_console(stderr=as_json))
        names = [OURS, *chosen_peers("none" if team.runner == "absent" else peers, SERVERS[1:])]

    def cases(report: ProgressReport) -> Iterator[Case]:
        if endpoint is not None:
            load.warm_up(model, endpoint, report)
            yield from load_cases({model: endpoint}, load, wanted, facts, report)
        else:
            with tempfile.TemporaryDirectory() as folder:
                has_model = team is not None and team.runner != "absent"
                directory = str(model_directory(model, Path(folder))) if has_model else ""
                limits = (KV_CACHE_TOKENS, BackendSettings("").max_num_batched_tokens, NUM_STREAMS, str(team))
                settings = BackendSettings(directory, dtype, threads or 0, *limits)
                yield from server_cases(ServingPlan(settings, load, names, wanted, rounds), facts, report)
        closing.extend(closing_of(facts))

    seconds = expected_seconds(load, wanted, len(names), rounds if endpoint is None else 0)
    run_cases(cases, lineup=team, seconds=seconds, as_json=as_json, closing=closing, facts=facts)


def bench_hostile(where: EndpointOptions, lineup: str | None, threads: int | None, *, as_json: bool) -> None:
    """Run `--hostile` against an endpoint or against our own server."""
    # Imported here to keep `--help` fast.
    from mini_vllm_labs.bench.serve.hostile import MAX_GAP_MS, hostile_case

    team = None if where.base_url else lineup_to_run(lineup, make_console(stderr=as_json), WHOLE_REFERENCE)
    closing: list[str | Table] = []

    def cases(report: ProgressReport) -> Iterator[Case]:
        with ExitStack() as running:
            endpoint = where.endpoint(where.base_url or "http://unused")
            if team is not None:
                directory = str(EMBEDDED_MODEL) if team.runner != "absent" else ""
                settings = BackendSettings(
                    directory,
                    num_threads=threads or 0,
                    kv_cache_tokens=KV_CACHE_TOKENS,
                    max_num_seqs=256,
                    lineup=str(team),
                )
                server = MeasuredServer(server_command(OURS, settings))
                running.callback(server.stop)
                endpoint = server.endpoint
            for case in hostile_case(endpoint, report):
                yield case
                num_over = sum(side.median > MAX_GAP_MS for side in case.sides.values())
                closing.append(f"Aim: no gap over {MAX_GAP_MS:g} ms. Over it: {num_over} of {len(case.sides)}.")

    run_cases(cases, lineup=team, seconds=150, as_json=as_json, closing=closing)


def closing_of(facts: dict[str, Any]) -> Iterator[str]:
    """Yield the reports in vLLM's format, a list of missing servers, and the targets."""
    from mini_vllm_labs.bench.serve.view import as_vllm_prints

    for name, report in facts.pop("reports").items():
        yield as_vllm_prints(name, report)
    for name, reason in facts.get("missing", {}).items():
        yield f"{name} is missing: {reason}"
    for aim in facts.get("aims", []):
        found = "not found" if aim["found"] is None else f"{aim['found']:.3g}"
        yield f"Aim: {aim['text']}. Found: {found}: {'met' if aim['met'] else 'missed'}."


def expected_seconds(load: "ServeLoad", search: "Search | None", num_servers: int, num_rounds: int) -> float:
    """Return roughly how long the benchmark takes with the embedded model; a larger model needs longer for each
    probe."""
    sending = 5.0 if load.request_rate == math.inf else load.num_requests / load.request_rate
    probing = search.num_probes * search.probe_seconds if search is not None else 0.0
    return num_servers * (10 + sending + probing) + (20 * (num_rounds + 1) if num_rounds else 0)


def parse_extra_body(text: str) -> dict[str, Any]:
    """Parse `--extra-body`. Raises `ValueError` if it is not a JSON object."""
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise ValueError(f"--extra-body must be a JSON object, got {text!r}")
    return body
