"""The commands of `redrive`, one module each, loaded when they are asked for."""
