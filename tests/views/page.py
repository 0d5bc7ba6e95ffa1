"""A bare page that runs a widget's front end alone."""

from mini_vllm.browser.bare_page import open_widget

__all__ = ["open_widget"]
