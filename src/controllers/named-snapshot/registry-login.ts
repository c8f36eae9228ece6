import { loginIdentity, RegistryLogin } from "../../api/credentials/credential-seal.ts";
import { type NamedSnapshot, namedSnapshotKind } from "../../api/kinds/named-snapshot.ts";
import { annotations } from "../../api/names/labels.ts";
import { RametError, resultOr } from "../../base/errors.ts";
import { createUnlessExists } from "../../kube/apply.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import type { SnapshotDependencies } from "./state.ts";

/**
 * Makes a Secret for image pulls of the login that the client API has sealed, and removes the sealed login. So the client API needs no
 * right on Secrets, and these have one type and no other content.
 * @returns the named snapshot without the login
 */
export async function storeRegistryLogin(
  snapshot: NamedSnapshot,
  { client, credentialKeys, informers, ownWrites, events }: SnapshotDependencies,
): Promise<NamedSnapshot> {
  const { metadata } = snapshot;
  const sealed = metadata.annotations?.[annotations.registryLogin];
  if (sealed === undefined || credentialKeys === undefined || metadata.deletionTimestamp !== undefined) return snapshot;
  // Users can write the annotation too.
  const open = () => RegistryLogin.parse(JSON.parse(credentialKeys.open(loginIdentity(metadata), sealed)));
  const login = resultOr(open, undefined);
  if (login === undefined) {
    const note = `The annotation ${annotations.registryLogin} cannot be opened: build the template again`;
    events.record(snapshot, { type: "Warning", reason: "InvalidArgument", action: "StoreRegistryLogin", note });
  } else {
    const { secretName, server, ...account } = login;
    const content = JSON.stringify({ auths: { [server]: account } });
    const { namespace, name, uid } = metadata;
    const owner = { apiVersion: namedSnapshotKind.apiVersion, kind: namedSnapshotKind.kind, name, uid };
    const created = await createUnlessExists(client.resource(coreResources.secrets), {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { namespace, name: secretName, ownerReferences: [owner] },
      type: "kubernetes.io/dockerconfigjson",
      data: { ".dockerconfigjson": Buffer.from(content).toString("base64") },
    }).catch((thrown: unknown) => RametError.from(thrown));
    // The versions that exist are needed also where a quota or a webhook refuses the Secret.
    if (created instanceof RametError) {
      if (created.retryable) throw created;
      const note = `The Secret for the registry cannot be created: ${created.message}`;
      events.record(snapshot, { type: "Warning", reason: created.code, action: "StoreRegistryLogin", note });
      return snapshot;
    }
  }
  return ownWrites.write(snapshot, () =>
    informers.snapshots.resource.mergePatch(metadata, {
      // A login that a client has sent meanwhile must stay.
      metadata: { resourceVersion: metadata.resourceVersion, annotations: { [annotations.registryLogin]: null } },
    }),
  );
}
