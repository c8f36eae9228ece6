import { expect, it, onTestFinished } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { ApiKey, apiKeyKind } from "../../api/kinds/api-key.ts";
import { rametApiVersion } from "../../api/schema/kind.ts";
import { silentLog } from "../../base/log.ts";
import { explicitConnection } from "../../kube/connection.ts";
import { KubeClient } from "../../kube/kube-client.ts";
import { Callers } from "./callers.ts";

/** The keys of a server that is never called. */
function callersAt(clock: ManualClock): Callers {
  const client = new KubeClient(explicitConnection({ server: "http://127.0.0.1:1" }), { clock });
  onTestFinished(() => client.close());
  return new Callers(client, { log: silentLog });
}

const [digest, other] = ["0", "1"].map((digit) => `sha256:${digit.repeat(64)}`) as [string, string];

function aKey(resourceVersion: string, digests: ApiKey["spec"]["digests"]): ApiKey {
  const creationTimestamp = "2026-01-01T00:00:00Z";
  const metadata = { namespace: "a", name: "key", uid: "uid", resourceVersion, creationTimestamp };
  const spec = { serviceAccountName: "agent", digests };
  return ApiKey.parse({ apiVersion: rametApiVersion, kind: apiKeyKind.kind, metadata, spec });
}

it("ends what a value has open when it expires, also if its time changes", () => {
  const clock = new ManualClock();
  const callers = callersAt(clock);
  const { store } = callers.informer;
  const after = (milliseconds: number) => new Date(clock.now().getTime() + milliseconds).toISOString();
  store.put(aKey("1", [{ digest }]));
  const ended: string[] = [];
  callers.endWhenRevoked({ key: "a/key", digest }, () => ended.push("first"));
  callers.endWhenRevoked({ key: "a/key", digest }, () => ended.push("over"))();
  expect(clock.waits).toEqual([]);
  store.put(aKey("2", [{ digest: other }, { digest, expiresAt: after(60_000) }]));
  expect(clock.waits).toEqual([60_000]);
  store.put(aKey("3", [{ digest: other }, { digest, expiresAt: after(30_000) }]));
  expect(clock.waits).toEqual([30_000]);
  clock.advance(29_999);
  expect([ended, callers.limitsOf({ key: "a/key", digest })]).toMatchObject([[], {}]);
  clock.advance(1);
  expect([ended, callers.limitsOf({ key: "a/key", digest }), clock.waits]).toEqual([["first"], undefined, []]);
});

it("ends what is opened with a value that was revoked meanwhile", () => {
  const callers = callersAt(new ManualClock());
  const { store } = callers.informer;
  const ended: string[] = [];
  callers.endWhenRevoked({ key: "a/key", digest }, () => ended.push("deleted"))();
  store.put(aKey("1", [{ digest: other }]));
  callers.endWhenRevoked({ key: "a/key", digest }, () => ended.push("rotated"))();
  expect(ended).toEqual(["deleted", "rotated"]);
});
