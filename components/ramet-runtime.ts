import {
  ComponentResource,
  type ComponentResourceOptions,
  type CustomResource,
  type Input,
  log,
  output,
  type Output,
  runtime,
  secret,
} from "@pulumi/pulumi";
import { ownerAnnotation } from "../src/api/names/labels.ts";
import { problemsOfCluster, findRuntime, type RuntimeFacts } from "../provider/handlers/runtime/find-runtime.ts";
import { planRuntime, type RuntimeMode } from "../provider/handlers/runtime/plan-runtime.ts";
import { systemNamespace } from "../src/api/names/system-names.ts";
import { RametError } from "../src/base/errors.ts";
import { type Manifest, privateRanges } from "../src/install/manifest.ts";
import { lastingManifests, serverManifests, storeIsNotMounted } from "../src/install/manifests.ts";
import { keysOf, valueAt } from "../src/install/setting-values.ts";
import {
  besideKeys,
  type BesideInstallOptions,
  besideLastingManifests,
  besideServerManifests,
} from "../src/install/beside-manifests.ts";
import { declareAll, declareRetained, declareObject, rememberCluster } from "./declare.ts";
import { inspectCluster, previewUpgrade } from "./inspect-cluster.ts";
import { ownersOf } from "./placement.ts";
import { installedStore, type RametStore } from "./ramet-store.ts";
import { runError, withRunError } from "./run-error.ts";
import {
  type CellArgs,
  type EgressArgs,
  type EncryptionArgs,
  type ClientApiArgs,
  type GatewayArgs,
  type NamespaceQuotaArgs,
  type ProgramInstallOptions,
  type RegistriesArgs,
  validatedSettings,
} from "./runtime-settings.ts";

export interface RametRuntimeArgs {
  /**
   * Where checkpoints are stored: a bucket or a directory. Adopted controllers keep the store that they were started
   * with. Required unless `mode` is `beside`.
   */
  store?: RametStore;
  /**
   * `install` declares the controllers, `adopt` uses running ones. `auto` adopts controllers that no Pulumi program
   * declares and installs otherwise; controllers of another Pulumi resource are adopted only with `adopt`. `beside` declares
   * controllers that work beside those of OpenKruise Agents or ACS, and only build named snapshots and collect garbage: no
   * gateways, store or cells. @default "auto"
   */
  mode?: RuntimeMode;
  /** The image of controllers and gateways, with the command `ramet`. Required to install. */
  image?: Input<string>;
  /** The image of the cell, in which sandboxes run. Required to install. */
  cellImage?: Input<string>;
  /**
   * The kubeconfig of the cluster as text, for a program that creates its cluster or its own Kubernetes provider.
   * @default the kubeconfig that Pulumi's Kubernetes provider uses
   */
  kubeconfig?: Input<string>;
  /** Number of controller replicas. One is active; another one takes over when it stops. @default 2 */
  replicas?: Input<number>;
  /** Number of gateways, which proxy traffic to sandbox ports. 0 installs none. @default 2 */
  gatewayReplicas?: Input<number>;
  /**
   * IPv4 ranges of the cluster's Pods, Services and nodes, which sandboxes cannot reach. `[]` allows access to all of them.
   * @default the private ranges: 10.0.0.0/8, 100.64.0.0/10, 172.16.0.0/12 and 192.168.0.0/16
   */
  clusterRanges?: readonly Input<string>[];
  /** The cluster's DNS domain, whose names sandboxes cannot resolve unless `egress` names them. @default "cluster.local" */
  clusterDomain?: Input<string>;
  /**
   * The egress rules of all sandboxes, for example `{ default: "deny", allow: ["*.example.org:443"] }`. Namespaces, templates
   * and sandboxes can only narrow them, with the annotation `ramet.dev/egress`. @default `{ default: "allow" }`
   */
  egress?: EgressArgs;
  /**
   * The only namespaces whose sandboxes run, for example `["team-a"]`. They must exist. The controllers have rights on Pods and
   * Secrets in these namespaces only, gateways on Sandboxes, and a NetworkPolicy in each keeps other Pods away from the port of
   * cells. Plain texts, because the names of the declared objects contain them. @default all namespaces
   */
  servedNamespaces?: readonly string[];
  /**
   * The labels of the namespaces that the controllers serve, as in `kubectl get -l`: `"team in (a,b),!legacy"`. Objects elsewhere
   * are left to other controllers. @default all namespaces
   */
  namespaceSelector?: Input<string>;
  /**
   * The namespace of Prometheus. Only its Pods can connect to the metrics ports of controllers and gateways.
   * @default the namespaces with the label `ramet.dev/allow-metrics=true`
   */
  metricsNamespace?: Input<string>;
  /** Whether every Pod can read metrics, which name objects of all tenants. @default false */
  metricsFromAllNamespaces?: boolean;
  /** Whether to declare ServiceMonitors and alerts for the Prometheus operator, and a dashboard for Grafana. @default false */
  monitoring?: boolean;
  /** The confinement of every cell on its node. @default no seccomp profile, and user namespaces where nodes support them */
  cells?: CellArgs;
  /**
   * How the controllers reach the registries from which they read how images are started, for example
   * `{ private: ["registry.internal:5000"] }`. @default registries with public addresses, by HTTPS
   */
  registries?: RegistriesArgs;
  /** Settings of the gateways. @default the defaults of `ramet gateway` */
  gateway?: GatewayArgs;
  /** The client API, which serves the HTTP API of E2B's SDKs; `{}` installs it. @default it is not installed */
  clientApi?: ClientApiArgs;
  /**
   * The limits of each namespace, for example `{ storeBytes: "100Gi" }`. An administrator can set others for one namespace with
   * the annotation `ramet.dev/quota`. @default unlimited bytes, 10000 checkpoints, 10 builds and 2 fetches
   */
  namespaceQuota?: NamespaceQuotaArgs;
  /** How checkpoints are encrypted in the store. @default they are not encrypted by Ramet */
  encryption?: EncryptionArgs;
  /**
   * Whether users with the verb `import` on checkpoints may import volumes of other namespaces and clusters by the handles of their
   * snapshots. The controllers then can read every snapshot that a CSI driver can read. @default false
   */
  importVolumes?: boolean;
  /** Changes the manifest of each declared object, for settings that have no argument. */
  transform?: { object?: (manifest: Manifest) => Manifest };
}

