"""Provides the installed command `mini-vllm`, which unpacks the course into a folder and runs it there.

Nothing else of the course is installed, so the code that runs always comes from the learner's folder.
"""
