"""The bounds every template keeps; all are counts, none is a time, so that a replay meets the same ones."""

from typing import Final

MAX_SOURCE: Final = 256 * 1024
MAX_SYNTAX_DEPTH: Final = 100
MAX_NESTING: Final = 32

FUEL: Final = 500_000
MAX_STACK: Final = 200
MAX_TEXT: Final = 1024 * 1024
MAX_OUTPUT: Final = 1024 * 1024
MAX_LIST: Final = 200_000
MAX_RANGE: Final = 100_000
MAX_INT_BITS: Final = 4096
MAX_MISSING: Final = 20

MAX_RESULT_NODES: Final = 2_000_000
MAX_RESULT_CHARS: Final = 64 * 1024 * 1024
MAX_RESULT_DEPTH: Final = 100

CACHED_TEMPLATES: Final = 4096
MAX_CACHED_SOURCE: Final = 16 * 1024
