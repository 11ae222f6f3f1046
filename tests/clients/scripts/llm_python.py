"""llm, the command: its model file, chats, a schema, a tool."""

import json
import os
import subprocess
from pathlib import Path

import shown
from shown import BASE, KEY, ME, MODEL, PARIS, SAID, WHO, begins, case, same

# paste as extra-openai-models.yaml in the folder of `llm logs path`, then: llm keys set dsv4
MODELS = f"""
- model_id: dsv4
  model_name: {MODEL}
  api_base: {BASE}/v1
  api_key_name: dsv4
  supports_schema: true
  supports_tools: true
"""
# end

folder = Path(os.environ["HOME"]) / "llm"
folder.mkdir(exist_ok=True)
(folder / "extra-openai-models.yaml").write_text(MODELS)
FUNCTION = """
def get_weather(city: str) -> str:
    "Get the weather of a city."
    return "sunny"
"""
SURE = ("-m", "dsv4", "-o", "temperature", "0")


def llm(*words):
    environ = {**os.environ, "LLM_USER_PATH": str(folder)}
    done = subprocess.run(["llm", *words], env=environ, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr[-300:]
    return done.stdout.strip()


@case("a question, streamed and whole")
def _():
    llm("keys", "set", "dsv4", "--value", KEY)
    whole = llm(*SURE, "--no-stream", WHO)
    begins(whole, ME)
    same(llm(*SURE, WHO), whole)


@case("--schema")
def _():
    same(list(json.loads(llm(*SURE, "--schema", "kind bool", WHO))), ["kind"])


@case("--functions: a tool is called and its result read")
def _():
    begins(llm(*SURE, "--functions", FUNCTION, PARIS), SAID)


shown.run("llm")
