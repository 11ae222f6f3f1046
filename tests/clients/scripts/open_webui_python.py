"""Open WebUI: its list of models and its chats, by the API that its own pages call; its documents were not tried."""

import json
import os
import urllib.request

import shown
from shown import BASE, KEY, ME, MODEL, WHO, begins, case, same

# paste sh
SETUP = f"""
OPENAI_API_BASE_URL={BASE}/v1 OPENAI_API_KEY="{KEY}" ENABLE_OLLAMA_API=False open-webui serve
"""
# end

PORT = shown.free_port()
URL = f"http://127.0.0.1:{PORT}"
ENVIRON = {
    "DATA_DIR": os.environ["HOME"] + "/data", "WEBUI_AUTH": "False", "WEBUI_SECRET_KEY": "of this run",
    # the hub of models is not asked, and nothing embeds documents on this processor
    "OFFLINE_MODE": "True", "HF_HUB_OFFLINE": "1", "RAG_EMBEDDING_ENGINE": "openai", "RAG_EMBEDDING_MODEL": "",
}  # fmt: skip


def call(path, body=None):
    """The raw answer, with the token of who signed in."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    with urllib.request.urlopen(urllib.request.Request(URL + path, data, headers), timeout=120) as answer:
        return answer.read().decode()


def ask(stream):
    return {"model": MODEL, "messages": [{"role": "user", "content": WHO}], "stream": stream, "temperature": 0}


@case("the list of models")
def _():
    same([model["id"] for model in json.loads(call("/api/models"))["data"]], [MODEL])


@case("a chat")
def _():
    begins(json.loads(call("/api/chat/completions", ask(False)))["choices"][0]["message"]["content"], ME)


@case("a chat, streamed")
def _():
    lines = call("/api/chat/completions", ask(True)).splitlines()
    chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    begins("".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]), ME)


TOKEN = ""
# env: what is pasted begins with variables
command = f"env {SETUP.strip()} --host 127.0.0.1 --port {PORT}"
with shown.serving(command, URL + "/health", **ENVIRON):
    TOKEN = json.loads(call("/api/v1/auths/signin", {"email": "", "password": ""}))["token"]
    shown.run("open-webui")
