"""LiteLLM, the proxy: this API behind one more, for all of its clients."""

import json
import os
from pathlib import Path

import shown
from openai import OpenAI
from shown import BASE, BOTH, KEY, ME, MODEL, PARIS, WEATHER, WHO, begins, case, same

# paste as config.yaml, then: LITELLM_MASTER_KEY=sk-of-your-own litellm --config config.yaml
CONFIG = f"""
model_list:
  - model_name: {MODEL}
    litellm_params:
      model: hosted_vllm/{MODEL}
      api_base: {BASE}/v1
      api_key: {KEY}
"""
# end

file = Path(os.environ["HOME"]) / "config.yaml"
file.write_text(CONFIG)
PROXY = "sk-of-your-own"
URL = f"http://127.0.0.1:{shown.free_port()}"
client = OpenAI(base_url=URL + "/v1", api_key=PROXY, max_retries=0)
FUNCTION = {"name": "get_weather", "description": "Get the weather of a city.", "parameters": WEATHER}
TOOL = {"type": "function", "function": FUNCTION}


def ask(text, **options):
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "temperature": 0, **options}


@case("the list of models")
def _():
    same([model.id for model in client.models.list()], [MODEL])


@case("chat, whole and streamed")
def _():
    whole = client.chat.completions.create(**ask(WHO)).choices[0].message.content
    begins(whole, ME)
    chunks = client.chat.completions.create(**ask(WHO), stream=True)
    same("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), whole)


@case("tools, whole and streamed")
def _():
    calls = client.chat.completions.create(**ask(PARIS, tools=[TOOL])).choices[0].message.tool_calls
    same([json.loads(call.function.arguments) for call in calls], [{"city": "Paris"}])
    with client.chat.completions.stream(**ask(BOTH, tools=[TOOL])) as stream:
        calls = stream.get_final_completion().choices[0].message.tool_calls
    same([json.loads(call.function.arguments) for call in calls], [{"city": "Paris"}, {"city": "Tokyo"}])


@case("Anthropic's messages, made of chats by the proxy")
def _():
    import httpx

    asked = {**ask(WHO), "max_tokens": 200}
    got = httpx.post(URL + "/v1/messages", json=asked, headers={"x-api-key": PROXY}, timeout=60)
    same(got.status_code, 200)
    begins(got.json()["content"][0]["text"], ME)


command = f"env LITELLM_MASTER_KEY={PROXY} litellm --config {file} --host 127.0.0.1 --port {URL.rsplit(':', 1)[1]}"
with shown.serving(command, URL + "/health/liveliness"):
    shown.run("litellm")
