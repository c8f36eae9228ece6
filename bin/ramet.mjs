#!/usr/bin/env node
// Plain JavaScript without top-level await: an old version of Node has to get as far as its error message.
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import * as nodeModule from "node:module";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { fileURLToPath } from "node:url";
import { requireNode } from "./require-node.mjs";

const program = new URL("../dist/ramet.js", import.meta.url);
const ownNode = fileURLToPath(new URL("../node_modules/node/bin/node", import.meta.url));
const { engines } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));

const problem = nodeProblem();
if (problem !== undefined && existsSync(ownNode)) runWithOwnNode();
else if (problem !== undefined) fail(problem);
else if (!existsSync(program)) fail("Cannot start ramet: it is not built; run: npm run build");
else {
  enableCompileCache();
  import(program.href);
}

/** Below the user's own cache: Node's default is a directory of /tmp, which another user of the machine could have made. */
function enableCompileCache() {
  const { XDG_CACHE_HOME: cache = "" } = process.env;
  try {
    nodeModule.enableCompileCache(
      join(isAbsolute(cache) ? cache : join(homedir(), ".cache"), "ramet", "compile-cache"),
    );
  } catch {
    // A user without a home directory has no cache.
  }
}

function nodeProblem() {
  try {
    requireNode(engines.node.replace(/^>=/, ""), process.versions.node);
    return undefined;
  } catch (error) {
    return error.message;
  }
}

/** Uses the recent Node of the package `node`, which is a development dependency. */
function runWithOwnNode() {
  const child = spawn(ownNode, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], { stdio: "inherit" });
  // The terminal sends SIGINT to both processes; other signals reach only this one.
  process.on("SIGINT", () => undefined);
  for (const signal of /** @type {const} */ (["SIGTERM", "SIGHUP"])) process.on(signal, () => child.kill(signal));
  child.on("exit", (code, signal) => {
    process.exitCode = signal === null ? code : 1;
  });
}

function fail(message) {
  console.error(message);
  process.exitCode = 1;
}
