"""What goes into the file, in reading order: modules, and the names in them that are left out."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """One source file. `without` names definitions, or `Class.method`s, that the single file does not need."""

    path: str
    without: tuple[str, ...] = ()


SECTIONS = (
    Section("mini_vllm/sampling_params.py"),
    Section("mini_vllm/outputs.py"),
    Section("mini_vllm/config.py", without=("EngineConfig.require_one_rank",)),
    Section("mini_vllm/core/request.py"),
    Section("mini_vllm/core/block.py"),
    Section("mini_vllm/core/step.py"),
    Section("mini_vllm/core/stopping.py"),
    Section("mini_vllm/core/cdiv.py"),
    Section("mini_vllm/core/request_queue.py"),
    Section("solutions/phase1_scheduler_step.py"),
    Section("solutions/phase2_block_pool.py"),
    Section("solutions/phase3_preemption.py"),
    Section("solutions/phase4_prefix_cache.py"),
    Section("solutions/phase5_chunked_prefill.py"),
    Section("mini_vllm/core/absent.py", without=("SlotReservation", "NoPreemption", "WholePrompts")),
    Section("mini_vllm/core/scheduler.py"),
    Section("mini_vllm/runner/groups.py"),
    Section("mini_vllm/runner/step_buffer.py"),
    Section(
        "mini_vllm/runner/steps.py",
        without=(*("WriteKV", "PagedAttention", "StepsFor"),),
    ),
    Section("solutions/phase6_gpu_runner.py"),
    Section("mini_vllm/runner/attention.py"),
    Section(
        "mini_vllm/runner/contract.py",
        without=(
            *("CONTRACT_NAME", "TEXT_OF_TOKEN", "TOLERANCE", "AttentionShape", "attend_in_one_row"),
            *("check_attention_contract", "_logits_alone_and_in_one_row"),
        ),
    ),
    Section("mini_vllm/runner/model_tokenizer.py"),
    Section(
        "mini_vllm/runner/loading.py",
        without=(
            *("EMBEDDED_MODEL", "EMBEDDED_DRAFT_MODEL", "load_model", "load_draft_model", "_found", "_load_weights"),
            *("describe_model", "require_decoder", "require_full_attention"),
        ),
    ),
    Section("mini_vllm/runner/paged_model.py", without=("ForwardPass",)),
    Section("mini_vllm/runner/logits_processors.py"),
    Section("mini_vllm/runner/token_logprobs.py"),
    Section("mini_vllm/runner/paged_model_runner.py", without=("Verify",)),
    Section("mini_vllm/core/tokenizer.py", without=("ByteTokenizer", "Tokenizer")),
    Section("mini_vllm/engine/detokenizer.py"),
    Section("mini_vllm/engine/output_processor.py"),
    Section("mini_vllm/engine/errors.py", without=("ShuttingDownError", "EngineDeadError")),
    Section("mini_vllm/engine/admission.py"),
    Section("mini_vllm/engine/runner_answer.py"),
    Section("mini_vllm/engine/observers.py", without=("InvariantChecker",)),
    Section("mini_vllm/engine/llm_engine.py", without=("LLMEngine.recorder",)),
    Section("classroom/one_file/main.py"),
)

# The seams of the course, of which the single file has one implementation each. Only annotations use these names.
SEAMS = {
    "RequestQueue": "FCFSRequestQueue | PriorityRequestQueue",
    "KVCacheManager": "PagedKVCacheManager",
    "Preemption": "RecomputePreemption",
    "PrefixCache": "HashPrefixCache | NoPrefixCache",
    "ChunkPolicy": "ChunkedPrefillPolicy",
    "ModelRunner": "PagedModelRunner",
    "TokensAhead": "None",
    "DraftStatistics": "None",
    "Verify": "None",
    "ForwardPass": "PagedModel",
    "Tokenizer": "ModelTokenizer",
    "Clamp": "Callable[[int, int, int], int]",
    "ScheduleStep": "Callable[..., SchedulerOutput]",
    "UpdateFromOutput": "Callable[..., dict[str, list[int]]]",
    "SelectLogitsRows": "Callable[[Sequence[ScheduledRequest]], list[int]]",
    "WriteKV": "Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], None]",
    "PagedAttention": "Callable[[Tensor, Tensor, Tensor, FlatBatch, float], Tensor]",
}
