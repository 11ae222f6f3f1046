// Vercel AI SDK: texts, tools, objects, thoughts.
import { BASE, KEY, ME, MODEL, SAID, SUNNY, begins, cases, version } from "./shown.mjs";
// paste
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText } from "ai";

const dsv4 = createOpenAICompatible({
  name: "dsv4",
  baseURL: BASE + "/v1",
  apiKey: KEY,
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const { text } = await generateText({ model: dsv4(MODEL), prompt: "Who are you?" });
console.log(text);
// end
import assert from "node:assert/strict";
import { Output, jsonSchema, stepCountIs, streamText, tool } from "ai";

const WHO = "Who are you?";
const PARIS = "What is the weather in Paris?";
const BOTH = "What is the weather in Paris and in Tokyo?";
const sure = { model: dsv4(MODEL), temperature: 0, maxRetries: 0 };

function weather(called) {
  const inputSchema = jsonSchema({
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
  });
  const execute = async ({ city }) => (called.push(city), SUNNY);
  return { get_weather: tool({ description: "Get the weather of a city.", inputSchema, execute }) };
}

async function read(result) {
  let all = "";
  for await (const part of result.textStream) all += part;
  return all;
}

await cases(version("ai"), {
  "generateText and streamText, with usage": async () => {
    const whole = await generateText({ ...sure, prompt: WHO });
    begins(whole.text, ME);
    const result = streamText({ ...sure, prompt: WHO });
    assert.deepEqual([await read(result), (await result.usage).outputTokens], [whole.text, whole.usage.outputTokens]);
  },
  "a tool is called and its result read": async () => {
    const called = [];
    const tools = weather(called);
    const result = await generateText({ ...sure, prompt: PARIS, tools, stopWhen: stepCountIs(3) });
    assert.deepEqual([called, result.steps.length], [["Paris"], 2]);
    begins(result.text, SAID);
  },
  "two calls in a stream, and their results": async () => {
    const called = [];
    const result = streamText({ ...sure, prompt: BOTH, tools: weather(called), stopWhen: stepCountIs(3) });
    begins(await read(result), "The tool says: ");
    assert.deepEqual([called.sort(), (await result.steps).length], [["Paris", "Tokyo"], 2]);
  },
  "an object": async () => {
    const schema = jsonSchema({
      type: "object",
      properties: { kind: { type: "boolean" } },
      required: ["kind"],
      additionalProperties: false,
    });
    const result = await generateText({ ...sure, prompt: WHO, output: Output.object({ schema }) });
    assert.equal(typeof result.output.kind, "boolean");
  },
  "thoughts, apart from the answer": async () => {
    const providerOptions = { dsv4: { reasoningEffort: "high" } };
    const result = await generateText({ ...sure, prompt: WHO, providerOptions });
    assert(result.reasoningText);
    begins(result.text, ME);
  },
});
