import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as z from "zod";
import { builtPrograms } from "../setup/built-package.ts";
import { ClientWorld } from "./client-world.ts";
import { withLocalNames } from "./local-names.ts";
import { runPython } from "./python-client.ts";

/** A user who sets the variables of `ramet local env`, and nothing else. */
const run = promisify(execFile);
let world: ClientWorld;
let through: string[];

beforeAll(async () => {
  through = await withLocalNames();
  world = await ClientWorld.shared("default");
});
afterAll(() => world.close());

async function localEnv(...args: string[]): Promise<{ stdout: string; stderr: string }> {
  const [program, main] = builtPrograms.ramet;
  const command = [...through, program, main, "local", "env", "--name", "test", ...args];
  return run(command[0] ?? "", command.slice(1), { env: world.cluster.environment });
}

async function variables(): Promise<Record<string, string>> {
  return z.record(z.string(), z.string()).parse(JSON.parse((await localEnv("-o", "json")).stdout));
}

describe("ramet local env", () => {
  it("prints the same variables each time, also when several commands create the key", async () => {
    const [first, second] = await Promise.all([variables(), variables()]);
    expect(Object.keys(first)).toEqual([
      "E2B_API_KEY",
      "E2B_DOMAIN",
      "RAMET_API_KEY",
      "RAMET_API_URL",
      "RAMET_SANDBOX_URL",
      "RAMET_DOMAIN",
      "AGENTTIER_API_KEY",
      "AGENTTIER_API_URL",
      "NODE_EXTRA_CA_CERTS",
      "SSL_CERT_FILE",
    ]);
    expect(second).toEqual(first);
    expect(await variables()).toEqual(first);
    expect((await localEnv()).stdout).toContain(`export E2B_API_KEY=${first["E2B_API_KEY"] ?? ""}\n`);
  });

  it("replaces a key that was revoked", async () => {
    const before = await variables();
    const kubeconfig = world.cluster.directory.kubeconfig;
    const [program, main] = builtPrograms.ramet;
    await run(program, [main, "key", "revoke", "ramet-local-env", "--kubeconfig", kubeconfig]);
    const after = await variables();
    expect(after["E2B_API_KEY"]).not.toBe(before["E2B_API_KEY"]);
    const keys = { E2B_API_KEY: "", AGENTTIER_API_KEY: "", RAMET_API_KEY: "" };
    expect({ ...after, ...keys }).toEqual({ ...before, ...keys });
  });

  it("prints the addresses of the servers on request", async () => {
    const { stdout } = await localEnv("--mode", "addresses", "-o", "fish");
    expect(stdout).toContain(`set -gx E2B_API_URL ${world.apiUrl}\n`);
    expect(stdout).toContain(`set -gx E2B_SANDBOX_URL ${world.sandboxUrl}\n`);
  });
});

describe("a client with the domain only", () => {
  it.each([
    ["uses sandboxes, their ports and signed URLs from JavaScript", "domain.ts"],
    ["uses sandboxes and their ports from an early SDK for JavaScript", "old-domain.ts"],
  ])("%s", async (_, file) => {
    const program = join(import.meta.dirname, "js", file);
    const command = ["timeout", "120", ...through, process.execPath, program];
    const env = { ...process.env, ...(await variables()) };
    await run(command[0] ?? "", command.slice(1), { env });
  });

  it.each(["current", "2.15"] as const)("uses sandboxes, their ports and signed URLs from Python (%s)", async (sdk) => {
    expect(await runPython("domain.py", { sdk, environment: await variables(), through })).toBe("");
  });
});
