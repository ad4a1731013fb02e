"""The requirements on an environment and on its forms, a module per topic."""
