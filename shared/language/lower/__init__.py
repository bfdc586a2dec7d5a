"""Lowering: checked nodes of any spelling in, parts of the Plan out."""
