// OpenAI, JavaScript: chats, streams, tools, responses.
import { BASE, KEY, ME, MODEL, SAID, SUNNY, begins, cases, version } from "./shown.mjs";
// paste
import OpenAI from "openai";

const client = new OpenAI({ baseURL: BASE + "/v1", apiKey: KEY });
const answer = await client.chat.completions.create({
  model: MODEL,
  messages: [{ role: "user", content: "Who are you?" }],
});
console.log(answer.choices[0].message.content);
// end
import assert from "node:assert/strict";

const ask = (content, more = {}) => ({ model: MODEL, messages: [{ role: "user", content }], temperature: 0, ...more });
const WHO = "Who are you?";
const PARIS = "What is the weather in Paris?";
const BOTH = "What is the weather in Paris and in Tokyo?";
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const described = { name: "get_weather", description: "Get the weather of a city.", parameters };
const tool = { type: "function", function: described };

await cases(version("openai"), {
  "the list of models, and one of them": async () => {
    const found = [];
    for await (const model of client.models.list()) found.push(model.id);
    assert.deepEqual(found, [MODEL]);
    assert((await client.models.retrieve(MODEL)).created > 0);
  },
  "chat, whole and streamed, with usage": async () => {
    const whole = await client.chat.completions.create(ask(WHO));
    begins(whole.choices[0].message.content, ME);
    const asked = ask(WHO, { stream: true, stream_options: { include_usage: true } });
    let [text, usage] = ["", null];
    for await (const chunk of await client.chat.completions.create(asked)) {
      text += chunk.choices[0]?.delta?.content ?? "";
      usage = chunk.usage ?? usage;
    }
    const expected = [whole.choices[0].message.content, whole.usage.completion_tokens];
    assert.deepEqual([text, usage.completion_tokens], expected);
  },
  "two calls in a stream": async () => {
    const stream = client.chat.completions.stream(ask(BOTH, { tools: [tool] }));
    const calls = (await stream.finalChatCompletion()).choices[0].message.tool_calls;
    const found = calls.map((call) => JSON.parse(call.function.arguments));
    assert.deepEqual(found, [{ city: "Paris" }, { city: "Tokyo" }]);
  },
  "runTools calls a tool and reads its result": async () => {
    const called = [];
    const act = (given) => (called.push(given.city), SUNNY);
    const own = { type: "function", function: { ...described, function: act, parse: JSON.parse } };
    const runner = client.chat.completions.runTools(ask(PARIS, { tools: [own] }));
    begins(await runner.finalContent(), SAID);
    assert.deepEqual(called, ["Paris"]);
  },
  "responses, whole and streamed": async () => {
    const asked = { model: MODEL, input: WHO, temperature: 0 };
    const whole = await client.responses.create(asked);
    begins(whole.output_text, ME);
    let [text, last] = ["", ""];
    for await (const event of await client.responses.create({ ...asked, stream: true })) {
      if (event.type === "response.output_text.delta") text += event.delta;
      last = event.type;
    }
    assert.deepEqual([text, last], [whole.output_text, "response.completed"]);
  },
  "a stream that is left": async () => {
    const stream = await client.chat.completions.create(ask("Tell me a story.", { stream: true }));
    for await (const _ of stream) break;
    begins((await client.chat.completions.create(ask(WHO))).choices[0].message.content, ME);
  },
  "errors have their types: unknown model, wrong key": async () => {
    const wrong = client.chat.completions.create(ask(WHO, { model: "nosuch" }), { maxRetries: 0 });
    await assert.rejects(wrong, OpenAI.NotFoundError);
    const other = new OpenAI({ baseURL: BASE + "/v1", apiKey: "wrong" });
    await assert.rejects(other.chat.completions.create(ask(WHO)), OpenAI.AuthenticationError);
  },
});
