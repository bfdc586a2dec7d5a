"""The playbook language: YAML text in any of its spellings in, one Plan or a list of diagnostics out."""
