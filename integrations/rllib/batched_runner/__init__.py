"""An env runner for RLlib that collects the steps of all lanes as arrays; see `runner`."""
