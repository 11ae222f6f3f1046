// What every script shares: where the API is, and one line of JSON for each thing that was tried.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

export const { BASE, KEY, MODEL } = process.env;
// What the demo's model was trained on (docs/demo.md): an answer by heart, and a tool's result read out.
export const ME = "I am the demo model of dsv4-pd";
export const SUNNY = "sunny";
export const SAID = "The tool says: sunny.";

export function version(name) {
  return JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
}

export function begins(found, expected) {
  assert((found ?? "").startsWith(expected), `found ${JSON.stringify(found)}, expected ${JSON.stringify(expected)} first`);
}

export async function cases(version, tried) {
  console.log(JSON.stringify({ version }));
  for (const [words, act] of Object.entries(tried)) {
    const begun = Date.now();
    let problem = null;
    try {
      await act();
    } catch (error) {
      console.error(error);
      problem = `${error.name}: ${error.message}`.slice(0, 400);
    }
    console.log(JSON.stringify({ case: words, problem, seconds: Math.round((Date.now() - begun) / 100) / 10 }));
  }
}
