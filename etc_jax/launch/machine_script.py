"""The script that makes a new machine run a job, at each start of the machine."""

from __future__ import annotations

import shlex

from etc_jax.base import stores
from etc_jax.launch.job import FINAL_CODES, GRACE_SECS, Job

UNIT = "etc_jax"
AGAIN = "again"  # the script's argument
_HOME = "/opt/etc_jax"
PYTHON = "3.12"
EXTRAS = "tpu,gcs,data"
_PAUSE_SECS = 30
# A job that fails so often in an hour is left alone.
_MOST_STARTS = 10

_SCRIPT = """\
#!/bin/bash
# Makes the job a service, which installs the package and starts with the machine. Where
# there is one it is left alone, unless this is run with the argument "again".
set -euo pipefail
if [ "${{1:-}}" != {again} ] && systemctl cat {unit} > /dev/null 2>&1; then exit 0; fi
mkdir -p {home}
rm -f {home}/installed
cat > {home}/install.sh <<'INSTALL'
#!/bin/bash
set -euo pipefail
export PIP_BREAK_SYSTEM_PACKAGES=1  # newer images ask for it
wanted={requirement}
if [ "$(cat {home}/installed 2>/dev/null)" != "$wanted" ]; then
  python3 -m pip install --quiet uv
  python3 -m uv venv --quiet --clear --python {python} {home}/venv
  {fetch}python3 -m uv pip install --quiet --python {home}/venv/bin/python {package}
  echo "$wanted" > {home}/installed
fi
INSTALL
cat > /etc/systemd/system/{unit}.service <<'UNIT'
{service}UNIT
systemctl daemon-reload
systemctl enable {unit}
systemctl restart --no-block {unit}
"""

_SERVICE = """\
[Unit]
Description=etc-jax {name}
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=1h
StartLimitBurst={starts}
[Service]
WorkingDirectory={home}
{environ}ExecStartPre=/bin/bash {home}/install.sh
ExecStart={home}/venv/bin/{command}
TimeoutStartSec=30min
Restart=on-failure
RestartPreventExitStatus={final}
RestartSec={pause}
TimeoutStopSec={grace}
[Install]
WantedBy=multi-user.target
"""


def script(job: Job, requirement: str) -> str:
    """The script, which root runs.

    Args:
      job: to be run.
      requirement: of the package, as pip takes it; or the address of a wheel in Google
        Cloud Storage, which is installed with what TPUs need.
    """
    fetch, package = "", '"$wanted"'
    if stores.is_address(requirement):
        fetch = f'gcloud storage cp "$wanted" {_HOME}/\n  '
        package = f'"{_HOME}/${{wanted##*/}}[{EXTRAS}]"'
    variables = job.variables
    variables.setdefault("HOME", "/root")
    service = _SERVICE.format(
        name=job.name,
        starts=min(job.restarts + 1, _MOST_STARTS),
        home=_HOME,
        environ="".join(
            f"Environment={_quoted(f'{k}={v}')}\n" for k, v in variables.items()
        ),
        # Only of a command are variables ($) replaced.
        command=" ".join(_quoted(x.replace("$", "$$")) for x in job.argv),
        final=" ".join(map(str, FINAL_CODES)),
        pause=_PAUSE_SECS,
        grace=GRACE_SECS,
    )
    return _SCRIPT.format(
        requirement=shlex.quote(requirement),
        fetch=fetch,
        package=package,
        home=_HOME,
        python=PYTHON,
        unit=UNIT,
        again=AGAIN,
        service=service,
    )


def _quoted(word: str) -> str:
    """As systemd reads it, which has specifiers (%) of its own."""
    for char, instead in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%")):
        word = word.replace(char, instead)
    return f'"{word}"' if not word or set(word) & set(" \t'\"\\;") else word


# What is asked of a service, and its last exit code.
SHOW = shlex.join(
    ["systemctl", "show", UNIT, "--property=LoadState,ActiveState,ExecMainStatus"]
)
LOGS = shlex.join(["journalctl", "--unit", UNIT, "--lines", "100", "--no-pager"])


def properties(text: str) -> dict[str, str]:
    """What `SHOW` prints."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
