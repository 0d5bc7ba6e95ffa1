"""The engine's settings: a frozen object that is checked when it is created."""

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from mini_vllm.release_rules import SETTINGS, require_known, rules_of

Policy = Literal["fcfs", "priority"]
DraftMethod = Literal["ngram", "draft_model", "eagle", "mtp"]
DraftSampleMethod = Literal["greedy", "probabilistic"]
ConnectorName = Literal["host", "swap", "disk", "prefill"]


def require_at_least(settings: object, minimum: int, *names: str) -> None:
    """Raise `ValueError` unless each of these settings is None or an integer of at least `minimum`."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and (type(value) is not int or value < minimum):
            raise ValueError(f"{name} must be an integer of at least {minimum}, got {value!r}")


@dataclass(frozen=True, slots=True)
class SpeculativeConfig:
    """Settings for drafts, which come from looking up the newest tokens (`ngram`) or from a small model
    (`draft_model`).

    A request gets at most `num_speculative_tokens` drafts per step. `ngram` looks up the last `prompt_lookup_max`
    tokens, and then fewer, down to `prompt_lookup_min`. `model` is the draft model, a directory or hub name; None means
    the small model that comes with the course. `draft_sample_method` applies to requests with a temperature: `greedy`
    leaves every text unchanged; `probabilistic` samples the drafts, so that more are accepted. With `adaptive`, a
    request gets fewer drafts in large batches, and none for a while after rejections (vLLM 0.13.0 lacks this setting).
    Drafting stops while more than `disable_by_batch_size` requests are decoding (None: no limit). The scheduler also
    supports the drafters `eagle` and `mtp`, but no runner implements them.

    `num_speculative_tokens_per_batch_size` has rows (from, to, drafts); the number of requests in a step selects the
    row. With the drafters `eagle` and `mtp`, a block's hash also covers the tokens past its end that the drafter reads.
    With `disable_lookahead_block_hashes`, the last hit block is dropped instead, unless `disable_eagle_block_drop` is
    set. Releases that do not have these three settings reject them.

    Raises `ValueError` naming the setting and the legal range.
    """

    method: DraftMethod = "ngram"
    num_speculative_tokens: int = 4
    model: str | None = None
    draft_sample_method: DraftSampleMethod = "greedy"
    prompt_lookup_min: int = 1
    prompt_lookup_max: int = 3
    adaptive: bool = True
    disable_by_batch_size: int | None = None
    num_speculative_tokens_per_batch_size: tuple[tuple[int, int, int], ...] | None = None
    disable_lookahead_block_hashes: bool | None = None
    disable_eagle_block_drop: bool | None = None

    def __post_init__(self) -> None:
        if self.method not in get_args(DraftMethod):
            raise ValueError(f"method must be one of {', '.join(get_args(DraftMethod))}; got {self.method!r}")
        if self.draft_sample_method not in ("greedy", "probabilistic"):
            raise ValueError(
                f"draft_sample_method must be 'greedy' or 'probabilistic', got {self.draft_sample_method!r}"
            )
        require_at_least(self, 1, "num_speculative_tokens", "prompt_lookup_min", "prompt_lookup_max")
        require_at_least(self, 1, "disable_by_batch_size")
        if self.prompt_lookup_min > self.prompt_lookup_max:
            raise ValueError(
                f"prompt_lookup_min must be at most prompt_lookup_max ({self.prompt_lookup_max}), "
                f"got {self.prompt_lookup_min}"
            )

    @property
    def drafter_has_kv_cache(self) -> bool:
        """Whether the drafter is a model, which stores its own K and V in the same blocks."""
        return self.method != "ngram"

    @property
    def prefill_lookahead(self) -> int:
        """How many tokens past the end of a chunk the drafter reads. Each MTP layer reads one such token."""
        return {"eagle": 1, "mtp": self.num_speculative_tokens}.get(self.method, 0)

    @property
    def draft_slots(self) -> int:
        """How many extra rows each request needs in a step, beyond its tokens, since release 0.28."""
        return int(self.method == "draft_model")

    def num_drafts(self, num_requests: int) -> int:
        """Return a step's drafts per request, from the last row that begins at or below the step's request count."""
        rows = self.num_speculative_tokens_per_batch_size
        if rows is None:
            return self.num_speculative_tokens
        found = [drafts for first, _, drafts in rows if first <= num_requests]
        return min(self.num_speculative_tokens, found[-1]) if found else 0

    @property
    def draws_drafts(self) -> bool:
        """Whether drafts for requests with a temperature are drawn at random."""
        return self.method == "draft_model" and self.draft_sample_method == "probabilistic"


@dataclass(frozen=True, slots=True)
class KVTransferConfig:
    """Settings for storing K and V outside the KV cache, in at most `kv_buffer_size` bytes.

    `host` keeps blocks of ended and preempted requests in the host's memory; `swap` keeps only those of preempted
    requests. `disk` writes blocks to `shared_storage_path`, a folder that several engines can share and a later engine
    can read. `prefill` starts a separate process that computes the prompts and sends their blocks to this engine. A
    request waits at most `prefill_timeout` seconds for its blocks.

    Raises `ValueError` naming the setting and the legal range.
    """

    kv_connector: ConnectorName = "host"
    kv_buffer_size: int = 1 << 30
    shared_storage_path: str | None = None
    prefill_timeout: float = 10.0

    def __post_init__(self) -> None:
        if self.kv_connector not in get_args(ConnectorName):
            raise ValueError(
                f"kv_connector must be one of {', '.join(get_args(ConnectorName))}; got {self.kv_connector!r}"
            )
        require_at_least(self, 1, "kv_buffer_size")
        if not self.prefill_timeout > 0:
            raise ValueError(f"prefill_timeout must be more than 0 seconds, got {self.prefill_timeout!r}")
        if (self.kv_connector == "disk") != (self.shared_storage_path is not None):
            raise ValueError(
                "shared_storage_path must be a folder for kv_connector='disk' and None for any other; got "
                f"{self.shared_storage_path!r} for {self.kv_connector!r}"
            )


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The engine's resources and behaviour; the settings have vLLM's names.

    `max_model_len` (tokens) and `num_gpu_blocks` may be None: the engine then derives them from the model's maximum
    length and the free memory (`kv_cache_memory_bytes`, or a share of the GPU's memory). `num_gpu_blocks` includes
    block 0, the null block, which is never allocated. `enforce_eager` runs without CUDA graphs. `seed` makes sampling
    repeatable for requests without a seed. `speculative_config` needs phase 7, `async_scheduling` needs phase 8, and
    `kv_transfer_config` needs phases 4 and 10 (and also 6, except on the fake model). Phase 11 uses the next three
    settings. `max_loras` limits the number of adapters in one step. `max_num_encoder_input_tokens` limits the image
    embeddings computed in one step, and `encoder_cache_size` those that are stored; set both, or leave both None to
    serve no images. vLLM 0.13.0 lacks `admission_guard`, `prepack_weights` (reorder the linear layers' weights for the
    CPU) and `max_num_waiting` (refuse requests above this queue length; None: no limit). With `quantization="int8"`,
    the weights of all linear layers except the logits layer are rounded when they are loaded, and these layers' inputs
    are rounded for each token (W8A8). This quantisation needs a CPU and a C compiler. The quantised model is faster and
    takes a third of the memory, but its texts may differ from the plain model's.

    `vllm` names the release whose decisions the scheduler reproduces (`release_rules.py`); releases after 0.13.0 need
    phase 14. The last seven settings exist only in releases after 0.13.0, and 0.13.0 rejects them; None means the
    release's own default. For `prefix_cache_retention_interval`, "all" corresponds to vLLM's None.

    Raises `ValueError` naming the setting, its value and the legal range.
    """

    max_num_seqs: int = 64
    max_num_batched_tokens: int = 2048
    long_prefill_token_threshold: int = 0
    max_model_len: int | None = None
    enable_chunked_prefill: bool = True
    enable_prefix_caching: bool = True
    policy: Policy = "fcfs"
    speculative_config: SpeculativeConfig | None = None
    async_scheduling: bool = False
    kv_transfer_config: KVTransferConfig | None = None
    block_size: int = 16
    num_gpu_blocks: int | None = None
    max_num_waiting: int | None = None
    max_loras: int | None = None
    max_num_encoder_input_tokens: int | None = None
    encoder_cache_size: int | None = None
    seed: int | None = None
    gpu_memory_utilization: float = 0.9
    kv_cache_memory_bytes: int | None = None
    dtype: str = "float32"
    quantization: str | None = None
    enforce_eager: bool = False
    prepack_weights: bool = True
    admission_guard: bool = False
    check_invariants: bool = False
    vllm: str = "0.13.0"
    scheduler_reserve_full_isl: bool | None = None
    watermark: float | None = None
    prefill_schedule_interval: int | None = None
    max_num_active_seqs: int | None = None
    max_num_scheduled_tokens: int | None = None
    long_prefill_token_threshold_adaptive: bool | None = None
    prefix_cache_retention_interval: int | Literal["all"] | None = None

    def __post_init__(self) -> None:
        require_at_least(self, 1, "max_num_seqs", "max_num_batched_tokens", "block_size")
        require_at_least(self, 0, "long_prefill_token_threshold")
        require_at_least(self, 2, "max_model_len", "num_gpu_blocks")
        require_at_least(self, 1, "kv_cache_memory_bytes", "max_num_waiting", "max_loras")
        require_at_least(self, 1, "max_num_encoder_input_tokens", "encoder_cache_size")
        if (self.max_num_encoder_input_tokens is None) != (self.encoder_cache_size is None):
            raise ValueError(
                "max_num_encoder_input_tokens and encoder_cache_size must be set together; got "
                f"{self.max_num_encoder_input_tokens} and {self.encoder_cache_size}"
            )
        require_at_least(self, 0, "seed")
        if self.kv_transfer_config is not None and not self.enable_prefix_caching:
            raise ValueError(
                "kv_transfer_config needs enable_prefix_caching=True: stored blocks are looked up by their hashes"
            )
        if not 0 < self.gpu_memory_utilization <= 1:
            raise ValueError(
                f"gpu_memory_utilization must be greater than 0 and at most 1, got {self.gpu_memory_utilization}"
            )
        if self.policy not in ("fcfs", "priority"):
            raise ValueError(f"policy must be 'fcfs' or 'priority', got {self.policy!r}")
        if self.dtype not in ("float32", "bfloat16"):
            raise ValueError(f"dtype must be 'float32' or 'bfloat16', got {self.dtype!r}")
        if self.quantization not in (None, "int8"):
            raise ValueError(f"quantization must be 'int8' or None, got {self.quantization!r}")
        if self.quantization and not self.prepack_weights:
            raise ValueError("quantization='int8' needs prepack_weights=True: rounded weights are always packed")
        if not self.enable_chunked_prefill:
            self.require_whole_prompts_fit("enable_chunked_prefill is False")
        self._require_release()

    def _require_release(self) -> None:
        rules = rules_of(self.vllm)
        for settings in (self, self.speculative_config):
            require_known(self.vllm, settings)
        require_at_least(self, 1, "prefill_schedule_interval", "max_num_active_seqs", "max_num_scheduled_tokens")
        if not 0 <= (self.watermark or 0) < 1:
            raise ValueError(f"watermark must be at least 0 and less than 1, got {self.watermark!r}")
        if self.prefix_cache_retention_interval != "all":
            require_at_least(self, 0, "prefix_cache_retention_interval")
        limit = self.max_model_len
        if rules.threshold_spares_lone_request and limit is not None and self.long_prefill_token_threshold > limit:
            raise ValueError(
                f"long_prefill_token_threshold must be at most max_model_len ({limit}) in vLLM {self.vllm}, "
                f"got {self.long_prefill_token_threshold}"
            )

    def setting(self, name: str) -> Any:
        """Return one of `SETTINGS`: the configured value, or the release's default."""
        value = getattr(self, name)
        return SETTINGS[name].default if value is None else value

    def require_whole_prompts_fit(self, why: str) -> None:
        """Raise `ValueError` if an unchunked prompt could exceed a step's token budget."""
        if self.max_model_len is not None and self.max_num_batched_tokens < self.max_model_len:
            raise ValueError(
                f"max_num_batched_tokens must be at least max_model_len ({self.max_model_len}) because "
                f"{why}: a longer prompt would wait forever; got {self.max_num_batched_tokens}"
            )

    @property
    def sizes(self) -> tuple[int, int]:
        """The pair `max_model_len` and `num_gpu_blocks`. Raises `ValueError` if either is None."""
        if self.max_model_len is None or self.num_gpu_blocks is None:
            raise ValueError("max_model_len and num_gpu_blocks must be set before a scheduler is built")
        return self.max_model_len, self.num_gpu_blocks

    def resolved(self, max_model_len: int, num_gpu_blocks: int) -> "EngineConfig":
        """Return a copy in which these values replace settings that are None."""
        return replace(
            self,
            max_model_len=self.max_model_len or max_model_len,
            num_gpu_blocks=self.num_gpu_blocks or num_gpu_blocks,
        )
