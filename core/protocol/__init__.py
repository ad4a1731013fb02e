"""What an environment is: `Process`, `Env`, `BatchEnv`, `MultiEnv`, and the options of their resets."""
