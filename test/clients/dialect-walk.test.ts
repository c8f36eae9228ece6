import { randomUUID } from "node:crypto";
import { Client as McpClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { Sandbox as E2bSandbox } from "e2b";
import { type ConnectionOptions, Sandbox } from "ramet/client";
import { Client as Sandbox0 } from "sandbox0";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Checkpoint, checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { sandboxClaimKind } from "../../src/api/kinds/sandbox-claim.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { apiVersion } from "../../src/api/schema/kind.ts";
import { runProgram } from "../../src/cli/program.ts";
import { type ClientName, dialectTable, type Operation } from "../../src/client-api/dialect-table.ts";
import { refOf } from "../../src/kube/resource-ref.ts";
import { ProviderWorld } from "../program/provider-world.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { ClientWorld } from "./client-world.ts";

/**
 * A walk through the table of operations and clients on a real local cluster: each client makes a snapshot of the same sandbox, and
 * each other client creates a sandbox from it.
 */
let world: ClientWorld;
let options: Required<Pick<ConnectionOptions, "apiKey" | "apiUrl" | "sandboxUrl">>;
let sandbox0: Sandbox0;
let mcp: McpClient;
let pulumi: ProviderWorld;
/** What the snapshots are made of. */
let source: Sandbox;

const set = "stock";
const template = { spec: { containers: [{ name: "main", image: "python", command: ["sleep", "infinity"] }] } };
const path = "/root/word";

beforeAll(async () => {
  world = await ClientWorld.shared("walk");
  const { namespace, apiUrl } = world;
  const { kubeconfig } = world.cluster.directory;
  const metadata = { namespace, name: set };
  await world.client
    .of(sandboxTemplateKind)
    .create({ apiVersion, kind: "SandboxTemplate", metadata, spec: { template } });
  [options] = await Promise.all([world.connection(), world.createSet(set, 1, { template })]);
  sandbox0 = new Sandbox0({ token: await world.createKey(namespace, "s0", undefined, "sandbox0"), baseUrl: apiUrl });
  mcp = new McpClient({ name: "test", version: "1" });
  const args = ["bin/ramet.mjs", "mcp", "-n", namespace, "--kubeconfig", kubeconfig];
  await mcp.connect(new StdioClientTransport({ command: process.execPath, args }));
  pulumi = await ProviderWorld.open({ kubeconfig });
  source = await Sandbox.create({ ...options, template: set, timeoutMs: 3_600_000 });
});
afterAll(async () => {
  await Promise.all([pulumi.close(), mcp.close()]);
  await world.close();
});

/** An operation of the table that makes a snapshot, and what others create sandboxes from: an id, or the name of a named snapshot. */
type Makes = Partial<Record<Operation, (word: string) => Promise<string>>>;

interface Walker {
  makes: Makes;
  /** Creates a sandbox from a snapshot. @returns the word in it, and how to delete it */
  claim: (snapshot: string) => Promise<{ word: string; name: string }>;
}

const walkers: Record<ClientName, Walker> = {
  E2B: {
    makes: { capture: async () => (await E2bSandbox.createSnapshot(source.sandboxId, options)).snapshotId },
    claim: async (snapshot) => {
      const sandbox = await E2bSandbox.create(snapshot, options);
      return { word: await sandbox.files.read(path), name: sandbox.sandboxId };
    },
  },
  AgentTier: {
    makes: {
      fork: async () => {
        const { name, snapshot } = await agentTier("POST", `/sandboxes/${source.name}/clone`);
        const checkpoint = await checkpointNamed(String(snapshot));
        await expect.poll(async () => (await agentTier("GET", `/sandboxes/${String(name)}`))["status"]).toBe("Running");
        await Sandbox.kill(String(name), options);
        return checkpoint;
      },
    },
    claim: async (snapshot) => {
      const name = `agenttier-${randomUUID()}`;
      await agentTier("POST", "/sandboxes", { name, templateRef: { name: snapshot } });
      await expect.poll(async () => (await agentTier("GET", `/sandboxes/${name}`))["status"]).toBe("Running");
      const { stdout } = await agentTier("POST", `/sandboxes/${name}/exec`, { command: `cat ${path}` });
      return { word: String(stdout), name };
    },
  },
  Sandbox0: {
    makes: {
      capture: async () => (await sandbox0.sandboxes.createRootFSSnapshot(source.sandboxId, { name: "walk" })).id,
    },
    claim: async (snapshot) => {
      const sandbox = await sandbox0.sandboxes.claim(set, { snapshotId: snapshot });
      return { word: Buffer.from(await sandbox.readFile(path)).toString(), name: sandbox.id };
    },
  },
  native: {
    makes: {
      capture: async () =>
        (await source.checkpoint.wait(await source.checkpoint.create({ name: "walk" }))).checkpoint_id,
    },
    claim: async (snapshot) => {
      const from = snapshot.includes("@") ? "snapshot" : "checkpoint";
      const sandbox = await Sandbox.create({ ...options, [from]: snapshot });
      return { word: await sandbox.files.read(path), name: sandbox.name };
    },
  },
  MCP: {
    makes: {
      capture: async () => {
        const { checkpoint } = await tool("checkpoint", { sandbox: source.name });
        await tool("wait", { checkpoint });
        return String(checkpoint);
      },
    },
    claim: async (snapshot) => {
      const { name } = await tool("create_sandbox", { source: snapshot });
      const { content } = await tool("read_file", { sandbox: name, path });
      return { word: String(content), name: String(name) };
    },
  },
  CLI: {
    makes: { capture: () => ramet("checkpoint", "create", source.name) },
    claim: async (snapshot) => {
      const name = await ramet("sandbox", "create", "--from", snapshot);
      return { word: await ramet("sandbox", "exec", name, "--", "cat", path), name };
    },
  },
  kubectl: {
    makes: {
      capture: async () => {
        const metadata = { namespace: world.namespace, name: "walk-by-kubectl" };
        const spec = { sandboxName: source.name };
        await world.client.of(checkpointKind).create({ apiVersion, kind: "Checkpoint", metadata, spec });
        return checkpointNamed(metadata.name);
      },
    },
    claim: async (snapshot) => {
      const metadata = { namespace: world.namespace, name: `kubectl-${randomUUID()}` };
      const spec = { templateName: set, annotations: { "ramet.dev/restore-from": snapshot } };
      await world.client.of(sandboxClaimKind).create({ apiVersion, kind: "SandboxClaim", metadata, spec });
      const claim = await world.cluster.until(
        refOf(sandboxClaimKind),
        metadata,
        (value) => sandboxClaimKind.object.parse(value),
        (value) => value?.status?.phase === "Completed",
      );
      return wordIn(claim?.status?.ramet?.sandboxes?.[0] ?? "");
    },
  },
  Pulumi: {
    makes: {
      awaitBuild: async (word) => {
        const inputs = {
          name: "walk-by-pulumi",
          from: { template: { name: set } },
          source: { template: { template } },
        };
        const recipe = [{ run: `printf %s ${word} > ${path}` }];
        const { outputs } = await pulumi.up("namedSnapshot", { ...ownedBy("snapshot"), ...inputs, recipe });
        return `${inputs.name}@${String(outputs["version"])}`;
      },
    },
    claim: async (snapshot) => {
      const name = `pulumi-${randomUUID()}`;
      await pulumi.up("sandboxClone", { ...ownedBy(name), name, from: snapshot, ports: [] });
      return wordIn(name);
    },
  },
};

/** The operations that make snapshots. The checkpoint of AgentTier's clone stays. */
const making = ["capture", "awaitBuild", "fork"] as const satisfies Operation[];
/** The other operations of the table, so that a new one fails until somebody decides what it makes. */
const others = ["claim", "awaitSandbox", "awaitSet", "pause", "resume", "awaitCapture", "rollBack", "uploadTree"];

const clients = Object.keys(dialectTable.claim) as ClientName[];

/** The first operation of the table by which a client makes snapshots. */
function makerOf(client: ClientName): Operation | undefined {
  return making.find((each) => typeof dialectTable[each][client] === "string");
}

it("has a walker for each client, and one way in which it makes snapshots", () => {
  expect(Object.keys(walkers).toSorted()).toEqual(clients.toSorted());
  expect([...making, ...others].toSorted()).toEqual(Object.keys(dialectTable).toSorted());
  for (const client of clients) {
    expect(typeof dialectTable.claim[client], client).toBe("string");
    expect(Object.keys(walkers[client].makes), client).toEqual([makerOf(client)]);
  }
});

it.each(clients)("a snapshot that %s makes is what each other client creates sandboxes from", async (client) => {
  const word = randomUUID();
  await source.files.write(path, word);
  const snapshot = await walkers[client].makes[makerOf(client) ?? "capture"]!(word);
  await source.files.write(path, "later");
  const users = clients.filter((each) => each !== client);
  const words = await Promise.all(
    users.map(async (other) => {
      const claimed = await walkers[other].claim(snapshot);
      await Sandbox.kill(claimed.name, options);
      return [other, claimed.word];
    }),
  );
  expect(words).toEqual(users.map((user) => [user, word]));
});

async function agentTier(method: string, route: string, body?: object): Promise<Record<string, unknown>> {
  const headers = { "x-api-key": options.apiKey, "content-type": "application/json" };
  const sent = { method, headers, ...(body && { body: JSON.stringify(body) }) };
  const answer = await fetch(`${options.apiUrl}/api/v1${route}`, sent);
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${route}: ${answer.status} ${text}`);
  return JSON.parse(text) as Record<string, unknown>;
}

async function tool(name: string, args: Record<string, unknown>): Promise<Record<string, unknown>> {
  const answer = await mcp.callTool({ name, arguments: args });
  if (answer.isError === true) throw new Error(`${name}: ${JSON.stringify(answer.content)}`);
  return answer.structuredContent as Record<string, unknown>;
}

/** Runs a command as a user does. @returns its last line */
async function ramet(...args: string[]): Promise<string> {
  const io = memoryIo({ environment: { KUBECONFIG: world.cluster.directory.kubeconfig } });
  const [noun = "", verb = "", ...rest] = args;
  const code = await runProgram(io, [noun, verb, "-n", world.namespace, ...rest]);
  if (code !== 0) throw new Error(`ramet ${args.join(" ")}: ${io.written("stderr")}`);
  return io.written("stdout").trim().split("\n").at(-1) ?? "";
}

async function checkpointNamed(name: string): Promise<string> {
  const read = (value: unknown): Checkpoint => checkpointKind.object.parse(value);
  const isDone = (checkpoint: Checkpoint | undefined) => checkpoint?.status?.phase === "Succeeded";
  const found = await world.cluster.until(refOf(checkpointKind), { namespace: world.namespace, name }, read, isDone);
  return found?.status?.checkpointId ?? "";
}

/** Reads the word in a sandbox of a client that has no files. */
async function wordIn(name: string): Promise<{ word: string; name: string }> {
  const sandbox = await Sandbox.connect(name, options);
  return { word: await sandbox.files.read(path), name };
}

function ownedBy(name: string) {
  return { namespace: world.namespace, owner: `organization/program/test/${name}`, timeout: "2 minutes" };
}
