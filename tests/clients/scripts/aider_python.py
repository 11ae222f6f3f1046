"""aider: pair programming in a terminal."""

import os
import re
import subprocess
from pathlib import Path

import shown
from shown import BASE, KEY, MODEL, case

# paste sh
SETUP = f"""
export OPENAI_API_BASE={BASE}/v1
export OPENAI_API_KEY="{KEY}"
aider --model openai/{MODEL}
"""
# end

folder = Path(os.environ["HOME"]) / "project"
folder.mkdir(exist_ok=True)
(folder / "hello.py").write_text('print("hello")\n')
# It asks nothing, looks for no newer version of itself, and has no repository.
QUIET = "--yes-always --no-git --no-check-update --analytics-disable --no-show-model-warnings --no-pretty"


def aider(words, message):
    """(sent, received) in tokens, as it tells them, and the answer in its history."""
    history = folder / "history.md"
    history.unlink(missing_ok=True)
    command = f"{SETUP.rstrip()} {QUIET} --chat-history-file {history} {words} --message '{message}' hello.py"
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-400:]
    told = re.search(r"Tokens: ([\d.]+k?) sent, ([\d.]+k?) received", said)
    assert told, said[-400:]
    # of the history: `#### ` is the question, `> ` what aider says itself, the rest the model's answer
    lines = history.read_text().split(f"#### {message}")[-1].splitlines()
    answer = "\n".join(line for line in lines if line.strip() and not line.startswith(("> ", "#")))
    assert answer, history.read_text()[-400:]
    return told[1], told[2]


@case("a question about a file, streamed")
def _():
    assert aider("--chat-mode ask", "Who are you?")[1] != "0"


@case("the same without a stream")
def _():
    assert aider("--chat-mode ask --no-stream", "Who are you?")[1] != "0"


@case("a request to change it")
def _():
    assert aider("--edit-format whole", "Say hello.")[1] != "0"


shown.run("aider-chat")
