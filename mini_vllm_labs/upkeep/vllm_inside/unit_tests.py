"""Runs vLLM's unit tests for its scheduler, with both the stock scheduler and the lineup's."""

import json
import os
import subprocess
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.bench.peer_process import VLLM_PYTHON

TESTS = VLLM_PYTHON.parents[1] / "sources" / "vllm-0.13.0"
FILES = ("test_scheduler.py", "test_async_scheduler.py", "test_output.py")
SLOW = ("test_priority_scheduler_random.py",)
"""12 tests of 20,000 steps each, run without our invariants, which check all 10,000 blocks in every step."""
EXPLAINED = Path(__file__).with_name("explained.toml")
SECONDS_PER_TEST = 300
ATTENTION = {"num_hidden_layers": 12, "num_attention_heads": 12, "hidden_size": 768, "vocab_size": 50_272}
MODELS = {
    "facebook/opt-125m": {
        **ATTENTION,
        "architectures": ["OPTForCausalLM"],
        "model_type": "opt",
        "word_embed_proj_dim": 768,
        "ffn_dim": 3072,
        "max_position_embeddings": 2048,
        "activation_function": "relu",
        "torch_dtype": "float16",
        "bos_token_id": 2,
        "eos_token_id": 2,
        "pad_token_id": 1,
    },
}
# The model used by the random tests.
MODELS["Qwen/Qwen2.5-VL-3B-Instruct"] = MODELS["facebook/opt-125m"] | {"max_position_embeddings": 32_768}


def write_hub(folder: Path) -> None:
    """Write stand-ins for the model configurations that the tests name, using neither weights nor a network."""
    for name, config in MODELS.items():
        repository = folder / "hub" / f"models--{name.replace('/', '--')}"
        snapshot = repository / "snapshots" / ("0" * 40)
        snapshot.mkdir(parents=True, exist_ok=True)
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / "main").write_text("0" * 40)
        (snapshot / "config.json").write_text(json.dumps(config))
        words = {f"t{number}": number for number in range(2000)}
        model = {"type": "WordLevel", "vocab": words | {"</s>": 2000, "<unk>": 2001}, "unk_token": "<unk>"}
        tokenizer = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model}
        (snapshot / "tokenizer.json").write_text(json.dumps(tokenizer))
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>", "unk_token": "<unk>"}
        (snapshot / "tokenizer_config.json").write_text(json.dumps(settings))


def run(scheduler: str, lineup: str, folder: Path, files: Sequence[str]) -> dict[str, str]:
    """Run test files with the scheduler `stock` or `ours`; return why each test failed, or "" if it passed."""
    write_hub(folder)
    report = folder / f"{scheduler}.xml"
    variables = {
        **os.environ,
        "SCHEDULER": scheduler,
        "LAB_IMPL": lineup,
        "HF_HOME": str(folder),
        "HF_HUB_OFFLINE": "1",
        "PYTHONHASHSEED": "0",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # the borrowed packages have plugins that take five seconds to import
        "VLLM_LOGGING_LEVEL": "ERROR",
        "PYTHONPATH": os.pathsep.join([str(TESTS), str(CHECKOUT)]),
    }
    if files is SLOW:
        variables["LAB_CHECKS"] = "0"
    pytest = [str(VLLM_PYTHON), "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider"]
    (folder / "pytest.ini").write_text("[pytest]\n")  # otherwise, our own file, two folders up, would be used
    pytest += ["-c", str(folder / "pytest.ini"), "--rootdir", str(TESTS)]
    own = [
        "-p",
        "pytest_timeout",
        "-p",
        "mini_vllm_labs.upkeep.vllm_inside.plugin",
        f"--timeout={SECONDS_PER_TEST}",
        f"--junitxml={report}",
    ]
    command = [*pytest, *own, *(f"tests/v1/core/{name}" for name in files)]
    done = subprocess.run(command, cwd=TESTS, env=variables, capture_output=True, text=True, check=False)
    if not report.exists():
        raise RuntimeError(f"vLLM's tests did not run: {(done.stdout + done.stderr).strip()[-500:]}")
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        failure = next((case.find(kind) for kind in ("failure", "error") if case.find(kind) is not None), None)
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        found[name] = "" if failure is None else failure.get("message") or "failed"
    return found


def explanations(files: Sequence[str]) -> dict[str, str]:
    """Return the known reasons for failures in some test files, keyed by a pattern of test names."""
    tables = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))
    known = [(file, rows) for file, rows in tables.items() if f"{file}.py" in files]
    return {f"{file}::{pattern}": reason for file, rows in known for pattern, reason in rows.items()}


def compare(
    stock: Mapping[str, str], ours: Mapping[str, str], reasons: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Return a reason for each failure that does not occur with the stock scheduler, and a list of problems.

    A problem is a failure without a reason, a reason without a failure, or a test that did not run.
    """
    failed = [name for name, problem in stock.items() if not problem and ours.get(name, "missing")]
    explained, used = dict[str, str](), set[str]()
    for name in failed:
        for pattern, reason in reasons.items():
            if fnmatchcase(name, pattern):
                explained[name], used = reason, used | {pattern}
    unexplained = [name for name in failed if name not in explained]
    wrong = [f"{name} fails without a reason: {ours.get(name, 'it did not run')[:300]}" for name in unexplained]
    return explained, [*wrong, *(f"{pattern}: no such test fails any more" for pattern in reasons.keys() - used)]
