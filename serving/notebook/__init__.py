"""The learner's engine as a server, for the cells of a notebook: start it, talk to it, see what a request cost."""

from serving.notebook.at_once import Heard
from serving.notebook.bill import bill_of
from serving.notebook.bill_picture import draw_bills
from serving.notebook.lab_server import LabServer
from serving.notebook.metrics_table import compare_metrics

__all__ = ["Heard", "LabServer", "bill_of", "compare_metrics", "draw_bills"]
