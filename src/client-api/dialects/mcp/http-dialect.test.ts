import { expect, it } from "vitest";
import { isForHosts } from "./http-dialect.ts";

it.each([
  [{ host: "127.0.0.1:8082" }, true],
  [{ host: "localhost" }, true],
  [{ host: "[::1]:8082" }, true],
  [{ host: "MCP.example.org:443" }, true],
  [{ host: "mcp.example.org", origin: "https://mcp.example.org" }, true],
  [{ host: "127.0.0.1:8082", origin: "http://localhost:3000" }, true],
  [{ host: "attacker.example" }, false],
  [{ host: "127.0.0.1.attacker.example" }, false],
  [{ host: "localhost@attacker.example" }, false],
  [{ host: "127.0.0.1:8082", origin: "https://attacker.example" }, false],
  [{ host: "127.0.0.1:8082", origin: "null" }, false],
  [{}, false],
])("accepts a request with %j: %s", (headers, accepted) => {
  expect(isForHosts(headers, ["mcp.example.org"])).toBe(accepted);
});
