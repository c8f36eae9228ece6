import type { apiextensions } from "@pulumi/kubernetes";
import { all, ComponentResource, type ComponentResourceOptions, type Input, output, type Output } from "@pulumi/pulumi";
import { sandboxTemplateKind } from "../src/api/kinds/sandbox-template.ts";
import { annotations } from "../src/api/names/labels.ts";
import { defined } from "../src/base/defined.ts";
import { deleteInBackground } from "./await.ts";
import { declareKind, type ObjectTransform } from "./declare.ts";
import { type PlacementArgs, placementOf } from "./placement.ts";
import { runError } from "./run-error.ts";

export interface SandboxTemplateArgs extends PlacementArgs, PodArgs {
  /**
   * The contents that a pause keeps and, by default, a checkpoint has: `memory`, `filesystem`, and in a checkpoint `volumes`. Other words
   * select nothing. @default the controller's default
   */
  persistentContents?: Input<Input<string>[]>;
  /** With `volumes` in `persistentContents`, which: their names in the Pod. Also if `persistentContents` is absent. @default all */
  volumes?: Input<Input<string>[]>;
  /** Changes the declared manifest, for settings that have no argument. */
  transform?: ObjectTransform;
}

/** The template from which sandboxes are created. */
export class SandboxTemplate extends ComponentResource {
  declare readonly name: Output<string>;
  declare readonly namespace: Output<string>;
  /** The spec of the SandboxTemplate in the cluster. */
  declare readonly spec: Output<Record<string, unknown>>;
  /** The declared objects. */
  declare readonly nodes: { template: apiextensions.CustomResource };

  constructor(name: string, args: SandboxTemplateArgs, opts: ComponentResourceOptions = {}) {
    const { transform, ...inputs } = args;
    super("ramet:index:SandboxTemplate", name, inputs, opts);
    const placement = placementOf(name, args);
    const declaredSpec = all([podTemplate(args), output(args.persistentContents), output(args.volumes)]).apply(
      ([pod, persistentContents, volumes]): Record<string, unknown> =>
        defined({ template: pod, persistentContents, volumes }),
    );
    const metadata = { ...placement, annotations: deleteInBackground };
    const declared = declareKind(this, name, sandboxTemplateKind, { metadata, spec: declaredSpec, transform });
    const { object: template, spec } = declared;
    // Resources that use this name wait until the object exists.
    this.name = template.metadata.name;
    this.namespace = placement.namespace;
    this.spec = spec;
    this.nodes = { template };
    this.registerOutputs({ name: this.name, namespace: this.namespace, spec });
  }
}

/** The most common settings of a sandbox's Pod. */
export interface PodArgs {
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
  /** Arguments of the entrypoint. @default none */
  args?: Input<Input<string>[]>;
  /** Environment variables of the entrypoint and of all other processes in the sandbox. */
  env?: Input<Record<string, Input<string>>>;
  /** Ports that are reachable at the sandbox's address. */
  ports?: Input<Input<number>[]>;
  /** Resource limits of the sandbox as Kubernetes quantities: `{ cpu: "1", memory: "512Mi" }`. @default no limit */
  resources?: Input<{ cpu?: Input<string>; memory?: Input<string> }>;
}

/** Returns a Kubernetes Pod template with one container. */
function podTemplate(args: PodArgs): Output<Record<string, unknown>> {
  const { image, command, args: parameters, env, ports, resources, recordImage: architecture } = args;
  const recorded = output({ image, architecture }).apply(recordedAnnotation);
  const parts = { image, command, parameters, env, ports, resources, recorded };
  return output(parts).apply((known): Record<string, unknown> => ({
    ...(known.recorded !== undefined && { metadata: { annotations: { [annotations.image]: known.recorded } } }),
    spec: {
      containers: [
        defined({
          name: "sandbox",
          image: known.image,
          command: known.command ?? sleepForever,
          args: known.parameters,
          env: known.env && Object.entries(known.env).map(([name, value]) => ({ name, value })),
          ports: known.ports?.map((containerPort) => ({ containerPort })),
          resources: known.resources && { limits: defined(known.resources) },
        }),
      ],
    },
  }));
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
