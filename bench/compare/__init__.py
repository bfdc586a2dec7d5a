"""Redrive beside peers that do the same kind of work: same machine, same servers, one after the other."""
