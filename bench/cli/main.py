"""`mini-vllm bench`: the measurements, put together."""

from course.terminal.lazy_commands import LazyCommand, lazy_app

COMMANDS = [
    LazyCommand(
        "throughput",
        "bench.cli.throughput:bench_throughput",
        "Serve many short chats and a few long documents on mini-vLLM, transformers and OpenVINO GenAI.",
    ),
    LazyCommand(
        "prefix",
        "bench.cli.features:bench_prefix",
        "Serve many questions about one document, with and without prefix caching.",
    ),
    LazyCommand(
        "chunked",
        "bench.cli.features:bench_chunked",
        "Serve long documents that arrive while chats decode, with and without chunked prefill.",
    ),
    LazyCommand(
        "preemption",
        "bench.cli.features:bench_preemption",
        "Serve outputs of unknown length in little memory: blocks on demand, or memory reserved in advance.",
    ),
    LazyCommand(
        "speculative",
        "bench.cli.speculative:bench_speculative",
        "Answer chats of the embedded model with drafts and without: by prompt lookup, by a draft model; "
        "batch 1 to 64.",
    ),
    LazyCommand(
        "async",
        "bench.cli.overlap:bench_async",
        "Generate with a step in flight and without: the gap between forward passes, and tokens per second.",
    ),
    LazyCommand(
        "serve",
        "bench.cli.serve:bench_serve",
        "Send requests at their planned times, whatever comes back, and print what vLLM's `bench serve` prints.",
    ),
    LazyCommand(
        "router",
        "bench.cli.router:bench_router",
        "Send the same requests to several simulated engines by three routers: hits, and the longest waits.",
    ),
    LazyCommand(
        "loop",
        "bench.cli.loop:bench_loop",
        "Measure the learner's loop: a new process from its start to its result, on the current files.",
    ),
    LazyCommand(
        "scheduler",
        "bench.cli.scheduler:bench_scheduler",
        "Measure the CPU time of schedule() and update_from_output() per request.",
    ),
]
bench_app = lazy_app(COMMANDS, help="Measure the engine: its speed, its features, its own cost.")