type PlannedMode = "install" | "adopt" | "beside";

interface Found {
  mode: PlannedMode;
  /** The declared objects, by kind and name. */
  objects: Record<string, CustomResource>;
}

/** Ramet's controllers and gateways in a cluster. All other resources depend on them. */
export class RametRuntime extends ComponentResource<Found> {
  /** The mode in effect: `install`, `adopt` or `beside`. */
  declare readonly mode: Output<PlannedMode>;
  /** The declared objects, by kind and name. Empty if the controllers are adopted. */
  declare readonly nodes: { objects: Promise<Record<string, CustomResource>> };

  /** A function cannot be part of the state, so `initialize` does not receive it. It is set after the first await there. */
  readonly #transform: RametRuntimeArgs["transform"];

  constructor(name: string, args: RametRuntimeArgs = {}, opts: ComponentResourceOptions = {}) {
    const { transform, kubeconfig, ...inputs } = args;
    // The arguments of `initialize` are written into the state.
    const kept = kubeconfig === undefined ? {} : { kubeconfig: secret(kubeconfig) };
    super("ramet:index:RametRuntime", name, { ...inputs, ...kept, name }, opts);
    this.#transform = transform;
    const found = this.getData();
    this.mode = output(found.then(({ mode }) => mode));
    this.nodes = { objects: found.then(({ objects }) => objects) };
    this.registerOutputs({ mode: this.mode });
  }

