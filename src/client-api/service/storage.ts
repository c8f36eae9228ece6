import type { SandboxManifest } from "../../api/kinds/sandbox.ts";
import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";

/** A volume of a sandbox, which is created and deleted with it. */
export interface Storage {
  /** A quantity, such as `10Gi`. */
  size: string;
  /** @default the default class of the cluster */
  storageClass?: string | undefined;
  mountPath: string;
}

type Spec = NonNullable<SandboxManifest["spec"]>;

const volume = "workspace";

/**
 * Adds a claim to a sandbox, mounted in its first container.
 * @throws RametError `InvalidArgument` if the template is not valid, or has a volume of that name or mount path already
 */
export function withStorage(
  { template, volumeClaimTemplates = [], ...spec }: Spec,
  { size, storageClass, mountPath }: Storage,
): Spec {
  const { spec: pod, ...others } = parsePodTemplate(template, "template");
  const [main, ...sidecars] = pod.containers;
  const mounts = main?.volumeMounts ?? [];
  const names = [...(pod.volumes ?? []), ...mounts].map(({ name }) => name);
  if (main === undefined || names.includes(volume) || mounts.some((mount) => mount.mountPath === mountPath)) {
    throw new RametError("InvalidArgument", `storage: the template has a volume at ${mountPath} already`, {
      hint: "Leave out storage, or set another mountPath",
    });
  }
  const claim = {
    metadata: { name: volume },
    spec: {
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: size } },
      ...defined({ storageClassName: storageClass }),
    },
  };
  const mounted = { ...main, volumeMounts: [...mounts, { name: volume, mountPath }] };
  return {
    ...spec,
    template: { ...others, spec: { ...pod, containers: [mounted, ...sidecars] } },
    volumeClaimTemplates: [...volumeClaimTemplates, claim],
  };
}
