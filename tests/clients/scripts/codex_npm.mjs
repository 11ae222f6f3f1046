// Codex CLI: a session of one question.
import { BASE, KEY, MODEL, cases, version } from "./shown.mjs";
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
// paste as ~/.codex/config.toml, with the key in the environment as DSV4_KEY
const CONFIG = `
model = "${MODEL}"
model_provider = "dsv4"

[model_providers.dsv4]
name = "dsv4"
base_url = "${BASE}/v1"
env_key = "DSV4_KEY"
wire_api = "responses"
`;
// end
const home = process.env.HOME + "/.codex";
mkdirSync(home, { recursive: true });
writeFileSync(home + "/config.toml", CONFIG);

/** The session's events, one object each. */
function codex(...words) {
  const env = { ...process.env, DSV4_KEY: KEY, CODEX_HOME: home };
  const all = ["exec", "--json", "--skip-git-repo-check", "--sandbox", "read-only", ...words];
  const done = spawnSync("node_modules/.bin/codex", all, { env, input: "", encoding: "utf8", timeout: 300000 });
  const events = done.stdout.split("\n").filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
  const told = JSON.stringify(events.slice(-3)) + done.stderr.slice(-300);
  assert.equal(done.status, 0, told);
  return events;
}

await cases(version("@openai/codex"), {
  "a question is answered, and its tokens are counted": async () => {
    const events = codex("Say hello.");
    const kinds = events.map((event) => event.type);
    assert(!kinds.includes("error") && !kinds.includes("turn.failed"), JSON.stringify(events));
    const ended = events.find((event) => event.type === "turn.completed");
    assert(ended?.usage.input_tokens > 0 && ended.usage.output_tokens > 0, JSON.stringify(events));
    const said = events.filter((event) => event.type === "item.completed" && event.item.type === "agent_message");
    assert(said.length > 0 && said.every((event) => event.item.text), JSON.stringify(events));
  },
});
