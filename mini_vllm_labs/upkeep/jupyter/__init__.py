"""JupyterLab in a headless Chromium: to test what learners meet there, and to take pictures of it."""
