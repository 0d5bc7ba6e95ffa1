"""Runs the learner's engine as a server for notebook cells: start it, talk to it, see a request's costs."""

from mini_vllm_labs.notebook.serving.at_once import Heard
from mini_vllm_labs.notebook.serving.bill import bill_of
from mini_vllm_labs.notebook.serving.bill_picture import draw_bills
from mini_vllm_labs.notebook.serving.lab_server import LabServer
from mini_vllm_labs.notebook.serving.metrics_table import compare_metrics

__all__ = ["Heard", "LabServer", "bill_of", "compare_metrics", "draw_bills"]
