"""The mark for tests that need a C compiler."""

import os

import pytest

from mini_vllm.runner.c_library import can_compile

# With `REQUIRE_COMPILER` set, these tests always run, and fail if there is no compiler.
needs_compiler = pytest.mark.skipif(
    not can_compile() and not os.environ.get("REQUIRE_COMPILER"), reason="there is no C compiler (cc, gcc or clang)"
)
