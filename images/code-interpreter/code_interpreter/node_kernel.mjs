// Runs JavaScript and TypeScript for node_kernel.py.
//   node node_kernel.mjs DESCRIPTOR LANGUAGE
// Reads a request from each line of the descriptor, and writes an answer to it: { code, shared, env } and { ok, … }.
import { once } from "node:events";
import { createRequire, stripTypeScriptTypes } from "node:module";
import { Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { inspect } from "node:util";
import { constants, runInThisContext } from "node:vm";
import { asScript } from "./node_script.mjs";

const [, , descriptor, language] = process.argv;
// `import` and `require` find packages of the working directory.
const filename = join(process.cwd(), "code");
const require = createRequire(filename);
globalThis.require = require;
const options = { filename, breakOnSigint: true, importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER };

for (const event of ["uncaughtException", "unhandledRejection"])
  process.on(event, (error) => process.stderr.write(`Uncaught ${inspect(error)}\n`));
// Between executions, an interrupt has nothing to end.
process.on("SIGINT", () => undefined);

const socket = new Socket({ fd: Number(descriptor) });
for await (const line of createInterface({ input: socket })) {
  const { code, shared = {}, env = {}, reseed = false } = JSON.parse(line);
  if (reseed) require("/opt/code-interpreter/lib/reseed/reseed.cjs").reseed();
  setVariables(shared);
  const before = Object.fromEntries(Object.keys(env).map((name) => [name, process.env[name] ?? null]));
  setVariables(env);
  const answer = await run(code);
  const unchanged = Object.entries(before).filter(([name]) => process.env[name] === env[name]);
  setVariables(Object.fromEntries(unchanged));
  socket.write(`${JSON.stringify(answer)}\n`);
}
process.exit();

async function run(code) {
  try {
    const script = language === "typescript" ? stripTypeScriptTypes(code, { mode: "transform" }) : code;
    const value = await finished(runInThisContext(asScript(script), options));
    return { ok: true, text: value === undefined ? undefined : inspect(value) };
  } catch (error) {
    // A name that is thrown in another realm is no instance of this one's Error.
    const { name = "Error", message = inspect(error), stack = message } = Object(error);
    const [own] = String(stack).split(/\n.*(?:node:vm:|node_kernel\.mjs)/);
    return { ok: false, name: String(name), value: String(message), stack: own };
  }
}

/** Waits for a promise until an interrupt comes. */
async function finished(value) {
  if (!(value instanceof Promise)) return value;
  const stopped = new AbortController();
  const interrupted = once(process, "SIGINT", { signal: stopped.signal }).then(() => {
    throw new Error("Script execution was interrupted by `SIGINT`");
  });
  try {
    return await Promise.race([value, interrupted]);
  } finally {
    interrupted.catch(() => undefined);
    stopped.abort();
  }
}

function setVariables(values) {
  for (const [name, value] of Object.entries(values)) {
    if (value === null) Reflect.deleteProperty(process.env, name);
    else process.env[name] = value;
  }
}
