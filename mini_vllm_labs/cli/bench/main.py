"""`mini-vllm bench` and its commands."""

from mini_vllm_labs.pictures.terminal.lazy_commands import lazy_app

COMMANDS = [
    (
        "throughput",
        "throughput:bench_throughput",
        "Serve chats and documents on mini-vLLM and its peers.",
    ),
    (
        "busy",
        "busy:bench_busy",
        "Decode while other processes are busy, with an adaptive and with a fixed number of threads, and with peers.",
    ),
    (
        "int8",
        "int8:bench_int8",
        "Decode with int8 and float32 weights on one thread, and compare their memory use and texts.",
    ),
    (
        "prefix",
        "engine:bench_prefix",
        "Serve many questions about one document, with and without caching.",
    ),
    (
        "chunked",
        "engine:bench_chunked",
        "Serve long documents together with chats, with and without chunks.",
    ),
    (
        "preemption",
        "engine:bench_preemption",
        "Generate outputs of unknown length with little memory.",
    ),
    ("speculative", "engine:bench_speculative", "Generate answers in chats with and without drafts."),
    ("async", "engine:bench_async", "Generate with and without a step in flight."),
    (
        "sampling",
        "engine:bench_sampling",
        "Generate greedily, at a temperature, with top-k and top-p, and under a regex.",
    ),
    (
        "serve",
        "serve:bench_serve",
        "Send requests at their planned times, without waiting for answers.",
    ),
    (
        "router",
        "router:bench_router",
        "Send the same requests to simulated engines through three routers.",
    ),
    ("gpu", "gpu:bench_gpu", "Go through a checklist on a GPU."),
    (
        "scheduler",
        "scheduler:bench_scheduler",
        "Measure the CPU time of scheduling, per request.",
    ),
    ("loop", "loop:bench_loop", "Measure the time from a save to the verdict on a task."),
    (
        "pages",
        "pages:bench_pages",
        "Measure the delay from moving a slider or a knob to the new picture.",
    ),
]
HELP = "Measure the engine: its speed, its features, its own cost."
bench_app = lazy_app("mini_vllm_labs.cli.bench", {"Commands": COMMANDS}, help=HELP)
