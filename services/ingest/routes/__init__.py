"""The resources of the REST interface, one module each."""
