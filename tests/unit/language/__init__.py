"""How playbooks are read, checked, lowered, linted and described."""
