"""A test of the tab's server runs its own loop."""

from tests.own_thread import pytest_pyfunc_call

__all__ = ["pytest_pyfunc_call"]
