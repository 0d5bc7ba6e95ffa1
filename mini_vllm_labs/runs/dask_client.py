"""The connection to a Dask cluster, for every command with `--dask`."""

from typing import Any

from mini_vllm.installation import install_command

SECONDS_TO_CONNECT = 10


def dask_client(address: str) -> Any:
    """Return a client for the scheduler at the given address.

    Raises `ValueError` if dask is missing or the scheduler does not respond.
    """
    try:
        from distributed import Client
    except ImportError:
        raise ValueError(f"--dask {address} needs dask: {install_command('dask')}") from None
    try:
        return Client(address, timeout=SECONDS_TO_CONNECT)
    except (OSError, ValueError) as error:
        raise ValueError(f"there is no dask scheduler at {address}: {error}") from None
