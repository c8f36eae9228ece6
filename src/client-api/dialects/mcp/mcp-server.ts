import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { commandTool } from "./command-tool.ts";
import { fileTools } from "./file-tools.ts";
import { sandboxTools } from "./sandbox-tools.ts";
import { snapshotTools } from "./snapshot-tools.ts";
import type { ToolParts } from "./tool.ts";

export interface McpOptions extends Omit<ToolParts, "server"> {
  /** That of this package. */
  version: string;
}

/** A server of the Model Context Protocol for one client, before it is connected to a transport. */
export function mcpServer({ version, ...parts }: McpOptions): McpServer {
  const server = new McpServer({ name: "ramet", version }, { instructions });
  const all = { server, ...parts };
  sandboxTools(all);
  commandTool(all);
  fileTools(all);
  snapshotTools(all);
  return server;
}

const instructions = `Sandboxes are isolated Linux environments. Create one from a template (a local cluster has "python"), run
commands in it, and read and write its files. Take a snapshot before a step that may go wrong: restore returns to it with
memory and processes, and fork tries several ways from the same state. Delete sandboxes that are not needed any more.`;
