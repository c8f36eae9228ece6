import { describe, expect, it } from "vitest";
import * as z from "zod";
import { RametError } from "../../../base/errors.ts";
import { errorAnswer } from "./call.ts";

describe("errorAnswer", () => {
  it.each([
    ["InvalidArgument", 400],
    ["Unauthorized", 401],
    ["Forbidden", 403],
    ["NotFound", 404],
    ["AlreadyExists", 409],
    ["Conflict", 409],
    ["SandboxNotReady", 409],
    ["CaptureRefused", 409],
    ["OutOfRange", 413],
    ["TooManyRequests", 429],
    ["Internal", 500],
    ["NotSupported", 501],
    ["BackendMissing", 503],
    ["Timeout", 504],
  ] as const)("answers %s with %i", (code, status) => {
    const error = new RametError(code, "It failed", { hint: "Repair it" });
    expect(errorAnswer(error)).toEqual({ status, body: { error: "It failed. Repair it" } });
  });

  it("reports a quota as a violation of a policy, which clients show as such", () => {
    expect(errorAnswer(new RametError("QuotaExceeded", "Too many"))).toEqual({
      status: 403,
      body: { error: "policy_violation", violations: [{ code: "quota_exceeded", message: "Too many" }] },
    });
  });

  it("keeps the status of a request that the server could not read", () => {
    const tooLarge = Object.assign(new Error("Request body is too large"), { statusCode: 413 });
    expect(errorAnswer(tooLarge).status).toBe(413);
  });

  it("names the field that is not valid", () => {
    const parsed = z.object({ name: z.string() }).safeParse({});
    expect(errorAnswer(parsed.error)).toMatchObject({
      status: 400,
      body: { error: expect.stringContaining("name") as unknown },
    });
  });
});
