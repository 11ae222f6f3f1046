"""The appliance comes back after a crash and after a reboot of the host."""

from __future__ import annotations

import json
import shutil
import subprocess

from dsv4_pd.verify.base import Result, Subject, failed, passed, skipped

LASTING = ("always", "unless-stopped")


def check(subject: Subject) -> Result:
    """Docker's restart policy, where it can be seen."""
    name = subject.options.container
    if name is None:
        where = "the container can't see its own restart policy" if _contained(subject) else "it runs outside Docker"
        return skipped(where, "on the host: dsv4-pd verify --container NAME --only persistence")
    if not shutil.which("docker"):
        return skipped("no docker command here", "run this check where docker inspect works")
    done = subprocess.run(["docker", "inspect", name], capture_output=True, text=True, check=False)
    if done.returncode:
        return failed(f"docker inspect {name}: {done.stderr.strip()}", "docker ps names the containers")
    return judge(json.loads(done.stdout)[0]["HostConfig"]["RestartPolicy"]["Name"], name)


def judge(policy: str, name: str) -> Result:
    """The verdict on a policy's name."""
    if policy in LASTING:
        return passed(f"restart policy of {name}: {policy}", policy=policy)
    return failed(
        f"restart policy of {name}: {policy or 'no'}; a reboot of the host ends the service",
        f"set it in compose.yaml; for now: docker update --restart unless-stopped {name}",
        policy=policy,
    )


def _contained(subject: Subject) -> bool:
    return bool((subject.status.get("about") or {}).get("container"))
