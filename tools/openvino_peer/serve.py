"""OpenVINO GenAI as a backend. Runs in `.venv-openvino` and exchanges the lines of `bench.backend`."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

PRECISIONS = {"float32": "f32", "bfloat16": "bf16"}


def take_stdout() -> TextIO:
    """Return the real stdout for our lines alone; what libraries print goes to stderr from now on."""
    ours = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return ours


def export(model: str, folder: str) -> None:
    """Convert a transformers model to OpenVINO's format, weights in float32."""
    tool = Path(sys.executable).with_name("optimum-cli")
    command = [str(tool), "export", "openvino", "--model", model, "--task", "text-generation-with-past"]
    subprocess.run([*command, "--weight-format", "fp32", folder], check=True, stdout=sys.stderr)


def open_pipeline(settings: dict[str, Any], folder: str) -> Any:
    """Load the model: continuous batching, paged attention, a prefix cache, as much KV memory as every backend."""
    import openvino_genai

    scheduler = openvino_genai.SchedulerConfig()
    scheduler.max_num_batched_tokens = settings["max_num_batched_tokens"]
    scheduler.max_num_seqs = settings["max_num_seqs"]
    scheduler.num_kv_blocks = settings["kv_cache_tokens"] // 32 + 1
    scheduler.dynamic_split_fuse = True
    scheduler.enable_prefix_caching = True
    precision = PRECISIONS[settings["dtype"]]
    properties = {
        "INFERENCE_PRECISION_HINT": precision,
        "KV_CACHE_PRECISION": precision,
        "INFERENCE_NUM_THREADS": settings["num_threads"],
    }
    return openvino_genai.ContinuousBatchingPipeline(folder, scheduler, "CPU", properties)


class Server:
    """Serves rounds; request ids continue from one round to the next."""

    def __init__(self, pipeline: Any, out: TextIO) -> None:
        self.pipeline, self.out, self.next_id = pipeline, out, 0

    def serve(self, requests: list[tuple[list[int], int, float]]) -> dict[str, Any]:
        """Serve a round: add the requests that have arrived, run a step, record the new tokens."""
        handles: list[Any] = []
        token_ids: list[list[int]] = [[] for _ in requests]
        token_times: list[list[float]] = [[] for _ in requests]
        num_done, start = 0, time.perf_counter()
        while num_done < len(requests):
            now = time.perf_counter() - start
            while len(handles) < len(requests) and requests[len(handles)][2] <= now:
                handles.append(self.add(*requests[len(handles)][:2]))
            if not self.pipeline.has_non_finished_requests():
                time.sleep(max(0.0, requests[len(handles)][2] - now))
                continue
            self.pipeline.step()
            now = time.perf_counter() - start
            for index, handle in enumerate(handles):
                if len(token_ids[index]) < requests[index][1] and handle.can_read():
                    for output in handle.read().values():
                        token_ids[index] += list(output.generated_ids)
                    token_times[index] += [now] * (len(token_ids[index]) - len(token_times[index]))
                    if len(token_ids[index]) >= requests[index][1]:
                        num_done += 1
                        print(json.dumps({"done": num_done}), file=self.out)
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return {"token_ids": token_ids, "token_times": token_times, "seconds": seconds, "peak_rss_bytes": peak}

    def add(self, prompt: list[int], num_output_tokens: int) -> Any:
        """Add a request: greedy, to its full length."""
        import numpy
        import openvino
        import openvino_genai

        config = openvino_genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = num_output_tokens, True, False
        self.next_id += 1
        return self.pipeline.add_request(
            self.next_id, openvino.Tensor(numpy.array([prompt], dtype=numpy.int64)), config
        )


def main(settings_text: str) -> None:
    """Export, load, and serve rounds until stdin ends."""
    out = take_stdout()
    settings = json.loads(settings_text)
    with tempfile.TemporaryDirectory() as folder:
        export(settings["model"], folder)
        server = Server(open_pipeline(settings, folder), out)
        facts = {"precision": PRECISIONS[settings["dtype"]], "version": version("openvino-genai")}
        print(json.dumps({"ready": facts}), file=out)
        for line in sys.stdin:
            print(json.dumps({"served": server.serve(json.loads(line)["requests"])}), file=out)


if __name__ == "__main__":
    main(sys.argv[1])
