"""Context features of known environments, one module per family; see `envoi.adapters.shared.contexts`."""
