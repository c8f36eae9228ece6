import type { types } from "@pulumi/kubernetes";
import { type Input, output, type Output, type Unwrap } from "@pulumi/pulumi";
import { annotations } from "../src/api/names/labels.ts";
import { defined } from "../src/base/defined.ts";
import { RametError } from "../src/base/errors.ts";
import { type DisruptionArgs, disruptionAnnotations } from "./disruption.ts";
import { runError } from "./run-error.ts";
import type { EgressArgs } from "./runtime-settings.ts";

/** The settings of a sandbox's Pod. */
export interface PodArgs extends DisruptionArgs {
  /** The sandbox's image, its root file system. Pin it by digest: a moved tag does not trigger a rebuild. */
  image: Input<string>;
  /**
   * The entrypoint. The sandbox ends when it exits. The default entrypoint of most images exits immediately without a
   * terminal; `[]` runs it.
   * @default ["sleep", "infinity"]
   */
  command?: Input<Input<string>[]>;
  /**
   * The nodes' architecture, `"amd64"` or `"arm64"`: the program reads the image for it from its registry, with the credentials of
   * `docker login`, and the template records its digest, entrypoint, user, variables and working directory. A moved tag is then a
   * change in the preview. For registries that the controllers cannot reach. @default the controllers read the image
   */
  recordImage?: Input<string>;
  /** Secrets with credentials of the image's registry. @default those of the service account */
  imagePullSecrets?: Input<Input<string>[]>;
  /** Arguments of the entrypoint. @default none */
  args?: Input<Input<string>[]>;
  /** Environment variables of the entrypoint and of all other processes in the sandbox. */
  env?: Input<Record<string, Input<string>>>;
  /** Environment variables from Secrets: `{ API_KEY: { secret: "agent", key: "api-key" } }`. */
  secretEnv?: Input<Record<string, Input<SecretKeyArgs>>>;
  /** Ports that are reachable at the sandbox's address. */
  ports?: Input<Input<number>[]>;
  /** Resource limits of the sandbox as Kubernetes quantities: `{ cpu: "1", memory: "512Mi", ephemeralStorage: "5Gi" }`. @default no limit */
  resources?: Input<{ cpu?: Input<string>; memory?: Input<string>; ephemeralStorage?: Input<string> }>;
  /** Volumes by the path of their mount: `{ "/data": { claimTemplate: { size: "10Gi" } } }`. @default none */
  mounts?: Input<Record<string, Input<MountArgs>>>;
  /** Rules within those of its namespace and the runtime. @default none */
  egress?: EgressArgs;
  /** The labels of its nodes. @default all nodes */
  nodeSelector?: Input<Record<string, Input<string>>>;
  /** Taints that its nodes may have. @default none */
  tolerations?: Input<Input<types.input.core.v1.Toleration>[]>;
  /** As in a Pod. @default none */
  affinity?: Input<types.input.core.v1.Affinity>;
  /** User, group and a read-only root; others are reported without effect. @default the image's user */
  securityContext?: Input<types.input.core.v1.SecurityContext>;
  /** As in a container. @default none */
  startupProbe?: Input<types.input.core.v1.Probe>;
  /** As in a container. @default none */
  readinessProbe?: Input<types.input.core.v1.Probe>;
  /** As in a container. @default none */
  livenessProbe?: Input<types.input.core.v1.Probe>;
  /** Containers that run before the sandbox, without gVisor. @default none */
  initContainers?: Input<Input<types.input.core.v1.Container>[]>;
}

/** A key of a Secret. */
export interface SecretKeyArgs {
  secret: Input<string>;
  key: Input<string>;
}

/** A volume. Set exactly one of `claimTemplate`, `claim`, `emptyDir`, `configMap` and `secret`. */
export interface MountArgs {
  /** The volume's name in the Pod. @default the path: `var-lib-data` */
  name?: Input<string>;
  /** Each sandbox gets a claim. */
  claimTemplate?: Input<ClaimTemplateArgs>;
  /** The name of a PersistentVolumeClaim that all sandboxes share. */
  claim?: Input<string>;
  emptyDir?: Input<types.input.core.v1.EmptyDirVolumeSource>;
  configMap?: Input<string>;
  secret?: Input<string>;
  /** @default false */
  readOnly?: Input<boolean>;
}

/** A PersistentVolumeClaim of each sandbox. */
export interface ClaimTemplateArgs {
  /** Such as `10Gi`. */
  size: Input<string>;
  /** @default the cluster's default class */
  storageClass?: Input<string>;
  /** @default ["ReadWriteOnce"] */
  accessModes?: Input<Input<string>[]>;
}

/** The parts of a SandboxTemplate's spec: a Pod template with one container, and the claims that each sandbox gets. */
export interface PodParts {
  template: Record<string, unknown>;
  volumeClaimTemplates?: unknown[];
}

