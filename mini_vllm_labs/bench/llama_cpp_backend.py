"""Runs llama.cpp as a backend through its Python bindings, in `.venv-llama-cpp`, which lacks torch and transformers."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mini_vllm_labs.bench.backend import Arrivals, BackendSettings, Load, OnProgress, ServedRound
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

TYPES = {"float32": ("F32", 0), "bfloat16": ("BF16", 30), "int8": ("Q8_0", 8)}  # name and number of the type in GGML


def read_weights(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the tensor names and float32 weights of a safetensors file, because NumPy lacks bfloat16."""
    import numpy

    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    for name, tensor in json.loads(data[8:start]).items():
        if name != "__metadata__":
            raw = data[start + tensor["data_offsets"][0] : start + tensor["data_offsets"][1]]
            is_half = tensor["dtype"] == "BF16"
            numbers = numpy.frombuffer(raw, numpy.uint16).astype(numpy.uint32) << 16 if is_half else raw
            yield name, numpy.frombuffer(numbers, numpy.float32).reshape(tensor["shape"])


def write_gguf(model: Path, path: Path, dtype: str, *, has_tokens: bool = False) -> dict[str, Any]:
    """Convert a transformers Llama to GGUF, with matrices in `dtype` and no tokenizer; return its config.

    `has_tokens` adds a made-up vocabulary, which llama.cpp's server requires: 256 bytes, then numbers. Raises
    `ValueError` for any other model type.
    """
    import gguf

    config: dict[str, Any] = json.loads((model / "config.json").read_text())
    if config["model_type"] != "llama":
        raise ValueError(f"llama.cpp is measured only with models of type llama, not {config['model_type']}")
    layers = config["num_hidden_layers"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(layers)
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("llama" if has_tokens else "none")
    if has_tokens:
        writer.add_token_list([f"<0x{i:02X}>" if i < 256 else f"t{i}" for i in range(config["vocab_size"])])
        writer.add_token_scores([0.0] * config["vocab_size"])
        # the types of the byte tokens, then those of the other tokens
        writer.add_token_types([6 if i < 256 else 1 for i in range(config["vocab_size"])])
        writer.add_add_bos_token(False)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, layers)
    matrices = gguf.GGMLQuantizationType[TYPES[dtype][0]]
    for name, weight in read_weights(model / "model.safetensors"):
        # llama.cpp rotates adjacent pairs, whereas transformers pairs the two halves
        if ".q_proj." in name or ".k_proj." in name:
            halves = weight.reshape(-1, 2, config["head_dim"] // 2, weight.shape[-1])
            weight = halves.swapaxes(1, 2).reshape(weight.shape)
        kind = matrices if weight.ndim > 1 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(names.get_name(name, (".weight",)), gguf.quantize(weight, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return config


@dataclass(slots=True)
class Slot:
    """A running request: the tokens that are still to be computed, and the number already computed."""

    index: int
    waiting: list[int]
    num_computed: int = 0


class LlamaCpp:
    """Schedules slots like llama.cpp's server: one token per generating slot, then prompts up to the budget.

    llama.cpp divides its context among the slots, so each slot gets room for the model's longest request.
    """

    def __init__(self, settings: BackendSettings) -> None:
        import llama_cpp

        self.api, self.num_slots, self.budget = llama_cpp, settings.max_num_seqs, settings.max_num_batched_tokens
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.gguf"
            config = write_gguf(Path(settings.model), path, settings.dtype)
            self.model = self.api.llama_model_load_from_file(str(path).encode(), self.api.llama_model_default_params())
        params = self.api.llama_context_default_params()
        params.n_ctx, params.n_seq_max = self.num_slots * config["max_position_embeddings"], self.num_slots
        params.n_batch = params.n_ubatch = self.budget
        params.n_threads = params.n_threads_batch = settings.num_threads
        params.type_k = params.type_v = TYPES[settings.dtype][1]
        self.context = self.api.llama_init_from_model(self.model, params)
        self.batch = self.api.llama_batch_init(self.budget, 0, 1)
        self.facts: dict[str, Any] = {"precision": TYPES[settings.dtype][0], "version": version("llama-cpp-python")}

    def serve(self, requests: Sequence[TimedRequest], on_progress: OnProgress, load: Load) -> ServedRound:
        """Serve a round; a request starts once it has arrived and a slot is free."""
        api, memory = self.api, self.api.llama_get_memory(self.context)
        sampler = api.llama_sampler_chain_init(api.llama_sampler_chain_default_params())
        if load.temperature:
            api.llama_sampler_chain_add(sampler, api.llama_sampler_init_temp(load.temperature))
            api.llama_sampler_chain_add(sampler, api.llama_sampler_init_dist(1))
        else:
            api.llama_sampler_chain_add(sampler, api.llama_sampler_init_greedy())
        arrivals = Arrivals(requests, load.batch_size, on_progress)
        slots, free = dict[int, Slot](), list(range(self.num_slots))
        while not arrivals.all_finished:
            for index in arrivals.take(len(free)) if free else ():
                slots[heappop(free)] = Slot(index, list(requests[index].prompt_token_ids))
            if not slots:
                arrivals.wait()
                continue
            rows = self._compute(slots)
            new = {seq: api.llama_sampler_sample(sampler, self.context, row) for seq, row in rows.items()}
            for seq, token in new.items():
                slots[seq].waiting = [token]
                if arrivals.note(slots[seq].index, [token]):
                    api.llama_memory_seq_rm(memory, seq, -1, -1)
                    del slots[seq]
                    heappush(free, seq)
        api.llama_sampler_free(sampler)
        return arrivals.served()

    def _compute(self, slots: dict[int, Slot]) -> dict[int, int]:
        """Compute one step; return the row of logits for each slot that has no tokens left to compute."""
        batch, rows = self.batch, dict[int, int]()
        batch.n_tokens = 0
        for seq, slot in sorted(slots.items(), key=lambda one: (len(one[1].waiting), one[0])):
            # Sort by slot, because llama.cpp computes each slot separately if the slots are out of order.
            taken = slot.waiting[: self.budget - batch.n_tokens]
            del slot.waiting[: len(taken)]
            for token in taken:
                row = batch.n_tokens
                batch.token[row], batch.pos[row], batch.n_seq_id[row] = token, slot.num_computed, 1
                batch.seq_id[row][0], batch.logits[row] = seq, False
                slot.num_computed += 1
                batch.n_tokens += 1
            if taken and not slot.waiting:
                batch.logits[batch.n_tokens - 1] = True
                rows[seq] = batch.n_tokens - 1
        if code := self.api.llama_decode(self.context, batch):
            raise RuntimeError(f"llama_decode returned {code}")
        return rows
