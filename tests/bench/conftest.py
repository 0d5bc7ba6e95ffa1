"""The benchmarks are commands: their tests run them as all tests of the command line do."""

from tests.cli.conftest import mini_vllm

__all__ = ["mini_vllm"]
