"""`mini-vllm bench`: its commands."""

from mini_vllm_labs.pictures.terminal.lazy_commands import lazy_app

COMMANDS = [
    (
        "throughput",
        "mini_vllm_labs.cli.bench.throughput:bench_throughput",
        "Serve chats and documents on mini-vLLM and its peers.",
    ),
    (
        "prefix",
        "mini_vllm_labs.cli.bench.engine:bench_prefix",
        "Serve many questions about one document, with and without caching.",
    ),
    (
        "chunked",
        "mini_vllm_labs.cli.bench.engine:bench_chunked",
        "Serve long documents beside chats, with and without chunks.",
    ),
    (
        "preemption",
        "mini_vllm_labs.cli.bench.engine:bench_preemption",
        "Serve outputs of unknown length in little memory.",
    ),
    ("speculative", "mini_vllm_labs.cli.bench.engine:bench_speculative", "Answer chats with drafts and without."),
    ("async", "mini_vllm_labs.cli.bench.engine:bench_async", "Generate with a step in flight and without."),
    (
        "sampling",
        "mini_vllm_labs.cli.bench.engine:bench_sampling",
        "Generate greedily, at a temperature, with cuts, under a regex.",
    ),
    (
        "serve",
        "mini_vllm_labs.cli.bench.serve:bench_serve",
        "Send requests at their planned times, whatever comes back.",
    ),
    (
        "router",
        "mini_vllm_labs.cli.bench.router:bench_router",
        "Send the same requests to simulated engines by three routers.",
    ),
    ("gpu", "mini_vllm_labs.cli.bench.gpu:bench_gpu", "Go through a checklist on a GPU."),
    (
        "scheduler",
        "mini_vllm_labs.cli.bench.scheduler:bench_scheduler",
        "Measure the CPU time of scheduling, per request.",
    ),
    (
        "pages",
        "mini_vllm_labs.cli.bench.pages:bench_pages",
        "Measure the delay from a slider or a knob to its picture.",
    ),
]
bench_app = lazy_app(COMMANDS, help="Measure the engine: its speed, its features, its own cost.")
