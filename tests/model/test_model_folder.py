"""Every folder is either served with exactly its weights, or rejected with a one-line message; none of its code
runs."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import MixtralConfig, MixtralForCausalLM

from mini_vllm.config import EngineConfig, SpeculativeConfig
from mini_vllm.runner.loading import load_draft_model, load_model
from mini_vllm_labs.bench.models import model_size
from tests.model.folders import BAD, GOOD, NOT_FINITE, SIZES, edit, make_folder, without


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("saved") / "model")


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy of the folder, with code that reports if it is run."""
    copied = Path(shutil.copytree(saved, tmp_path / "model"))
    for name in ("modeling_evil.py", "evil.py"):
        (copied / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    return copied


@pytest.mark.parametrize("name", GOOD)
def test_a_good_folder_is_served_with_exactly_its_weights(folder: Path, name: str, tmp_path: Path) -> None:
    wanted = load_model(str(folder))[0].model.state_dict()
    GOOD[name](folder)
    loaded, tokenizer = load_model(str(folder))
    state = loaded.model.state_dict()
    tied = {"lm_head.weight"} if loaded.model.config.tie_word_embeddings else set()
    assert all(torch.equal(state[one], wanted[one]) for one in wanted.keys() - tied)
    assert tokenizer.eos_token_ids == ({2, 0} if name == "a list of end tokens" else {2})
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", BAD)
def test_a_bad_folder_is_refused_in_one_line(folder: Path, name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked on the terminal"))
    spoil, words = BAD[name]
    spoil(folder)
    with pytest.raises(ValueError, match=words) as refused:
        load_model(str(folder))
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 700
    assert str(folder) in str(refused.value)
    assert not (tmp_path / "ran").exists()


def test_a_draft_model_is_refused_as_a_model_is(folder: Path) -> None:
    BAD["no output layer"][0](folder)
    config = EngineConfig(speculative_config=SpeculativeConfig("draft_model", model=str(folder)))
    with pytest.raises(ValueError, match=r"1 missing \(lm_head.weight\)"):
        load_draft_model(config)


@pytest.mark.parametrize("part", ["w1", "w2"])
def test_an_expert_that_lacks_a_tensor_is_refused(folder: Path, part: str) -> None:
    """transformers 5.23 stacks a layer's experts into one parameter, whose name exists even if an expert is missing."""
    MixtralForCausalLM(MixtralConfig(**SIZES, num_local_experts=3)).save_pretrained(folder)
    load_model(str(folder))
    without(f"layers.1.block_sparse_moe.experts.2.{part}")(folder)
    with pytest.raises(ValueError, match=r"do not match its config.json \(MixtralForCausalLM\)"):
        load_model(str(folder))


def test_a_benchmark_never_asks_whether_to_run_a_folders_code(folder: Path, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked on the terminal"))
    BAD["code of the folder"][0](folder)
    with pytest.raises(ValueError, match="which is never run"):
        model_size(folder)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", NOT_FINITE)
def test_weights_that_are_not_finite_are_refused(folder: Path, name: str) -> None:
    NOT_FINITE[name](folder)
    with pytest.raises(ValueError, match=r"NaN or infinity in float32: tensors (lm_head|model)"):
        load_model(str(folder))


@pytest.mark.parametrize(
    "changes",
    [
        {"rms_norm_eps": float("nan")},
        {"rope_parameters": {"rope_type": "linear", "factor": 0.0, "rope_theta": 1e4}},
    ],
)
def test_numbers_of_the_config_that_make_no_logits_are_named_as_the_reason(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    edit(**changes)(make_folder(tmp_path))
    with pytest.raises(
        ValueError, match=r"NaN or infinite logits from finite weights: check the numbers in config\.json"
    ):
        load_model(str(tmp_path))
