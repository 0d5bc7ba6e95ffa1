"""`mini-vllm bench`: its commands."""

from course.terminal.lazy_commands import lazy_app

COMMANDS = [
    ("throughput", "bench.cli.throughput:bench_throughput", "Serve chats and documents on mini-vLLM and its peers."),
    ("prefix", "bench.cli.engine:bench_prefix", "Serve many questions about one document, with and without caching."),
    ("chunked", "bench.cli.engine:bench_chunked", "Serve long documents beside chats, with and without chunks."),
    ("preemption", "bench.cli.engine:bench_preemption", "Serve outputs of unknown length in little memory."),
    ("speculative", "bench.cli.engine:bench_speculative", "Answer chats with drafts and without."),
    ("async", "bench.cli.engine:bench_async", "Generate with a step in flight and without."),
    (
        "sampling",
        "bench.cli.engine:bench_sampling",
        "Generate greedily, at a temperature, with cuts, under a regex.",
    ),
    ("serve", "bench.cli.serve:bench_serve", "Send requests at their planned times, whatever comes back."),
    ("router", "bench.cli.router:bench_router", "Send the same requests to simulated engines by three routers."),
    ("gpu", "bench.cli.gpu:bench_gpu", "Go through a checklist on a GPU."),
    ("scheduler", "bench.cli.scheduler:bench_scheduler", "Measure the CPU time of scheduling, per request."),
    (
        "pages",
        "bench.cli.pages:bench_pages",
        "Measure the delay from a slider or a knob to its picture.",
    ),
]
bench_app = lazy_app(COMMANDS, help="Measure the engine: its speed, its features, its own cost.")
