"""Ask the service of this container whether it can work: `python -m shared.runtime.probing`, for health checks."""

from __future__ import annotations

import http.client
import os
import sys
from collections.abc import Mapping

TIMEOUT_S = 4.0
PORT_SETTINGS = ("REDRIVE_HEALTH_PORT", "REDRIVE_PORT")


def main() -> int:
    """Return 0 if it is ready; otherwise say what it says is missing."""
    port = port_of(os.environ)
    if port is None:
        sys.stderr.write(f"none of {', '.join(PORT_SETTINGS)} names a port\n")
        return 2
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        said = answer.read(4096).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as problem:
        sys.stderr.write(f"port {port} does not answer: {problem}\n")
        return 1
    finally:
        connection.close()
    sys.stdout.write(f"{said}\n")
    return 0 if answer.status == 200 else 1


def port_of(values: Mapping[str, str]) -> int | None:
    """Return the port on which the service says how it is."""
    for name in PORT_SETTINGS:
        text = values.get(name, "")
        if text.isascii() and text.isdecimal() and int(text) > 0:
            return int(text)
    return None


if __name__ == "__main__":
    sys.exit(main())
