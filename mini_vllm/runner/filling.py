"""Fills a model's parameters with the tensors in a folder. Missing or unknown tensors raise an error that names
them."""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING
from transformers.utils import logging

from mini_vllm.runner.model_files import DTYPES, KNOWN_NUMBERS, StoredTensor, one_line, some
from mini_vllm.runner.stored_tensors import without_numbers

# Parts of names added by training wrappers: DDP, torch.compile, FSDP, activation checkpointing, PEFT.
WRAPPERS = re.compile(
    r"^(module\.|base_model\.model\.)+|_orig_mod\.|_fsdp_wrapped_module\.|_checkpoint_wrapped_module\."
)

# Constants that old releases of transformers saved: GPT-2's mask value, and a version number.
CONSTANTS = re.compile(r"(^|\.)(masked_bias|version)$")


@contextmanager
def quiet(*, bar: bool = False) -> Iterator[None]:
    """Suppress the output of transformers while it loads a model, except the progress bar if `bar` is True."""
    before, had_bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    if not bar:
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if had_bar:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def plain_names(folder: Path, names: Mapping[str, Any], prefix: str) -> dict[str, str]:
    """Map each tensor's name to that name without wrapper prefixes. Raises `ValueError` if two tensors name the same
    parameter.

    `prefix` is the name of the part below the head, such as `model` in `model.layers`; transformers adds or removes it.
    """
    found = {name: WRAPPERS.sub("", name) for name in names}
    seen: dict[str, str] = {}
    for name, plain in found.items():
        bare = re.sub(rf"^(?:{re.escape(prefix)}\.)+", "", plain) if prefix else plain
        if bare in seen:
            raise ValueError(f"{folder}: the tensors {seen[bare]} and {name} both belong to {bare}")
        seen[bare] = name
    return found


def skeleton(folder: Path, config: Any, stored: Mapping[str, StoredTensor], dtype: str) -> Any:
    """Return the model without parameter values, on the device `meta`.

    Raises `ValueError` like `fill`, or if the model is quantized.
    """
    if small := sorted(name for name, one in stored.items() if one.dtype not in KNOWN_NUMBERS):
        raise _quantized(folder, small, stored)
    kind: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    names = plain_names(folder, stored, kind.base_model_prefix)
    model = fill(folder, config, {names[one]: without_numbers(stored[one]) for one in stored}, dtype, device="meta")
    floats = {name for name, one in model.state_dict().items() if one.is_floating_point()}
    if whole := sorted(name for name, one in stored.items() if one.dtype not in DTYPES and names[name] in floats):
        raise _quantized(folder, whole, stored)
    return model


def fill(folder: Path, config: Any, tensors: Mapping[str, Any], dtype: str, device: str | None = None) -> Any:
    """Build a config's model from these tensors. Raises `ValueError` with the tensors' names unless they fill the model
    exactly.

    The fill is exact under two conditions. Each parameter and persistent buffer has a tensor of its shape, or is tied
    to a parameter that has one. Each tensor is used, unless the model's class lists it as ignored, or it is one of
    `CONSTANTS`.
    """
    kind: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    try:
        model, report = kind.from_pretrained(
            None,
            config=deepcopy(config),
            state_dict=dict(tensors),
            dtype=getattr(torch, dtype),
            device_map=device,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            trust_remote_code=False,
        )
    except Exception as error:  # incompatible settings may raise any error
        if "conversion of the weights" in str(error):  # transformers concatenates the experts' tensors
            raise ValueError(
                f"the weights in {folder} do not match its config.json ({kind.__name__}): in some layer, some "
                "experts have missing tensors or tensors of a different shape. Save the whole model with "
                "`save_pretrained`"
            ) from error
        raise ValueError(
            f"{folder / 'config.json'}: transformers cannot build this {config.model_type}: {one_line(error)}"
        ) from error
    shapes = [f"{name} {list(stored)}, not {list(wanted)}" for name, stored, wanted in report["mismatched_keys"]]
    unknown = [name for name in report["unexpected_keys"] if not CONSTANTS.search(name)]
    faults = {"missing": report["missing_keys"], "unknown": unknown, "of a different shape": shapes}
    if any(faults.values()):
        told = [f"{len(names)} {what} ({some(names)})" for what, names in faults.items() if names]
        raise ValueError(
            f"the weights in {folder} do not match its config.json ({kind.__name__}); tensors: {'; '.join(told)}. "
            "Save the whole model with `save_pretrained`, or correct config.json"
        )
    return model


def ignored_tensors(model: Any, names: Collection[str]) -> list[str]:
    """Return the tensors that the model does not have and that its class lists as ignored."""
    state, prefix = model.state_dict(), f"{model.base_model_prefix}."
    always = (r"rotary_emb\.inv_freq", r"(^|\.)position_ids$", CONSTANTS.pattern)
    patterns = [*(model._keys_to_ignore_on_load_unexpected or ()), *always]
    plain = {name: WRAPPERS.sub("", name) for name in names}
    strange = [name for name, one in plain.items() if not {one, prefix + one, one.removeprefix(prefix)} & state.keys()]
    return [name for name in strange if any(re.search(pattern, name) for pattern in patterns)]


def require_finite(folder: Path, model: Any, dtype: str) -> None:
    """Raise `ValueError` with the names of weights that contain NaN or infinity, if any."""
    broken = [
        name
        for name, weight in model.state_dict().items()
        if weight.is_floating_point() and weight.numel() and not all(bound.isfinite() for bound in weight.aminmax())
    ]
    if broken:
        raise ValueError(
            f"the weights in {folder} contain NaN or infinity in {dtype}: tensors {some(broken)}. Copy or save them "
            "again"
        )


def _quantized(folder: Path, names: list[str], stored: Mapping[str, StoredTensor]) -> ValueError:
    return ValueError(
        f"the weights in {folder} are quantized, which is not supported: {stored[names[0]].dtype} in "
        f"{some(names)}. Open the original model"
    )
