"""The jail that the judge uses."""

from tests.judge.conftest import jail

__all__ = ["jail"]
