"""`mini-vllm info --model FOLDER`: what a load finds there, or why it refuses it, without reading a weight."""

from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

from mini_vllm.runner.end_tokens import EndTokens
from mini_vllm.runner.filling import ignored_tensors
from mini_vllm.runner.generation_settings import ignored_settings
from mini_vllm.runner.llama import is_llama
from mini_vllm.runner.loading import LoadedModel, inspect, open_model
from mini_vllm.runner.model_files import some
from mini_vllm.runner.model_folder import TOKENIZER_SETTINGS, TOKENIZERS, ModelFolder
from mini_vllm.runner.model_limits import longest_exact_text

READ = ("config.json", "generation_config.json", "*.index.json", "*.jinja", *TOKENIZERS, *TOKENIZER_SETTINGS)


def report(name: str) -> Iterator[tuple[str, str]]:
    """Yield what is found, as headings and texts. Raises `ValueError` with the words of a load that is refused."""
    folder, tokenizer, ends = open_model(name, download=False)
    yield "model", str(folder.path)
    yield "vocabulary", f"{folder.config.vocab_size:,} tokens, {len(tokenizer):,} in the {_class(tokenizer)}"
    yield "end tokens", _ends(ends, tokenizer)
    yield "chat template", _chat_template(folder, tokenizer)
    model, loaded = inspect(folder)
    longest, why = longest_exact_text(folder.config)
    yield "longest text", f"{longest:,} tokens: {why}"
    yield "weights", _weights(folder, model)
    yield "ignored", _ignored(folder, model)
    if loaded is None:
        yield "type", f"{folder.config.model_type} ({_class(model)})"
        yield "served", "perhaps: the load decides, because this code cannot run without weights"
        return
    yield "type", _type(loaded)
    numbers = 2 * loaded.num_layers * loaded.num_kv_heads * loaded.head_dim
    yield "KV cache", f"{4 * numbers:,} bytes per token in float32, {2 * numbers:,} in bfloat16"
    own, generic = "by the engine's own code", "by transformers' code, over the engine's attention"
    yield "served", f"{own if is_llama(model) else generic}, if the load finds all weights finite and its logits equal"


def _class(thing: Any) -> str:
    return type(thing).__name__


def _ends(ends: EndTokens, tokenizer: Any) -> str:
    names = [repr(tokenizer.convert_ids_to_tokens(token_id)) for token_id in sorted(ends.token_ids)]
    return f"{', '.join(names)}: {ends}" if names else str(ends)


def _chat_template(folder: ModelFolder, tokenizer: Any) -> str:
    if not tokenizer.chat_template:
        return "none: chats are refused, prompts are served (generate --no-chat)"
    return "chat_template.jinja" if (folder.path / "chat_template.jinja").exists() else "tokenizer_config.json"


def _weights(folder: ModelFolder, model: Any) -> str:
    count = sum(weight.numel() for weight in model.parameters())
    files = {one.file for one in folder.stored.values()}
    stored = sum(file.stat().st_size for file in files)
    dtypes = ", ".join(sorted({one.dtype for one in folder.stored.values()}))
    return (
        f"{count / 1e6:,.1f} M; {stored / 1e6:,.1f} MB on disk ({dtypes}, {len(files)} file{'s' * (len(files) > 1)}), "
        f"{count * 4e-6:,.1f} MB in memory in float32, {count * 2e-6:,.1f} in bfloat16"
    )


def _ignored(folder: ModelFolder, model: Any) -> str:
    tensors = ignored_tensors(model, folder.stored)
    read = {*(one.file.name for one in folder.stored.values())}
    names = [one.name + "/" * one.is_dir() for one in folder.path.iterdir() if one.name not in read]
    files = [name for name in names if not any(fnmatch(name, pattern) for pattern in READ)]
    found = [f"{what} {some(names)}" for what, names in {"tensors": tensors, "files": files}.items() if names]
    return "; ".join([*found, *ignored_settings(folder.generation_config)]) or "nothing"


def _type(loaded: LoadedModel) -> str:
    config, windows = loaded.model.config, sorted(set(loaded.groups.windows) - {None}, key=str)
    heads = f"{config.num_attention_heads} heads, {loaded.num_kv_heads} of K and V, of {loaded.head_dim} numbers"
    shown = f"; windows of {windows[0]} tokens" if windows else ""
    return f"{config.model_type} ({_class(loaded.model)}): {loaded.num_layers} layers, {heads}{shown}"
