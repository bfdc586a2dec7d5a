"""What the reference pages say about the code, made from the code."""
