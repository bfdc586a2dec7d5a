"""The deployment files, held to be what they say: checked against schemas, and run."""
