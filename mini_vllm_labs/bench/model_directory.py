"""The directory of a model, found or made without torch in this process: a client must stay light."""

from multiprocessing import get_context
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.bench.peer_process import PeerError

EMBEDDED, RANDOM = "embedded", "random-150m"
EMBEDDED_MODEL = CHECKOUT / "mini_vllm" / "embedded_model"


def model_directory(model: str, folder: Path) -> Path:
    """Return the path of `embedded`, of `random-150m` (made in `folder`), or of a directory with a model.

    Raises `ValueError` if there is none, `PeerError` if it could not be made.
    """
    directory = EMBEDDED_MODEL if model == EMBEDDED else Path(model)
    if model == RANDOM:
        directory = folder / RANDOM
        making = get_context("spawn").Process(target=make_random_model, args=(directory,))
        making.start()
        making.join()
        if making.exitcode != 0:
            raise PeerError(f"{RANDOM} could not be made: exit code {making.exitcode}")
    if not (directory / "config.json").exists():
        raise ValueError(f"--model {model}: there is no config.json in {directory}; or use '{EMBEDDED}' or '{RANDOM}'")
    return directory.resolve()


def make_random_model(directory: Path) -> None:
    """Write the model. Runs in a separate process."""
    from mini_vllm_labs.bench.models import save_random_model

    save_random_model(directory)