export function podParts(args: PodArgs): Output<PodParts> {
  const recorded = output({ image: args.image, architecture: args.recordImage }).apply(recordedAnnotation);
  return output({ ...args, recorded }).apply((known) => partsOf(known as Known));
}

/** The arguments with known values. */
type Known = Unwrap<PodArgs> & { recorded: string | undefined };

function partsOf(known: Known): PodParts {
  const mounts = Object.entries(known.mounts ?? {}).map(([path, mount]) => ({
    path,
    name: volumeName(path),
    ...mount,
  }));
  const claims = mounts.flatMap(({ name, claimTemplate }) => (claimTemplate ? [claimOf(name, claimTemplate)] : []));
  const podAnnotations = defined({
    [annotations.image]: known.recorded,
    [annotations.egress]: known.egress && JSON.stringify(known.egress),
    ...disruptionAnnotations(known),
  });
  const { initContainers, nodeSelector, tolerations, affinity, imagePullSecrets } = known;
  const volumes = mounts.flatMap(volumeOf);
  return {
    template: {
      ...(Object.keys(podAnnotations).length > 0 && { metadata: { annotations: podAnnotations } }),
      spec: defined({
        containers: [containerOf(known, mounts)],
        initContainers,
        volumes: volumes.length > 0 ? volumes : undefined,
        nodeSelector,
        tolerations,
        affinity,
        imagePullSecrets: imagePullSecrets?.map((name) => ({ name })),
      }),
    },
    ...(claims.length > 0 && { volumeClaimTemplates: claims }),
  };
}

type Mount = NonNullable<Known["mounts"]>[string] & { path: string; name: string };

function containerOf(known: Known, mounts: readonly Mount[]): object {
  const { env = {}, secretEnv = {}, resources } = known;
  const variables = [
    ...Object.entries(env).map(([name, value]) => ({ name, value })),
    ...Object.entries(secretEnv).map(([name, { secret, key }]) => ({
      name,
      valueFrom: { secretKeyRef: { name: secret, key } },
    })),
  ];
  const { ephemeralStorage, ...others } = resources ?? {};
  return defined({
    name: "sandbox",
    image: known.image,
    command: known.command ?? sleepForever,
    args: known.args,
    env: known.env || known.secretEnv ? variables : undefined,
    ports: known.ports?.map((containerPort) => ({ containerPort })),
    resources: resources && { limits: defined({ ...others, "ephemeral-storage": ephemeralStorage }) },
    volumeMounts:
      mounts.length > 0
        ? mounts.map(({ path, name, readOnly }) => ({ name, mountPath: path, ...defined({ readOnly }) }))
        : undefined,
    securityContext: known.securityContext,
    startupProbe: known.startupProbe,
    readinessProbe: known.readinessProbe,
    livenessProbe: known.livenessProbe,
  });
}

/** The volume of the Pod. Empty for a claim that each sandbox gets, whose volume the controllers add. @throws RunError */
function volumeOf({ path, name, claimTemplate, claim, emptyDir, configMap, secret }: Mount): object[] {
  const sources = defined({
    persistentVolumeClaim: claim === undefined ? undefined : { claimName: claim },
    emptyDir,
    configMap: configMap === undefined ? undefined : { name: configMap },
    secret: secret === undefined ? undefined : { secretName: secret },
  });
  const count = Object.keys(sources).length + (claimTemplate === undefined ? 0 : 1);
  if (count !== 1) {
    throw runError(
      new RametError("InvalidArgument", `The mount ${path} has ${count === 0 ? "no" : "more than one"} volume`, {
        hint: "Set exactly one of claimTemplate, claim, emptyDir, configMap and secret",
      }),
    );
  }
  return claimTemplate === undefined ? [{ name, ...sources }] : [];
}

function claimOf(name: string, { size, storageClass, accessModes = ["ReadWriteOnce"] }: Unwrap<ClaimTemplateArgs>) {
  const resources = { requests: { storage: size } };
  return { metadata: { name }, spec: defined({ accessModes, storageClassName: storageClass, resources }) };
}

/** A DNS label of the path: `/var/lib/data` is `var-lib-data`. */
function volumeName(path: string): string {
  const label = path
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, 64)
    .replace(/^-+|-+$/g, "");
  return label === "" ? "root" : label;
}

async function recordedAnnotation({
  image,
  architecture,
}: {
  image: string;
  architecture: string | undefined;
}): Promise<string | undefined> {
  if (architecture === undefined) return undefined;
  // Other programs do not load the client.
  const { recordImage } = await import("../src/registry/look-up-image.ts");
  const found = await recordImage(image, { architecture }).catch((error: unknown) => {
    throw runError(error);
  });
  return JSON.stringify(found);
}

const sleepForever = ["sleep", "infinity"];
