import { readdirSync } from "node:fs";
import type { Command } from "commander";
import { describe, expect, it } from "vitest";
import * as components from "../../components/index.ts";
import { memoryIo } from "../../test/setup/memory-io.ts";
import { kinds } from "../api/kinds/crd.ts";
import { buildProgram } from "../cli/program.ts";
import { type ClientName, dialectPage, dialectTable, type Entry, type Operation, prefixes } from "./dialect-table.ts";
import { agentTierRoutes } from "./dialects/agenttier/routes.ts";
import { e2bRoutes } from "./dialects/e2b/routes.ts";
import { mcpServer, type McpOptions } from "./dialects/mcp/mcp-server.ts";
import { nativePrefix, nativeRoutes } from "./dialects/native/routes.ts";
import { sandbox0Routes } from "./dialects/sandbox0/routes.ts";

const namesOf = (prefix: string, routes: readonly { method: string; path: string; unsupported?: string }[]) =>
  routes.filter((each) => each.unsupported === undefined).map(({ method, path }) => `${method} ${prefix}${path}`);

function commandPaths(command: Command, path: string): string[] {
  return command.commands.flatMap((child) => {
    const own = `${path} ${child.name()}`;
    return [own, ...commandPaths(child, own)];
  });
}

/** The tools that a server registers, none of which is called here. */
function toolNames(): string[] {
  const options = { version: "1", actor: {}, service: {}, maxLifeSeconds: 3600 } as unknown as McpOptions;
  return Object.keys((mcpServer(options) as unknown as { _registeredTools: object })._registeredTools);
}

const listed = { E2B: e2bRoutes, Sandbox0: sandbox0Routes };
const page = dialectPage(listed);

/** What exists, by client. */
const existing: Record<ClientName, readonly string[]> = {
  E2B: namesOf("", e2bRoutes),
  AgentTier: namesOf("/api/v1", agentTierRoutes),
  Sandbox0: namesOf("", sandbox0Routes),
  native: namesOf(nativePrefix, nativeRoutes),
  MCP: toolNames(),
  CLI: commandPaths(
    buildProgram(memoryIo(), () => () => Promise.resolve()),
    "ramet",
  ),
  kubectl: kinds.map(({ kind }) => kind),
  Pulumi: Object.keys(components),
};

describe("the table of operations and clients", () => {
  const named = Object.values(dialectTable).flatMap((row) => Object.entries(row) as [ClientName, Entry][]);
  it.each(Object.keys(existing) as ClientName[])("names only what exists for %s", (client) => {
    const prefix = client in prefixes ? prefixes[client as keyof typeof prefixes] : "";
    const entries = named.filter(([name]) => name === client).map(([, entry]) => entry);
    const texts = entries.filter((entry) => typeof entry === "string");
    expect(texts.length).toBeGreaterThan(0);
    for (const text of texts) expect(existing[client]).toContain(text.replace(" /", ` ${prefix}/`));
  });

  it("has a row for each file of operations", () => {
    const files: Record<string, Operation[]> = {
      "await-build": ["awaitBuild"],
      "await-sandbox": ["awaitSandbox"],
      "await-set": ["awaitSet"],
      capture: ["capture", "awaitCapture"],
      claim: ["claim"],
      fork: ["fork"],
      pause: ["pause", "resume"],
      "roll-back": ["rollBack"],
      "upload-tree": ["uploadTree"],
    };
    // These help the others.
    const helping = ["cause-of-loss", "objects"];
    const found = readdirSync("src/operations").filter((name) => !name.endsWith(".test.ts"));
    const names = found.map((name) => name.replace(/\.ts$/, ""));
    expect(names.filter((name) => !helping.includes(name)).toSorted()).toEqual(Object.keys(files).toSorted());
    expect(Object.values(files).flat().toSorted()).toEqual(Object.keys(dialectTable).toSorted());
  });

  it("is a page that is read in minutes", () => {
    expect(dialectPage({}).split(/\s+/).length).toBeLessThanOrEqual(700);
    expect(page.split(/\s+/).length).toBeLessThanOrEqual(900);
  });

  it.each(Object.entries(listed))(
    "lists each route that %s misses, with the reason and what to use instead",
    (_, all) => {
      const missing = all.filter(({ unsupported }) => unsupported !== undefined);
      expect(missing.length).toBeGreaterThan(10);
      for (const { method, path, unsupported = "" } of missing) {
        const [, why = ""] = /^[A-Z][^:]*, because ([^:]+): ([a-z][^:]+)$/.exec(unsupported) ?? [];
        expect([unsupported, why.length > 0]).toEqual([unsupported, true]);
        const row = page.split("\n").find((each) => each.endsWith(`: ${unsupported}`)) ?? "";
        expect(row).toContain(path.replace(/\/\*$/, ""));
        expect(row).toContain(method);
      }
    },
  );
});
