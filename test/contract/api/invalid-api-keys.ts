import type { InvalidObject } from "./invalid-objects.ts";

const kind = "ApiKey";
const serviceAccountName = "agents";
const digestOf = (digit: string) => `sha256:${digit.repeat(64)}`;
const digests = [{ digest: digestOf("0") }];
const ofLimit = (name: string, limits: object, message: RegExp): InvalidObject => ({
  name: `an ApiKey with ${name}`,
  kind,
  spec: { serviceAccountName, digests, limits },
  message,
});

/** Keys with one invalid value each. */
export const invalidApiKeys: InvalidObject[] = [
  {
    name: "an ApiKey without a service account",
    kind,
    spec: { digests },
    message: /spec\.serviceAccountName: Required value/,
  },
  {
    name: "an ApiKey of a service account of another namespace",
    kind,
    spec: { serviceAccountName: "kube-system/admin", digests },
    message: /spec\.serviceAccountName: Invalid value/,
  },
  {
    name: "an ApiKey without a digest",
    kind,
    spec: { serviceAccountName, digests: [] },
    message: /spec\.digests: .*at least 1 items/,
  },
  {
    name: "an ApiKey with the text of a key",
    kind,
    spec: { serviceAccountName, digests: [{ digest: `e2b_${"0".repeat(48)}` }] },
    message: /spec\.digests\[0\]\.digest: Invalid value/,
  },
  {
    name: "an ApiKey with five digests",
    kind,
    spec: { serviceAccountName, digests: ["0", "1", "2", "3", "4"].map((digit) => ({ digest: digestOf(digit) })) },
    message: /spec\.digests: Too many: 5: must have at most 4 items/,
  },
  {
    name: "an ApiKey that lists a digest twice",
    kind,
    spec: { serviceAccountName, digests: [...digests, { ...digests[0], expiresAt: "2030-01-01T00:00:00Z" }] },
    message: /spec\.digests: .*must not list a digest twice/,
  },
  {
    name: "an ApiKey that expires after a duration",
    kind,
    spec: { serviceAccountName, digests: [{ ...digests[0], expiresAt: "30d" }] },
    message: /spec\.digests\[0\]\.expiresAt: Invalid value/,
  },
  ofLimit("a negative number of sandboxes", { sandboxes: -1 }, /spec\.limits\.sandboxes: .*greater than or equal to 0/),
  ofLimit(
    "no requests",
    { requestsPerSecond: 0 },
    /spec\.limits\.requestsPerSecond: .*should be greater than or equal to 1/,
  ),
  ofLimit("no requests at a time", { concurrentRequests: 0 }, /spec\.limits\.concurrentRequests: .*equal to 1/),
  ofLimit("an unknown unit of held bytes", { bytesInFlight: "1MB" }, /spec\.limits\.bytesInFlight: Invalid value/),
  ofLimit("negative bytes", { snapshotBytes: -1 }, /spec\.limits\.snapshotBytes: .*greater than or equal to 0/),
  ofLimit("an unknown unit of bytes", { snapshotBytes: "20GB" }, /spec\.limits\.snapshotBytes: Invalid value/),
];
