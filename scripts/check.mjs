// `npm run check [-- COMMIT]`: what to run before a commit. Tests what changed since the commit, by default since the last one.
// ESLint, Prettier and TypeScript keep their results in node_modules/.cache. ESLint checks only changed files, so a change of a
// type can break a rule in another file: `npm run lint` and CI check all of them.
import { spawn } from "node:child_process";

const cache = "node_modules/.cache";
const cached = ["--cache", "--cache-strategy", "content"];
const since = process.argv.slice(2);
// Each row runs on a core of its own, one command after the other.
const rows = [
  [
    ["eslint", ...cached, "--cache-location", `${cache}/eslint/`, "."],
    ["prettier", "--check", "--log-level", "warn", ...cached, "."],
  ],
  [
    ["tsc", "--noEmit", "--incremental", "--tsBuildInfoFile", `${cache}/types.tsbuildinfo`],
    ["vitest", "run", "--project", "unit", "--reporter", "minimal", "--changed", ...since],
  ],
];
await Promise.all(
  rows.map(async (row) => {
    for (const command of row) await run(command);
  }),
);

/** Prints the output of a command when it has ended, so that two commands do not mix their lines. */
function run(command) {
  const [program, ...args] = command;
  const started = Date.now();
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      const seconds = Math.round((Date.now() - started) / 1000);
      console.log(`${code === 0 ? "passed" : "FAILED"} ${program} (${seconds} s)`);
      if (code !== 0) {
        console.log(output);
        process.exitCode = 1;
      }
      resolve(undefined);
    });
  });
}
