"""The engine under random use: its state and its outputs are correct after every action.

In continuous integration, it only generates examples, and always the same examples. To search for new examples and
shrink them: `HYPOTHESIS_PROFILE=dev python -m pytest tests/engine/test_state_machine.py`.
"""

import os

from hypothesis import settings

from tests.engine.machine import EngineMachine

TestEngineMachine = EngineMachine.TestCase
if os.environ.get("HYPOTHESIS_PROFILE", "ci") == "ci":
    TestEngineMachine.settings = settings(max_examples=500, stateful_step_count=40)
else:
    TestEngineMachine.settings = settings(max_examples=500, stateful_step_count=60)
