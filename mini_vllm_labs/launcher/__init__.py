"""What the package for learners installs: `mini-vllm`, which unpacks the course into a folder and runs it there.

Nothing else of the course is installed, so the code that runs is always that of the learner's folder.
"""
