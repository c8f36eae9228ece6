import { parseDuration } from "../../base/duration.ts";
import { parsed, portNumber } from "../options.ts";
import type { RametCommand } from "../ramet-command.ts";
import type { McpHttpOptions, McpStdioOptions } from "./serve.ts";

export type McpOptions = McpStdioOptions & McpHttpOptions & { http?: boolean };

/** `ramet mcp`: tools for agents. */
export function mcpCommand(program: RametCommand): void {
  program
    .command("mcp")
    .accessFlags()
    .clusterFlags()
    .description(
      "Serve sandboxes to agents by the Model Context Protocol: over stdio with the rights of your kubeconfig, or over HTTP for clients with API keys.",
    )
    .option("--http", "serve streamable HTTP at /mcp instead of stdio; clients send an API key as bearer token")
    .option("--port <port>", "the port for HTTP; 0 opens a free port", portNumber, 8082)
    .option("--address <ip>", "the IP address to listen on for HTTP", "127.0.0.1")
    .option(
      "--allowed-host <name...>",
      "names of this server in the requests of its clients (default: localhost, 127.0.0.1 and [::1])",
    )
    .option(
      "--max-lifetime <duration>",
      "the longest life of a sandbox that a client can request (default: 30d)",
      (text) => parsed(() => parseDuration(text)),
    )
    .choice(
      "--log-level <level>",
      "the lowest level to log, as JSON lines on stderr",
      ["debug", "info", "warn", "error"],
      "warn",
    )
    .addHelpText("after", help)
    .runs(async () => {
      const { serveMcpHttp, serveMcpStdio } = await import("./serve.ts");
      return (io, options: McpOptions) =>
        options.http === true ? serveMcpHttp(io, options) : serveMcpStdio(io, options);
    });
}

const help = `
Most clients read this configuration, for stdio:
  {"mcpServers": {"ramet": {"command": "npx", "args": ["ramet", "mcp"]}}}

And for HTTP:
  {"mcpServers": {"ramet": {"type": "http", "url": "http://127.0.0.1:8082/mcp",
    "headers": {"Authorization": "Bearer e2b_…"}}}}

Examples:
  $ ramet mcp --namespace team-a
  $ ramet mcp --http --port 8082
  $ ramet key create agent --service-account agent --create-service-account
`;