  /** Resources that depend on the component wait for this. */
  protected override async initialize(args: RametRuntimeArgs & { name: string }): Promise<Found> {
    // The URN resolves after the dependencies exist, for example controllers to adopt.
    await new Promise((resolve) => this.urn.apply(resolve));
    rememberCluster(this, args.name);
    const owners = await ownersOf(this, args.name);
    const { mode = "auto", kubeconfig } = args;
    const facts = await inspectCluster(this, {
      find: findRuntime,
      kubeconfig,
      assumption: "it is unknown whether controllers run",
    });
    const isPreview = facts !== undefined && runtime.isDryRun();
    // Beside other controllers, sandboxes need nothing of what is checked.
    if (isPreview && mode !== "beside") await this.#warn(kubeconfig);
    const planned = facts === undefined ? unseen(args) : withRunError(() => planRuntime(mode, facts, owners));
    if (isPreview && planned === "install") await previewUpgrade(this, args);
    const readOnly = facts?.readOnlyCrds ?? [];
    if (planned === "beside") return { mode: planned, objects: this.#installBeside(args, owners[0], facts) };
    return { mode: planned, objects: planned === "install" ? this.#install(args, owners[0], readOnly) : {} };
  }

  /** Reports what `ramet doctor` finds wrong in the cluster. */
  async #warn(kubeconfig: RametRuntimeArgs["kubeconfig"]): Promise<void> {
    const problems = await inspectCluster(this, {
      find: problemsOfCluster,
      kubeconfig,
      assumption: "it is not checked",
    });
    for (const { message, action } of problems ?? []) {
      void log.warn(`${message}${action === undefined ? "" : `. ${action}`}`, this);
    }
  }

  #installBeside(
    args: RametRuntimeArgs & { name: string },
    owner: string,
    facts: RuntimeFacts | undefined,
  ): Found["objects"] {
    const options = besideOptions(args, owner);
    const component = { name: args.name, transform: this.#transform, parent: this };
    if (facts?.otherControllers.length === 0) void log.warn(nothingBeside, this);
    const lasting = declareAll(component, besideLastingManifests(options), declareRetained);
    const others = declareAll(component, besideServerManifests(options), declareObject, Object.values(lasting));
    return { ...lasting, ...others };
  }

  /** @param readOnly CRDs of another project, which must not be changed */
  #install(args: RametRuntimeArgs & { name: string }, owner: string, readOnly: readonly string[]): Found["objects"] {
    const options = installOptions(args, owner);
    const { servedNamespaces } = options;
    const component = { name: args.name, transform: this.#transform, parent: this, servedNamespaces };
    const owned = lastingManifests(options).filter(({ metadata: { name } }) => !readOnly.includes(name));
    const lasting = declareAll(component, owned, declareRetained);
    const others = declareAll(component, serverManifests(options), declareObject, Object.values(lasting));
    if ("claim" in options.store) void log.warn(storeIsNotMounted, this);
    return { ...lasting, ...others };
  }
}

/** The mode that a preview assumes for an unreachable cluster: `install` if all arguments for an installation are set. */
function unseen({ mode = "auto", image, cellImage, store }: RametRuntimeArgs): Found["mode"] {
  if (mode !== "auto") return mode;
  const isEnough = image !== undefined && cellImage !== undefined && store && installedStore(store) !== undefined;
  return isEnough ? "install" : "adopt";
}

/** @throws RunError naming the missing arguments */
function installOptions(args: RametRuntimeArgs, owner: string): ProgramInstallOptions {
  const { image, cellImage, replicas = 2, gatewayReplicas = 2, clusterRanges = privateRanges, clientApi } = args;
  const store = args.store && installedStore(args.store);
  if (image === undefined || cellImage === undefined || store === undefined) {
    const why =
      "Cannot install the controllers: image, cellImage and a store (a bucket, or store.directory with store.claim) are required, and no controllers run in this cluster";
    const hint = "Set these arguments, or start controllers to adopt, on one machine with: ramet local up";
    throw runError(new RametError("InvalidArgument", why, { hint }));
  }
  return {
    ...validatedSettings(keysOf("manifests"), {
      ...args,
      image,
      cellImage,
      replicas,
      gatewayReplicas,
      clusterRanges,
      ...(clientApi && { clientApi: { replicas: 2, ...clientApi } }),
    }),
    store,
    gatewayAnnotations: args.gateway?.annotations,
    namespace: systemNamespace,
    annotations: { [ownerAnnotation]: owner },
  };
}

/** The warning for `mode: "beside"` in a cluster where no other controller is seen. */
const nothingBeside =
  "No controller of OpenKruise Agents or ACS was found in this cluster: install it, because the controllers that are declared with mode beside run no sandboxes";

/** @throws RunError naming arguments that are missing or have no effect */
function besideOptions(args: RametRuntimeArgs, owner: string): BesideInstallOptions<Input<string>, Input<number>> {
  const { image, replicas = 2, clusterRanges = privateRanges } = args;
  const unused = unusedArguments(args);
  if (unused.length > 0) {
    const why = `Cannot install beside other controllers: ${unused.join(", ")} cannot be used with mode "beside", because other controllers run the sandboxes and store their checkpoints`;
    throw runError(new RametError("InvalidArgument", why));
  }
  if (image === undefined) {
    throw runError(new RametError("InvalidArgument", "Cannot install the controllers: image is required"));
  }
  return {
    ...validatedSettings(besideKeys(), { ...args, image, replicas, clusterRanges }),
    beside: "openkruise",
    namespace: systemNamespace,
    annotations: { [ownerAnnotation]: owner },
  };
}

/** The given arguments that set something else. Where another setting of a group has an effect, the settings are named. */
function unusedArguments(args: object): string[] {
  const used = besideKeys();
  const usedGroups = new Set(used.map(groupOf));
  const paths = keysOf("manifests")
    .filter((key) => !used.includes(key))
    .map((key) => (usedGroups.has(groupOf(key)) ? key : groupOf(key)));
  return [...new Set(paths)].filter((path) => valueAt(args, path) !== undefined);
}

function groupOf(key: string): string {
  return key.split(".")[0] ?? "";
}
