"""The errors of Redrive, by what the caller should do.

RedriveError
├── RejectedError      the caller's input is wrong; trying again cannot help
├── ConflictError      someone else moved first; reload and decide again
└── UnavailableError   a dependency is down; wait and try again
"""


class RedriveError(Exception):
    """Anything that Redrive reports by raising."""


class RejectedError(RedriveError):
    """The caller's input is wrong; trying again cannot help."""


class ConflictError(RedriveError):
    """Someone else moved first; reload and decide again."""


class UnavailableError(RedriveError):
    """A dependency is down; wait and try again."""
