#!/usr/bin/env bash
# Runs for each submission.
set -euo pipefail
base="${AUTOGRADER:-/autograder}"
cd "$base/source"
exec .venv/bin/python -m mini_vllm_labs.classroom.export.gradescope "$base/submission" "$base/results/results.json"
