#!/usr/bin/env node
// Plain JavaScript that old versions of Node can also read, so that they can say what is wrong.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import * as nodeModule from "node:module";
import { fileURLToPath } from "node:url";

const needed = [22, 19];
const program = new URL("../dist/ramet.js", import.meta.url);
const ownNode = fileURLToPath(new URL("../node_modules/node/bin/node", import.meta.url));

if (!isRecent(process.versions.node)) runWithOwnNode();
else if (existsSync(program)) {
  nodeModule.enableCompileCache();
  await import(program.href);
} else fail("Starting ramet failed: it is not built. Run: npm run build");

/** The package `node`, a development dependency, brings a recent one. */
function runWithOwnNode() {
  if (!existsSync(ownNode)) {
    fail(
      "Starting ramet failed: it needs Node " +
        needed.join(".") +
        " or newer, and this is Node " +
        process.versions.node +
        ". Install a newer one from https://nodejs.org, or run npm ci in Ramet's folder, which brings one.",
    );
    return;
  }
  const child = spawn(ownNode, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], { stdio: "inherit" });
  // The terminal sends SIGINT to both; other signals reach this process only.
  process.on("SIGINT", () => undefined);
  for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.on("exit", (code, signal) => {
    process.exitCode = signal === null ? code : 1;
  });
}

function isRecent(version) {
  const [major, minor] = version.split(".").map(Number);
  return major > needed[0] || (major === needed[0] && minor >= needed[1]);
}

function fail(message) {
  console.error(message);
  process.exitCode = 1;
}
