"""Commands as in the tests of the command line."""

from tests.cli.conftest import mini_vllm as mini_vllm
