"""Settings that hold for every test."""

from hypothesis import settings

# No deadline: a busy machine is no failure. `pytest --hypothesis-profile=thorough` searches longer.
settings.register_profile("usual", deadline=None)
settings.register_profile("thorough", deadline=None, max_examples=2000)
settings.load_profile("usual")
