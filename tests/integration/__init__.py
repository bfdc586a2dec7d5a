"""Parts together with the real servers they stand on."""
