import type { apiextensions } from "@pulumi/kubernetes";
import { all, ComponentResource, type ComponentResourceOptions, type Input, output, type Output } from "@pulumi/pulumi";
import { sandboxTemplateKind } from "../src/api/kinds/sandbox-template.ts";
import { deleteInBackground } from "./await.ts";
import { declareKind, type ObjectTransform } from "./declare.ts";
import { type PlacementArgs, placementOf } from "./placement.ts";

export interface SandboxTemplateArgs extends PlacementArgs, PodArgs {
  /**
   * What is kept over a pause, and by default in a checkpoint: `memory`, `filesystem`, `ip`.
   * @default what the controller takes
   */
  persistentContents?: Input<Input<string>[]>;
  /** Changes what is declared, for what no argument says. */
  transform?: ObjectTransform;
}

/** What sandboxes are made from. */
export class SandboxTemplate extends ComponentResource {
  declare readonly name: Output<string>;
  declare readonly namespace: Output<string>;
  /** The spec, as it stands in the cluster. */
  declare readonly spec: Output<Record<string, unknown>>;
  /** The objects that it stands for. */
  declare readonly nodes: { template: apiextensions.CustomResource };

  constructor(name: string, args: SandboxTemplateArgs, opts: ComponentResourceOptions = {}) {
    const { transform, ...inputs } = args;
    super("ramet:index:SandboxTemplate", name, inputs, opts);
    const placement = placementOf(name, args);
    const declaredSpec = all([podTemplate(args), output(args.persistentContents)]).apply(
      ([pod, persistentContents]): Record<string, unknown> => ({
        template: pod,
        ...(persistentContents !== undefined && { persistentContents }),
      }),
    );
    const metadata = { ...placement, annotations: deleteInBackground };
    const declared = declareKind(this, name, sandboxTemplateKind, { metadata, spec: declaredSpec, transform });
    const { object: template, spec } = declared;
    // What is made from it waits until it is there.
    this.name = template.metadata.name;
    this.namespace = placement.namespace;
    this.spec = spec;
    this.nodes = { template };
    this.registerOutputs({ name: this.name, namespace: this.namespace, spec });
  }
}

/** The Pod that a sandbox runs in, in the words that most need. */
export interface PodArgs {
  /** The sandbox's image: its root filesystem. Pin it by digest: a tag that moves changes nothing that is built. */
  image: Input<string>;
  /**
   * The entrypoint, with whose end the sandbox ends. Most images' own ends at once without a terminal.
   * @default ["sleep", "infinity"]
   */
  command?: Input<Input<string>[]>;
  /** The entrypoint's arguments. @default none */
  args?: Input<Input<string>[]>;
  /** Variables of the entrypoint and of everything that is started in the sandbox. */
  env?: Input<Record<string, Input<string>>>;
  /** Ports that are reachable at the sandbox's address. */
  ports?: Input<Input<number>[]>;
  /** What the sandbox may use, as Kubernetes writes it: `{ cpu: "1", memory: "512Mi" }`. @default no limit */
  resources?: Input<{ cpu?: Input<string>; memory?: Input<string> }>;
}

/** A Kubernetes Pod template of one container. */
function podTemplate(args: PodArgs): Output<Record<string, unknown>> {
  const { image, command, args: parameters, env, ports, resources } = args;
  return output({ image, command, parameters, env, ports, resources }).apply((known): Record<string, unknown> => ({
    spec: {
      containers: [
        withoutUndefined({
          name: "sandbox",
          image: known.image,
          command: known.command ?? stays,
          args: known.parameters,
          env: known.env && Object.entries(known.env).map(([name, value]) => ({ name, value })),
          ports: known.ports?.map((containerPort) => ({ containerPort })),
          resources: known.resources && { limits: withoutUndefined(known.resources) },
        }),
      ],
    },
  }));
}

const stays = ["sleep", "infinity"];

function withoutUndefined(values: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}
