"""Opens a model's folder without reading weights, and reports missing or unsupported parts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer, GenerationConfig

from mini_vllm.runner.end_tokens import EndTokens, find_end_tokens
from mini_vllm.runner.filling import fill, plain_names, quiet, require_finite, skeleton
from mini_vllm.runner.model_files import (
    GENERATION,
    StoredTensor,
    one_line,
    read_json,
)
from mini_vllm.runner.model_kinds import SERVES, read_config, tokenizer_files
from mini_vllm.runner.stored_tensors import opened_tensors, stored_tensors

PARTS = {"text_config", "vision_config", "audio_config", "audio_encoder_config", "audio_encoder"}
SIZES = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """The folder of a supported model: its settings, and the location of its tensors.

    `raw` is the content of config.json, without the defaults that transformers adds to `config`.
    """

    path: Path
    raw: dict[str, Any]
    config: Any
    generation_config: Any
    stored: dict[str, StoredTensor]

    def skeleton(self, dtype: str) -> Any:
        """Build the model without parameter values. Raises `ValueError` with the tensors' names unless they fill the
        model exactly."""
        with quiet():
            model = skeleton(self.path, self.config, self.stored, dtype)
        model.generation_config = self.generation_config
        for part in model.modules():  # transformers' warning would read the prompt, which has no data here
            part.warn_if_padding_and_no_attention_mask = lambda *_: None
            if getattr(part, "rope_type", None) == "dynamic":  # compares positions, which have no values here
                part.rope_type = "default"
        return model

    def load(self, dtype: str, *, bar: bool) -> Any:
        """Load the model on the CPU. Raises `ValueError` like `skeleton`, and for weights that are not finite."""
        with quiet(bar=bar):
            names = plain_names(self.path, self.stored, "")
            tensors = {names[name]: tensor for name, tensor in opened_tensors(self.path).items()}
            model = fill(self.path, self.config, tensors, dtype)
        require_finite(self.path, model, dtype)
        model.generation_config = self.generation_config
        return model

    def end_tokens(self, tokenizer: Any = None) -> EndTokens:
        """Return the tokens that end a text. Raises `ValueError` for tokens outside the vocabulary."""
        named = {
            GENERATION: self.generation_config.eos_token_id if (self.path / GENERATION).exists() else None,
            "config.json": self.raw.get("eos_token_id"),  # LlamaConfig would default to 2, which may be any token
            "tokenizer_config.json": getattr(tokenizer, "eos_token_id", None),
        }
        return find_end_tokens(self.path, named, self.config.vocab_size)


def open_folder(path: Path) -> ModelFolder:
    """Read a folder's settings and weight headers. Raises `ValueError` if the model cannot be served.

    This never runs code from the folder and never prompts on the terminal.
    """
    try:
        raw, config = open_config(path)
        return ModelFolder(path, raw, config, _generation_config(path), stored_tensors(path))
    except OSError as error:
        raise ValueError(f"{error.filename or path} cannot be read: {error.strerror}") from None


def open_tokenizer(folder: ModelFolder) -> Any:
    """Return transformers' tokenizer for a folder.

    Raises `ValueError` if the tokenizer is missing or damaged, or needs code from the folder.
    """
    path = folder.path
    there = tokenizer_files(path)
    try:
        with quiet():
            tokenizer: Any = AutoTokenizer.from_pretrained(path, config=folder.config, trust_remote_code=False)
    except Exception as error:  # a damaged file may raise any error
        for file in (file for file in there if file.suffix == ".json"):
            read_json(file)
        raise ValueError(f"the tokenizer in {path} cannot be read: {one_line(error)}") from error
    files = {name for name in getattr(tokenizer, "vocab_files_names", {}).values() if isinstance(name, str)}
    if files and not any((path / name).exists() for name in files):  # transformers would build an empty tokenizer
        raise ValueError(
            f"{path} has no tokenizer that {type(tokenizer).__name__} can read: {', '.join(sorted(files))}"
        )
    return tokenizer


def open_config(path: Path) -> tuple[dict[str, Any], Any]:
    """Return a folder's config.json, both unchanged and as transformers reads it.

    Raises `ValueError` like `open_folder`.
    """
    raw, file = read_config(path), path / "config.json"
    try:
        with quiet():
            config = AutoConfig.from_pretrained(path, trust_remote_code=False)
    except Exception as error:  # a value of the wrong type or an invalid combination of values
        raise ValueError(f"{file}: {one_line(error)}") from error
    if parts := PARTS & config.sub_configs.keys():
        raise ValueError(f"{path} is not a text-only model ({config.model_type}: {min(parts)}); {SERVES}")
    if config.is_encoder_decoder:
        raise ValueError(f"{config.model_type} has an encoder; the engine serves decoder-only models ({file})")
    sizes = {name: value for name in SIZES if (value := getattr(config, name, None)) is not None}
    for name, value in sizes.items():
        if type(value) is not int or value < 1:
            raise ValueError(f"{file}: {name} must be an integer of at least 1, got {value!r}")
    heads, keys = sizes.get("num_attention_heads"), sizes.get("num_key_value_heads")
    if heads and keys and heads % keys:
        raise ValueError(
            f"{file}: num_attention_heads must be a multiple of num_key_value_heads, got {heads} and {keys}"
        )
    hidden, head_dim = sizes.get("hidden_size"), raw.get("head_dim") or getattr(type(config), "head_dim", None)
    if heads and hidden and hidden % heads and not head_dim:
        raise ValueError(f"{file}: hidden_size must be a multiple of num_attention_heads, got {hidden} and {heads}")
    return raw, config


def _generation_config(path: Path) -> Any:
    """Return transformers' generation config from generation_config.json, or from an old config.json."""
    own = path / GENERATION
    if own.exists():
        read_json(own)
    file = own.name if own.exists() else "config.json"
    try:
        with quiet():
            return GenerationConfig.from_pretrained(path, file)
    except Exception as error:
        raise ValueError(f"{path / file}: {one_line(error)}") from error
