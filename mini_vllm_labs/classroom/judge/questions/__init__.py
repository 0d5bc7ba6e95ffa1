"""Random questions to single functions, a module per phase."""
