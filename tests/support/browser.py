"""Headless Chromium through chromedriver's own protocol: navigate, run a script, take a picture."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

from support.ports import free_ports

_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")


class Browser:
    """One browser window; a context manager."""

    def __init__(self, folder: Path, width: int = 1100, height: int = 900) -> None:
        self._folder, self._size = folder, (width, height)
        self._base = f"http://127.0.0.1:{free_ports(1)[0]}"

    def __enter__(self) -> Self:
        driver = shutil.which("chromedriver")
        assert driver, "chromedriver is missing: apt-get install chromium-driver"
        self._driver = subprocess.Popen(
            [driver, f"--port={self._base.rsplit(':', 1)[1]}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        flags = [*_FLAGS, f"--user-data-dir={self._folder / 'profile'}"]
        options: dict[str, Any] = {"args": flags, "binary": shutil.which("chromium"), "prefs": {}}
        wanted = {
            "capabilities": {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
        }
        self._session = self._wait_for_driver(wanted)
        self.resize(*self._size)
        return self

    def __exit__(self, *error: object) -> None:
        end = urllib.request.Request(f"{self._base}/session/{self._session}", method="DELETE")
        with urllib.request.urlopen(end, timeout=20):
            pass  # the browser ends with its session, not with its driver
        self._driver.terminate()
        self._driver.wait(20)

    def resize(self, width: int, height: int) -> None:
        """The size of the page itself."""
        self._send("goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}})  # fmt: skip

    def open(self, url: str) -> None:
        self._send("url", {"url": url})

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        return self._send("execute/sync", {"script": f"return {script}", "args": []})

    def wait(self, script: str, seconds: float = 30) -> None:
        """Until an expression is true."""
        begun = time.monotonic()
        while not self.run(script):
            assert time.monotonic() - begun < seconds, f"not true within {seconds} s: {script}\n{self.text()[:800]}"
            time.sleep(0.2)

    def text(self) -> str:
        return str(self.run("document.body.innerText"))

    def picture(self, path: Path) -> bytes:
        """The whole page as PNG, kept at `path`."""
        height = int(self.run("document.documentElement.scrollHeight"))
        width = int(self.run("window.innerWidth"))
        self.resize(width, min(height, 6000))
        data = base64.b64decode(self._get("screenshot"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return data

    def errors(self) -> list[str]:
        """What the page complained about on its console, blocked loads included."""
        return [entry["message"] for entry in self._send("se/log", {"type": "browser"}) if entry["level"] == "SEVERE"]

    def foreign(self, origin: str) -> list[str]:
        """Everything that was fetched from elsewhere."""
        names = self.run("performance.getEntriesByType('resource').map((entry) => entry.name)")
        return [name for name in names if not name.startswith((origin, "data:"))]

    def _wait_for_driver(self, wanted: Any) -> str:
        begun = time.monotonic()
        while True:
            try:
                return str(self._post(f"{self._base}/session", wanted)["sessionId"])
            except OSError:
                assert time.monotonic() - begun < 30, "chromedriver does not answer"
                time.sleep(0.2)

    def _send(self, command: str, body: Any) -> Any:
        return self._post(f"{self._base}/session/{self._session}/{command}", body)

    def _get(self, command: str) -> Any:
        with urllib.request.urlopen(f"{self._base}/session/{self._session}/{command}", timeout=60) as answer:
            return json.load(answer)["value"]

    def _post(self, url: str, body: Any) -> Any:
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]
