import { expect, it } from "vitest";
import { explainDriverError as explain, recorded } from "./csi-texts.ts";
import { retriedBy } from "./volume-facts.ts";

it.each([
  ["SnapshotCreationPerVolumeRateExceeded: wait", "CaptureRateExceeded", "waiting"],
  ["exceeded quota: q, requested: count/x=1, used: count/x=5, limited: count/x=5", "QuotaExceeded", "stuck"],
  ["googleapi: Error 403: QUOTA_EXCEEDED - Quota 'SNAPSHOTS' exceeded.", "CloudQuotaExceeded", "stuck"],
  ["api error SnapshotLimitExceeded: The maximum number", "CloudQuotaExceeded", "stuck"],
  ["rpc error: code = PermissionDenied desc = compute.snapshots.create", "StorageForbidden", "stuck"],
  ["AuthorizationFailed: the client does not have authorization", "StorageForbidden", "stuck"],
  ["rpc error: code = ResourceExhausted desc = slow down", "CloudThrottled", "waiting"],
  ["operation error EC2: CreateSnapshot, api error RequestLimitExceeded", "CloudThrottled", "waiting"],
  ["HTTP response code 429", "CloudThrottled", "waiting"],
  ["rpc error: code = DeadlineExceeded desc = context deadline exceeded", "DriverUnanswered", "stuck"],
  ["rpc error: code = Internal desc = odd", "DriverError", "stuck"],
])("recognizes %s", (message, reason, state) => {
  expect(explain(message)).toMatchObject({ reason, state });
});

it("says when it is tried again", () => {
  expect(retriedBy("The sidecar", new Date("2030-01-01T00:00:00.500Z"))).toBe(
    "The sidecar tries again after growing pauses of at most 5 minutes: by 2030-01-01T00:05:00Z",
  );
});

it("advises the tags of EBS only for EBS", () => {
  expect(explain("api error UnauthorizedOperation").action).toContain("ebs.csi.aws.com/cluster=true");
  expect(explain("code = PermissionDenied desc = compute.snapshots.create").action).not.toContain("ebs.csi.aws.com");
});

it("limits what a driver wrote, and shows control characters", () => {
  expect(recorded("a\u001b[2Jb\nc\u202ed.")).toBe("a^[[2Jb c\\u202ed");
  expect(recorded("x".repeat(100_000))).toHaveLength(300);
  expect(recorded(undefined)).toBe("");
});

it.each(["exceeded quota: ", "requested: ", "x, used: ", "Quota '"])("reads long texts with %j quickly", (part) => {
  expect(explain(part.repeat(20_000)).cause.length).toBeLessThan(500);
});
