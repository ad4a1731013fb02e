"""How wrappers work: a change of values, lifted onto one agent, several agents, and batches."""
