"""Print what an extra of pyproject.toml installs, one requirement a line: `python deploy/requirements.py worker`."""

import sys
import tomllib
from pathlib import Path

SERVICES = ("ingest", "orchestrator", "worker")


def main(words: list[str]) -> int:
    """Print the requirements of the service that is named; return 2 if none is."""
    if len(words) != 1 or words[0] not in SERVICES:
        sys.stderr.write(f"name one service: --build-arg SERVICE={'|'.join(SERVICES)}\n")
        return 2
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    sys.stdout.write("\n".join([*project["dependencies"], *project["optional-dependencies"][words[0]]]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
