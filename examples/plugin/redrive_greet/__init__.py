"""A plug-in for Redrive: the tool `greet`."""
