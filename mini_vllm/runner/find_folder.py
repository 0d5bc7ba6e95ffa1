"""Finds a model's folder by its path or hub name. Imports neither torch nor transformers."""

from functools import partial
from os.path import expanduser
from pathlib import Path

FILES = ("*.json", "*.jinja", "*.model", "*.txt", "*.safetensors")
PICKLED = ("pytorch_model*.bin", "pytorch_model.bin.index.json")
NOT_NEEDED = ("*/*", "consolidated*")


def find_folder(name: str, *, download: bool = True) -> Path:
    """Return a model's folder; download it if `name` is a hub name. Raises `ValueError` if the model is not found."""
    path = Path(expanduser(name))  # unlike `Path.expanduser`, it leaves other names with a tilde as they are
    try:
        if path.exists():
            return path
        from huggingface_hub import snapshot_download  # needed only for hub names

        fetch = partial(snapshot_download, name, ignore_patterns=[*NOT_NEEDED], local_files_only=not download)
        found = Path(fetch(allow_patterns=[*FILES]))
        return found if any(found.glob("*.safetensors")) else Path(fetch(allow_patterns=[*PICKLED]))
    except PermissionError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except (OSError, ValueError) as error:  # the name is unknown, or the network is unavailable
        raise ValueError(
            f"no model at {name!r}: it is not a local folder with config.json and weights, and the hub returned "
            "no model. Without a network connection, pass the path to a `save_pretrained` directory, download "
            f"the model once while online (`hf download {name}`), or omit the name to use the embedded model."
        ) from error
