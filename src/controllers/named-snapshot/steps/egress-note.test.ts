import { expect, it } from "vitest";
import { egressNote } from "./step.ts";

const reset = "Traceback …\nConnectionResetError: [Errno 104] Connection reset by peer\n";
const unknown = "curl: (6) Could not resolve host: example.org\n";

it.each([
  ["wget: connection reset by peer"],
  ["Error: read ECONNRESET"],
  ["curl: (56) Recv failure: Connection reset by peer"],
])("a connection that was cut (%s) is told with what is denied to every sandbox", (log) => {
  expect(egressNote(log, undefined)).toBe(
    "egress is denied to sandboxes for link-local, node and cluster addresses, and what it printed speaks of a connection that was cut",
  );
});

it("deny rules are told, also for names", () => {
  const egress = { deny: ["*.internal", "10.0.0.0/8"] };
  expect(egressNote(unknown, egress)).toContain("and for *.internal, 10.0.0.0/8, and what it printed speaks of a name");
});

it("where egress is denied by default, what is allowed is told", () => {
  const egress = { default: "deny" as const, allow: ["pypi.org:443"] };
  expect(egressNote(unknown, egress)).toBe(
    "egress is denied to sandboxes except to pypi.org:443, and what it printed speaks of a name that was not found",
  );
  expect(egressNote(reset, { default: "deny" })).toContain("egress is denied to sandboxes, and what it printed");
});

it("a name that nothing forbids, a server that refuses, and any other failure are none of it", () => {
  expect(egressNote(unknown, undefined)).toBeUndefined();
  expect(egressNote("Connection refused", { default: "deny" })).toBeUndefined();
  expect(egressNote("make: *** [all] Error 1", { default: "deny" })).toBeUndefined();
});
