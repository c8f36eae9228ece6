import { expect, it } from "vitest";
import { egressNote } from "./step.ts";

const reset = "Traceback …\nConnectionResetError: [Errno 104] Connection reset by peer\n";
const unknown = "curl: (6) Could not resolve host: example.org\n";

it.each([
  ["wget: connection reset by peer"],
  ["Error: read ECONNRESET"],
  ["curl: (56) Recv failure: Connection reset by peer"],
])("mentions the built-in denials for a reset connection (%s)", (log) => {
  expect(egressNote(log, undefined)).toBe(
    "egress of sandboxes is denied for link-local, node and cluster addresses, and the output mentions a reset connection",
  );
});

it("mentions deny rules, also for names", () => {
  const egress = { deny: ["*.internal", "10.0.0.0/8"] };
  expect(egressNote(unknown, egress)).toContain("and for *.internal, 10.0.0.0/8, and the output mentions a name");
});

it("mentions the allowed destinations if egress is denied by default", () => {
  const egress = { default: "deny" as const, allow: ["pypi.org:443"] };
  expect(egressNote(unknown, egress)).toBe(
    "egress of sandboxes is denied except to pypi.org:443, and the output mentions a name that cannot be resolved",
  );
  expect(egressNote(reset, { default: "deny" })).toContain("egress of sandboxes is denied, and the output mentions");
});

it("does not mention egress for an allowed name, a refusing server or any other failure", () => {
  expect(egressNote(unknown, undefined)).toBeUndefined();
  expect(egressNote("Connection refused", { default: "deny" })).toBeUndefined();
  expect(egressNote("make: *** [all] Error 1", { default: "deny" })).toBeUndefined();
});
