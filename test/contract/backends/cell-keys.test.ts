import { afterAll, beforeAll, expect, it } from "vitest";
import { systemNamespace } from "../../../src/api/names/system-names.ts";
import { clusterCredentials, readClusterCredentials } from "../../../src/backends/cluster-keys.ts";
import { KubeClient } from "../../../src/kube/kube-client.ts";
import { coreResources } from "../../../src/kube/resource-ref.ts";
import { openControlPlane, type TestControlPlane } from "../../setup/control-plane.ts";
import { makeNamespace } from "../../setup/namespace.ts";

let plane: TestControlPlane;
let client: KubeClient;
const uid = "3f0c5a4e-0000-4000-8000-000000000001";
const entries: Record<string, string[]> = {
  "ramet-cell-key": ["private-key.pem"],
  "ramet-guest-key": ["secret"],
};

beforeAll(async () => {
  plane = await openControlPlane();
  client = new KubeClient(plane.connection);
  await makeNamespace(client, systemNamespace);
});
afterAll(async () => {
  await client.close();
  await plane.stop();
});

const secret = (name: string) => ({ namespace: systemNamespace, name });

it("keeps the key of cells and the secret of guests in two Secrets, which a second controller finds", async () => {
  await expect(readClusterCredentials(client)).rejects.toMatchObject({ code: "NotFound" });
  const [one, other] = await Promise.all([clusterCredentials(client), clusterCredentials(client)]);
  const read = await readClusterCredentials(client);
  expect(new Set([one, other, read].map(({ publicKey }) => publicKey)).size).toBe(1);
  expect(new Set([one, other, read].map((each) => each.guestToken(uid))).size).toBe(1);
  for (const [name, expected] of Object.entries(entries)) {
    const found = await client.resource(coreResources.secrets).get(secret(name));
    expect(Object.keys((found as unknown as { data: object }).data)).toEqual(expected);
  }
});
