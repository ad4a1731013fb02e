"""The protocol of environments: `Process`, `Env`, `BatchEnv`, `MultiEnv`, and the options of their resets."""
