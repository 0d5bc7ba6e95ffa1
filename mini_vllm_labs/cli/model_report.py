"""`mini-vllm info --model FOLDER` shows what loading would find or why it would fail, without reading weights."""

from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatch

from mini_vllm.runner.find_folder import find_folder
from mini_vllm.runner.generation_settings import ignored_settings
from mini_vllm.runner.model_files import GENERATION, TOKENIZER_SETTINGS, TOKENIZERS, some
from mini_vllm.runner.model_kinds import refuse_by_files, tokenizer_files
from mini_vllm_labs.cli.model_facts import Layers, ModelFacts, ask_transformers
from mini_vllm_labs.cli.plain_llama import read_plain_llama

READ = ("config.json", GENERATION, "*.index.json", "*.jinja", *TOKENIZERS, *TOKENIZER_SETTINGS)


def report(name: str) -> Iterator[tuple[str, str]]:
    """Yield the facts as pairs of heading and text. Raises `ValueError` with the message that loading would give."""
    facts = read_plain_llama(name) or _ask(name)
    yield "model", str(facts.path)
    yield "vocabulary", f"{facts.vocab_size:,} tokens, {facts.num_tokenizer_tokens:,} in the tokenizer"
    yield "end tokens", ", ".join(map(repr, facts.end_names)) + ": " * bool(facts.end_names) + str(facts.end_tokens)
    yield "chat template", _chat_template(facts)
    yield "longest text", f"{facts.longest_text[0]:,} tokens: {facts.longest_text[1]}"
    yield "weights", _weights(facts)
    yield "ignored", _ignored(facts)
    if facts.layers is None:
        yield "type", facts.type_and_class
        yield "KV cache", "unknown before the load"
        yield "served", "perhaps: the load decides, because this code cannot run without weights"
        return
    yield "type", f"{facts.type_and_class}: {_sizes(facts.layers)}"
    numbers = 2 * facts.layers.num_layers * facts.layers.num_kv_heads * facts.layers.head_dim
    yield "KV cache", f"{4 * numbers:,} bytes per token in float32, {2 * numbers:,} in bfloat16"
    own, generic = "by the engine's own code", "by transformers' code, over the engine's attention"
    yield (
        "served",
        f"{own if facts.is_own_code else generic}, if the load finds all weights finite and its logits equal",
    )


def _ask(name: str) -> ModelFacts:
    """Use transformers, which takes seconds to import, unless the files alone show that the folder is rejected."""
    folder = find_folder(name, download=False)
    with suppress(OSError):  # the file is unreadable; transformers says which one it is
        refuse_by_files(folder)
        tokenizer_files(folder)
    return ask_transformers(name)


def _chat_template(facts: ModelFacts) -> str:
    if not facts.has_chat_template:
        return "none: chats are refused, prompts are served (generate --no-chat)"
    return "chat_template.jinja" if (facts.path / "chat_template.jinja").exists() else "tokenizer_config.json"


def _weights(facts: ModelFacts) -> str:
    files = {one.file for one in facts.stored.values()}
    stored = sum(file.stat().st_size for file in files)
    dtypes = ", ".join(sorted({one.dtype for one in facts.stored.values()}))
    count = facts.num_parameters
    return (
        f"{count / 1e6:,.1f} M; {stored / 1e6:,.1f} MB on disk ({dtypes}, {len(files)} file{'s' * (len(files) > 1)}), "
        f"{count * 4e-6:,.1f} MB in memory in float32, {count * 2e-6:,.1f} in bfloat16"
    )


def _ignored(facts: ModelFacts) -> str:
    read = {one.file.name for one in facts.stored.values()}
    names = [one.name + "/" * one.is_dir() for one in facts.path.iterdir() if one.name not in read]
    files = [name for name in names if not any(fnmatch(name, pattern) for pattern in READ)]
    found = [
        f"{what} {some(names)}" for what, names in {"tensors": facts.ignored_tensors, "files": files}.items() if names
    ]
    return "; ".join([*found, *ignored_settings(facts.generation_config)]) or "nothing"


def _sizes(layers: Layers) -> str:
    windows = f"; windows of {layers.window} tokens" if layers.window else ""
    heads = f"{layers.num_heads} heads, {layers.num_kv_heads} of K and V, of {layers.head_dim} numbers"
    return f"{layers.num_layers} layers, {heads}{windows}"
