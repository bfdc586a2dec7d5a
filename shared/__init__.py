"""What the services have in common: the language and its expressions."""
