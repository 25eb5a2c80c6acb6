"""A real browser for the tests of the book: Chromium over the DevTools protocol, without a driver
of its own."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--mute-audio",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--allow-file-access-from-files",
    "--disable-extensions",
    "--remote-allow-origins=*",
    "--remote-debugging-port=0",
    "--force-color-profile=srgb",
)


def executable() -> str | None:
    """The browser there is: ``CHROMIUM`` of the environment, or the first of `NAMES` on the
    path."""
    named = os.environ.get("CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One browser with one page. Use it as a context manager."""

    def __init__(self, timeout: float = 300.0):
        self.timeout, self._next = timeout, 0
        self.events: list[dict[str, Any]] = []
        """What the page has reported since `forget`."""

    def __enter__(self) -> "Browser":
        import websocket

        self._folder = tempfile.mkdtemp(prefix="lm-browser-")
        command = [executable(), *FLAGS, f"--user-data-dir={self._folder}", "about:blank"]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        port_file, end = Path(self._folder) / "DevToolsActivePort", time.monotonic() + self.timeout
        while not port_file.exists() or len(port_file.read_text().split()) < 2:
            if time.monotonic() > end or self._process.poll() is not None:
                self.__exit__()
                raise RuntimeError("the browser did not start")
            time.sleep(0.05)
        port, path = port_file.read_text().split()
        self._socket = websocket.create_connection(
            f"ws://127.0.0.1:{port}{path}",
            timeout=self.timeout,
            max_size=None,
            suppress_origin=True,
        )
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *exception: Any) -> None:
        if hasattr(self, "_socket"):
            self._socket.close()
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One call of the protocol; raises `RuntimeError` where the browser refuses it."""
        self._next += 1
        message = {"id": self._next, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == self._next:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def run(self, expression: str) -> Any:
        """The value of an expression of JavaScript in the page; promises are awaited."""
        reply = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in reply:
            details = reply["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return reply["result"].get("value")

    def size(
        self, width: int, height: int = 900, *, dark: bool = False, touch: bool = False
    ) -> None:
        """The window's size in pixels, the colours it asks for, and whether it is touched."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=touch,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.call("Emulation.setEmulatedMedia", features=[scheme, still])
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)

    def open(self, address: str) -> None:
        """Goes to an address and waits until the page has loaded and has not changed for a fifth of
        a second."""
        if not self._loaded(address):  # another place of the page that is shown already
            self._loaded("about:blank")
            self._loaded(address)
        self.run(
            "new Promise((done) => { let quiet = setTimeout(done, 200); new MutationObserver(() =>"
            " { clearTimeout(quiet); quiet = setTimeout(done, 200); }).observe(document, {subtree:"
            " true, childList: true, attributes: true}); setTimeout(done, 2000); })"
        )

    def _loaded(self, address: str) -> bool:
        """Whether going to an address loads a page, which is awaited."""
        self.events.clear()
        loads = "loaderId" in self.call("Page.navigate", url=address)
        end = time.monotonic() + self.timeout
        while loads and not any(e["method"] == "Page.loadEventFired" for e in self.events):
            if time.monotonic() > end:
                raise RuntimeError(f"{address} did not load")
            self.run("1")
            time.sleep(0.02)
        return loads

    def key(self, name: str, code: int) -> None:
        """Presses a key, such as ``ArrowRight`` with its virtual code 39."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": name} if len(name) == 1 and kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=name,
                code=name,
                windowsVirtualKeyCode=code,
                **text,
            )

    def centre(self, selector: str) -> tuple[float, float]:
        """The middle of the first element that matches, scrolled into sight."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        return box[0], box[1]

    def mouse(self, kind: str, x: float, y: float) -> None:
        """``mousePressed``, ``mouseMoved`` or ``mouseReleased`` at a place."""
        self.call(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1
        )

    def click(self, selector: str) -> None:
        """Clicks the middle of the first element that matches."""
        x, y = self.centre(selector)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x, y)

    def faults(self) -> list[str]:
        """What went wrong since the page was opened: exceptions, errors on the console, requests
        that left the book."""
        faults = []
        for event in self.events:
            method, about = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                details = about["exceptionDetails"]
                faults.append(details.get("exception", {}).get("description", details["text"]))
            elif method == "Runtime.consoleAPICalled" and about["type"] == "error":
                faults.append(
                    "console: "
                    + " ".join(str(a.get("value", a.get("description"))) for a in about["args"])
                )
            elif method == "Log.entryAdded" and about["entry"]["level"] == "error":
                faults.append("log: " + about["entry"]["text"])
            elif method == "Network.requestWillBeSent":
                address = about["request"]["url"]
                if not address.startswith(("file:", "data:", "about:", "blob:")):
                    faults.append(f"request: {address}")
        return faults
