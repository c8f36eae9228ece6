import { afterAll, beforeAll, expect, it } from "vitest";
import { systemNamespace } from "../../../src/api/names/system-names.ts";
import {
  newCellCredentials,
  cellCredentials,
  clusterCredentials,
  readClusterCredentials,
} from "../../../src/backends/cell-keys.ts";
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

it("continues with the guests' secret of an earlier version, which is in the Secret of the cell key", async () => {
  const secrets = client.resource(coreResources.secrets);
  for (const name of Object.keys(entries)) await secrets.delete(secret(name));
  const { privateKeyPem, guestSecret } = newCellCredentials();
  const earlier = cellCredentials({ privateKeyPem, guestSecret });
  const data = { "private-key.pem": Buffer.from(privateKeyPem).toString("base64"), "cluster-secret": guestSecret };
  const metadata = secret("ramet-cell-key");
  await secrets.create({ apiVersion: "v1", kind: "Secret", metadata, immutable: true, data });

  const tokens: string[] = [];
  // A user's command can be newer than the controllers, which create the second Secret.
  for (const credentials of [readClusterCredentials, clusterCredentials, readClusterCredentials]) {
    const found = await credentials(client);
    expect(found.publicKey).toBe(earlier.publicKey);
    tokens.push(found.guestToken(uid));
  }
  expect(new Set([...tokens, earlier.guestToken(uid)]).size).toBe(1);
});
