"""The store in the memory of one process: the same promises, for simulations and for tests of what stands on it."""
