import { output, type Input, type Output } from "@pulumi/pulumi";

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
export function podTemplate(args: PodArgs): Output<Record<string, unknown>> {
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
