import { renderCrds } from "../api/kinds/crd.ts";
import { RametError } from "../base/errors.ts";
import { Applier } from "../kube/apply.ts";
import { delay } from "../base/clock.ts";
import { isConditionTrue } from "../kube/conditions.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { crdOrigin, InstalledCrd, otherCrd, ownedByOthers } from "../kube/other-controllers.ts";
import { coreResources } from "../kube/resource-ref.ts";

/**
 * Installs the CRDs of this version and waits until the API server serves them. CRDs that another project made are only read.
 * @param groups the API groups whose CRDs are installed. @default all
 * @throws RametError `OtherController` for a CRD of another project that lacks something; nothing is written then
 */
export async function installCrds(client: KubeClient, signal?: AbortSignal, groups?: readonly string[]): Promise<void> {
  const crds = client.resource(coreResources.crds, (value) => InstalledCrd.parse(value));
  const applier = new Applier("ramet-crds");
  const ours = renderCrds().filter(({ spec }) => groups?.includes(spec.group) ?? true);
  const rendered = await Promise.all(
    ours.map(async (crd) => {
      const found = await crds.find(crd.metadata, { signal });
      return { crd, origin: found === undefined ? "ramet" : crdOrigin(found) };
    }),
  );
  const others = rendered.filter(({ origin }) => origin === "other").map(({ crd }) => otherCrd(crd.metadata.name));
  if (others.length > 0) throw ownedByOthers("Cannot install the CRDs", others);
  await Promise.all(
    rendered.map(async ({ crd, origin }) => {
      if (origin !== "ramet") return;
      // Takes ownership of fields that older versions and other installers wrote: this version needs its own schemas.
      let found = await applier.apply(crds, { ...crd }, { force: true, signal });
      for (let tries = 0; !isConditionTrue(found.status?.conditions, "Established"); tries++) {
        if (tries === mostTries) throw notServed(crd.metadata.name);
        await delay(client.clock, pauseMilliseconds, signal);
        found = await crds.get(crd.metadata, { signal });
      }
    }),
  );
}

const pauseMilliseconds = 50;
const mostTries = 600;

function notServed(name: string): RametError {
  return new RametError("Timeout", `The API server does not serve ${name}: the CRD is not Established`, {
    retryable: true,
    hint: `Check the conditions with: kubectl get crd ${name} -o yaml`,
  });
}
