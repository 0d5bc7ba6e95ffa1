"""The engine under a random user: whatever happens, state and words stay right.

Continuous integration only generates (the same examples each time). To hunt and to shrink:
`HYPOTHESIS_PROFILE=dev python -m pytest tests/engine/test_state_machine.py`.
"""

import os

from hypothesis import settings

from tests.engine.machine import EngineMachine

TestEngineMachine = EngineMachine.TestCase
if os.environ.get("HYPOTHESIS_PROFILE", "ci") == "ci":
    TestEngineMachine.settings = settings(max_examples=500, stateful_step_count=40)
else:
    TestEngineMachine.settings = settings(max_examples=500, stateful_step_count=60)
