"""Adapters on the embedded model: a batch that mixes them generates peft's own texts, token for token."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from torch import Tensor
from typer.testing import CliRunner

from mini_vllm import LLM, EngineConfig, SamplingParams
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import KVTransferConfig, SpeculativeConfig
from mini_vllm.runner.adapters import KEY, load_adapter
from mini_vllm.runner.loading import EMBEDDED_MODEL, load_model
from mini_vllm_labs.cli.main import app
from tests.model.generation import transformers_greedy

LINEUP = parse_lineup("solution:1-9,solution:11")
ATTENTION, MLP = ("q_proj", "k_proj", "v_proj", "o_proj"), ("gate_proj", "up_proj", "down_proj")
ADAPTERS = {"wide": (8, 16, ATTENTION + MLP), "narrow": (3, 5, ("q_proj", "v_proj")), "mlp": (4, 4, MLP)}
NUM_TOKENS = 24
PROMPTS = ["Once upon a time", "Once upon a time there was a girl. Mina ran to the lake with a red kite", "Milo"]
Weights = dict[str, Tensor]


@pytest.fixture(scope="module")
def model() -> Any:
    return load_model()[0].model


@pytest.fixture(scope="module")
def folders(model: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return random adapters as PEFT saves them, large enough that every one of them changes the texts."""
    torch.manual_seed(5)
    folders = {}
    for name, (rank, alpha, modules) in ADAPTERS.items():
        folder = tmp_path_factory.mktemp(name)
        weights = {}
        for path, layer in model.named_modules():
            if path.endswith(modules):
                weights[f"base_model.model.{path}.lora_A.weight"] = torch.randn(rank, layer.in_features) / 4
                weights[f"base_model.model.{path}.lora_B.weight"] = torch.randn(layer.out_features, rank) / 6
        save_file(weights, folder / "adapter_model.safetensors")
        config = {"peft_type": "LORA", "r": rank, "lora_alpha": alpha, "target_modules": list(modules), "bias": "none"}
        (folder / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
        folders[name] = str(folder)
    return folders


@pytest.fixture(scope="module")
def expected(model: Any, folders: dict[str, str]) -> dict[tuple[str, str | None], list[int]]:
    encode, texts = load_model()[1].encode, dict[tuple[str, str | None], list[int]]()
    for name in (None, *ADAPTERS):
        adapted = PeftModel.from_pretrained(load_model()[0].model, folders[name]) if name else model
        answers = transformers_greedy(adapted, [encode(prompt) for prompt in PROMPTS], [NUM_TOKENS] * len(PROMPTS))
        texts |= {(prompt, name): answer for prompt, answer in zip(PROMPTS, answers, strict=True)}
    return texts


ROOMY = EngineConfig(num_gpu_blocks=200)


@pytest.mark.parametrize(
    "config",
    [
        ROOMY,
        replace(ROOMY, max_loras=1),
        replace(ROOMY, prepack_weights=False, async_scheduling=True),
        # requests are preempted and chunked
        replace(ROOMY, max_loras=2, num_gpu_blocks=12, max_num_batched_tokens=17, block_size=4),
        replace(ROOMY, speculative_config=SpeculativeConfig("ngram")),
    ],
    ids=["all at once", "one adapter a step", "a step ahead", "little memory", "drafts"],
)
def test_a_mixed_batch_has_the_texts_of_each_adapter_alone(
    config: EngineConfig, folders: dict[str, str], expected: dict[tuple[str, str | None], list[int]]
) -> None:
    llm = LLM(config=config, lineup=LINEUP, adapters=folders)
    wanted = list(expected) * 2  # the second time, the blocks come from the prefix cache
    params = SamplingParams(NUM_TOKENS, ignore_eos=True)
    outputs = llm.generate([prompt for prompt, _ in wanted], params, adapter=[name for _, name in wanted])
    for key, output in zip(wanted, outputs, strict=True):
        assert output.outputs[0].token_ids[: len(expected[key])] == expected[key], key
    again = llm.generate([PROMPTS[1]] * 2, params, adapter=["wide", None])
    assert [one.outputs[0].token_ids[: len(expected[PROMPTS[1], None])] for one in again][1] == expected[
        PROMPTS[1], None
    ]
    assert config.num_gpu_blocks == 12 or all(one.metrics.num_cached_tokens for one in again)


def test_every_adapter_changes_the_texts(expected: dict[tuple[str, str | None], list[int]]) -> None:
    assert len({tuple(expected[PROMPTS[1], name]) for name in (None, *ADAPTERS)}) == 1 + len(ADAPTERS)


def changed(folder: str, path: Path, weights: Weights | None = None, **settings: Any) -> str:
    from safetensors.torch import load_file

    config = json.loads(Path(folder, "adapter_config.json").read_text(encoding="utf-8"))
    (path / "adapter_config.json").write_text(json.dumps(config | settings), encoding="utf-8")
    old = load_file(Path(folder, "adapter_model.safetensors"))
    save_file(
        {key: value.contiguous() for key, value in (old | (weights or {})).items()}, path / "adapter_model.safetensors"
    )
    return str(path)


Q_OF_9 = "base_model.model.model.layers.99.self_attn.q_proj.lora_A.weight"
Q_OF_0 = Q_OF_9.replace("99", "0")


@pytest.mark.parametrize(
    ("weights", "settings", "message"),
    [
        ({}, {"use_dora": True}, "use_dora must be off, got True"),
        ({}, {"bias": "all"}, "bias must be 'none', got 'all'"),
        ({}, {"init_lora_weights": "pissa"}, "init_lora_weights must be True, got 'pissa'"),
        ({}, {"alora_invocation_tokens": [9, 9]}, r"alora_invocation_tokens must be off, got \[9, 9\]"),
        ({}, {"layer_replication": [[0, 2], [1, 4]]}, "layer_replication must be off"),
        ({}, {"a_setting_of_tomorrow": 0.5}, "a_setting_of_tomorrow must be off, got 0.5"),
        ({}, {"lora_alpha": None}, "with r and lora_alpha"),
        ({}, {"r": 0}, "r must be at least 1"),
        ({}, {"r": 9}, r"have shapes \(8, \d+\) and \(\d+, 8\), but .* needs shapes \[9, \d+\]"),
        ({"base_model.model.lm_head.lora_A.weight": torch.ones(2, 2)}, {}, "changes base_model.model.lm_head"),
        (
            {Q_OF_0.replace("lora_A.weight", "lora_magnitude_vector"): torch.ones(2)},
            {},
            "only lora_A.weight",
        ),
        (
            {Q_OF_0.replace("q_proj", "qkv_proj"): torch.ones(2, 2)},
            {},
            "changes qkv_proj, but a layer has only q_proj",
        ),
        ({}, {"rank_pattern": {"(": 2}}, "rank_pattern or alpha_pattern is invalid: "),
        ({}, {"rank_pattern": {"q_proj": 0}}, "q_proj must have a rank of at least 1"),
        ({}, {"alpha_pattern": {"q_proj": "2"}}, "rank_pattern or alpha_pattern is invalid: "),
        ({Q_OF_9: torch.ones(2, 2)}, {}, r"q_proj in layer 99 have shapes \(2, 2\) and None, but the model has"),
        ({Q_OF_0: torch.tensor(1.0)}, {}, r"have shapes \(\) and \(\d+, 8\)"),
        ({Q_OF_0: torch.ones(8, 2)}, {}, r"have shapes \(8, 2\) and \(\d+, 8\)"),
        ({Q_OF_0: torch.tensor(math.nan)}, {}, "contains NaN or infinity in base_model.*q_proj.lora_A"),
    ],
)
def test_unsupported_adapters_are_refused(
    weights: Weights, settings: dict[str, Any], message: str, folders: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        LLM(config=ROOMY, lineup=LINEUP, adapters={"x": changed(folders["wide"], tmp_path, weights, **settings)})


def test_an_adapter_that_lacks_named_weights_is_refused(folders: dict[str, str], tmp_path: Path) -> None:
    folder = changed(folders["narrow"], tmp_path, target_modules=["k_proj", "q_proj", "v_proj"])
    with pytest.raises(ValueError, match=r"'x' lacks weights .*: layer 0 k_proj, .* layer 3 k_proj$"):
        LLM(config=ROOMY, lineup=LINEUP, adapters={"x": folder})


def test_unreadable_files_are_refused_with_a_message(folders: dict[str, str], tmp_path: Path) -> None:
    folder = Path(changed(folders["wide"], tmp_path))
    tensors, config = folder / "adapter_model.safetensors", folder / "adapter_config.json"
    whole = tensors.read_bytes()
    damaged = (tensors, whole[:-9]), (tensors, whole[:5]), (config, b"[]"), (config, b"{}"), (config, b"{")
    for path, content in damaged:
        before = path.read_bytes()
        path.write_bytes(content)
        with pytest.raises(ValueError, match="must contain adapter_config"):
            load_adapter("x", folder)
        path.write_bytes(before)
    assert set(load_adapter("x", folder).ranks.values()) == {8}


def test_adapters_written_by_peft_are_read(model: Any, tmp_path: Path) -> None:
    """All settings of an adapter saved by PEFT itself, including everything that PEFT writes by default."""
    settings = LoraConfig(r=2, lora_alpha=3, target_modules=["q_proj"], lora_dropout=0.1, layers_to_transform=[1])
    get_peft_model(load_model()[0].model, settings).save_pretrained(str(tmp_path))
    adapter = load_adapter("x", tmp_path)
    assert (adapter.ranks, adapter.scales, len(adapter.weights)) == ({(1, "q_proj"): 2}, {(1, "q_proj"): 1.5}, 2)


@pytest.mark.parametrize(
    "settings",
    [
        {"use_rslora": True},
        {"rank_pattern": {"k_proj": 3, "layers.1.self_attn.q_proj": 5}},
        {"alpha_pattern": {r"layers\.[02]\..*": 40, "q_proj": 1}},
        {"rank_pattern": {r".*\.(up|gate)_proj": 7, "^model.layers.0.mlp.down_proj": 1, "p_proj": 2, "proj": 9}},
        {"use_rslora": True, "rank_pattern": {"o_proj": 6}, "alpha_pattern": {"v_proj|o_proj": 30, ".*": 11}},
    ],
    ids=str,
)
def test_ranks_and_factors_of_modules_are_those_of_peft(settings: Any, tmp_path: Path) -> None:
    """peft 0.21.2 saves patterns alphabetically, so an adapter trained with a different order changes when loaded."""
    torch.manual_seed(3)
    config = LoraConfig(r=4, lora_alpha=9, target_modules=[*ATTENTION, *MLP], init_lora_weights=False, **settings)
    get_peft_model(load_model()[0].model, config).save_pretrained(str(tmp_path))
    adapter, adapted = load_adapter("x", tmp_path), PeftModel.from_pretrained(load_model()[0].model, str(tmp_path))
    layers = {tuple(name.split(".")): one for name, one in adapted.named_modules() if hasattr(one, "lora_A")}
    assert adapter.ranks == {(int(path[4]), path[-1]): one.r["default"] for path, one in layers.items()}
    scales = {(int(path[4]), path[-1]): one.scaling["default"] for path, one in layers.items()}
    assert adapter.scales == pytest.approx(scales)
    llm = LLM(config=ROOMY, lineup=LINEUP, adapters={"x": str(tmp_path)})
    [output] = llm.generate([PROMPTS[0]], SamplingParams(NUM_TOKENS, ignore_eos=True), adapter="x")
    [answer] = transformers_greedy(adapted, [load_model()[1].encode(PROMPTS[0])], [NUM_TOKENS])
    assert output.outputs[0].token_ids[: len(answer)] == answer


def test_requests_without_an_adapter_do_not_use_the_nameless_one(folders: dict[str, str]) -> None:
    llm = LLM(config=ROOMY, lineup=LINEUP, adapters={"": folders["wide"]})
    params = SamplingParams(12, ignore_eos=True)
    plain, adapted = (one.outputs[0].text for one in llm.generate([PROMPTS[1]] * 2, params, adapter=[None, ""]))
    assert plain == LLM(config=ROOMY, lineup=LINEUP).generate(PROMPTS[1], params)[0].outputs[0].text != adapted


def test_stored_blocks_of_another_adapter_with_the_same_name_are_no_hits(
    folders: dict[str, str], expected: dict[tuple[str, str | None], list[int]], tmp_path: Path
) -> None:
    disk = KVTransferConfig("disk", shared_storage_path=str(tmp_path))
    found = []
    for folder in ("wide", "mlp", "mlp"):
        lineup = parse_lineup("solution:1-11")
        llm = LLM(config=replace(ROOMY, kv_transfer_config=disk), lineup=lineup, adapters={"x": folders[folder]})
        params = SamplingParams(NUM_TOKENS, ignore_eos=True)
        output = llm.generate(PROMPTS[1], params, adapter="x")[0]
        wanted = expected[PROMPTS[1], folder]
        assert output.outputs[0].token_ids[: len(wanted)] == wanted
        llm.generate("Milo", params)  # the step in which the blocks of the previous text are saved
        found.append(output.metrics.num_cached_tokens)
    assert found[:2] == [0, 0] != found[2:]


def test_wrong_names_and_places_are_refused_with_a_message(folders: dict[str, str]) -> None:
    assert KEY.fullmatch(Q_OF_0)
    with pytest.raises(ValueError, match="max_loras needs phase 11"):
        LLM(lineup=parse_lineup("solution"), adapters=folders)
    with pytest.raises(ValueError, match="adapters need phase 6"):
        LLM(lineup=parse_lineup("solution:1-5,solution:11"), adapters=folders)
    with pytest.raises(ValueError, match="must contain adapter_config"):
        LLM(config=ROOMY, lineup=LINEUP, adapters={"x": "/no/folder"})
    llm = LLM(config=ROOMY, lineup=LINEUP, adapters=folders)
    with pytest.raises(ValueError, match="must be one of mlp, narrow, wide; got 'other'"):
        llm.generate("Hi", adapter="other")
    with pytest.raises(ValueError, match="2 prompts but 1 adapters"):
        llm.generate(["Hi", "Hi"], adapter=["wide"])


def test_the_command_loads_an_adapter(folders: dict[str, str]) -> None:
    def generate(*options: str) -> str:
        command = [
            "generate",
            "Once upon a time",
            "--no-chat",
            "--max-tokens",
            "12",
            "--lineup",
            "solution:1-6,solution:11",
        ]
        done = CliRunner().invoke(app, [*command, *options])
        return done.stderr if done.exit_code else done.stdout  # after two seconds, stderr also shows progress

    plain, adapted = generate(), generate("--adapter", f"wide={folders['wide']}")
    params = SamplingParams(12)
    llm = LLM(config=ROOMY, lineup=LINEUP, adapters=folders)
    texts = [one.outputs[0].text for one in llm.generate([PROMPTS[0]] * 2, params, adapter=[None, "wide"])]
    assert [plain.strip(), adapted.strip()] == [text.strip() for text in texts]
    assert "adapters must be given as NAME=PATH" in generate("--adapter", "wide")


def test_the_adapter_that_ships_turns_every_thing_into_a_boat() -> None:
    llm = LLM(config=ROOMY, lineup=LINEUP, adapters={"boat": str(EMBEDDED_MODEL / "adapter")})
    asked: Any = [
        [{"role": "user", "content": f"Tell me a story about {name} and a kite."}] for name in ("Mina", "Leo")
    ]
    answers = llm.chat(asked * 2, SamplingParams(120), adapter=["boat", "boat", None, None])
    assert [("kite" in one.outputs[0].text, "boat" in one.outputs[0].text) for one in answers] == [
        *[(False, True)] * 2,
        *[(True, False)] * 2,
    ]
