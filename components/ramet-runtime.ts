import {
  ComponentResource,
  Config,
  log,
  output,
  runtime,
  type ComponentResourceOptions,
  type CustomResource,
  type Input,
  type Output,
} from "@pulumi/pulumi";
import type { ErrorCode } from "../src/api/error-codes.ts";
import { RametError } from "../src/api/errors.ts";
import { formatStoreAddress } from "../src/api/store-address.ts";
import { systemNamespace } from "../src/api/system-names.ts";
import { parseInstallField, type InstallField, type InstallOptions } from "../src/install/install-options.ts";
import { controllerManifests, lastingManifests, storeIsNotMounted, type Manifest } from "../src/install/manifests.ts";
import { declaredByAnnotation, findRuntime } from "../provider/handlers/runtime/find-runtime.ts";
import { planRuntime, type RuntimeMode } from "../provider/handlers/runtime/plan-runtime.ts";
import { declareAll, declareLasting, declareObject } from "./declare-object.ts";
import { ownerOf } from "./placement.ts";
import { refusal } from "./refusal.ts";

/** Where checkpoints are kept: either `s3` or `directory`. */
export interface RametStore {
  /** A bucket of S3, or of a store that speaks its protocol. On a cluster sandboxes can be checkpointed with such a store alone. */
  s3?: S3Store;
  /** A folder, which the controllers and on one machine all cells have. */
  directory?: Input<string>;
  /** To install: the PersistentVolumeClaim of the namespace `ramet-system` that is mounted at the directory. */
  claim?: Input<string>;
}

/** A place in S3, and how the controllers get at it. */
export interface S3Store {
  /** The bucket's name. It must exist. */
  bucket: Input<string>;
  /** Below which keys checkpoints are kept, such as `ramet/production`. @default the whole bucket */
  prefix?: Input<string>;
  /** The bucket's region. @default what the controllers have in their environment; `us-east-1` with an `endpoint` */
  region?: Input<string>;
  /** Where the store is that is not Amazon's, such as `https://minio.example.com:9000`. @default Amazon's */
  endpoint?: Input<string>;
  /**
   * An IAM role for the controllers' service account (IRSA). It must allow s3:GetObject, s3:PutObject and s3:DeleteObject on what is
   * below the prefix, and s3:ListBucket on the bucket. @default none, as EKS Pod Identity needs none
   */
  roleArn?: Input<string>;
  /** A Secret of the namespace `ramet-system` with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. @default none */
  secret?: Input<string>;
}

export interface RametRuntimeArgs {
  /** Where checkpoints are kept: in a bucket, or in a folder. Controllers that are adopted keep the store that they were started with. */
  store: RametStore;
  /**
   * `install` declares the controllers, `adopt` takes those that run, and `auto` adopts where another than this program has
   * started them. @default "auto"
   */
  mode?: RuntimeMode;
  /** The image with the command `ramet`. Needed to install. */
  image?: Input<string>;
  /** The image of the cell, in which sandboxes run. Needed to install. */
  cellImage?: Input<string>;
  /** How many controllers stand by; one of them works. @default 2 */
  replicas?: Input<number>;
  /** Changes each object that is declared, for what no argument says. */
  transform?: { object?: (manifest: Manifest) => Manifest };
}

type ProgramInstallOptions = InstallOptions<Input<string>, Input<number>>;

interface Found {
  mode: "install" | "adopt";
  /** What is declared, by kind and name. */
  objects: Record<string, CustomResource>;
}

/** Ramet's controllers in a cluster: what all other resources need. */
export class RametRuntime extends ComponentResource<Found> {
  /** What was done: `install` or `adopt`. */
  declare readonly mode: Output<"install" | "adopt">;
  /** The objects that it stands for, by kind and name; none where the controllers were adopted. */
  declare readonly nodes: { objects: Promise<Record<string, CustomResource>> };

  /** A state has no room for a function, so `initialize` is not given it; it is there once that has awaited something. */
  readonly #transform: RametRuntimeArgs["transform"];

  constructor(name: string, args: RametRuntimeArgs, opts: ComponentResourceOptions = {}) {
    const { transform, ...wished } = args;
    super("ramet:index:RametRuntime", name, { ...wished, name }, opts);
    this.#transform = transform;
    const found = this.getData();
    this.mode = output(found.then(({ mode }) => mode));
    this.nodes = { objects: found.then(({ objects }) => objects) };
    this.registerOutputs({ mode: this.mode });
  }

  /** Whoever depends on the component waits for this. */
  protected override async initialize(args: RametRuntimeArgs & { name: string }): Promise<Found> {
    const configuration = new Config("kubernetes");
    const around = {
      configuration: { get: (key: string) => configuration.get(key.replace(/^kubernetes:/, "")) },
      environment: process.env,
    };
    const { mode = "auto" } = args;
    const owner = ownerOf(args.name);
    const planned = await findRuntime(around, systemNamespace)
      .then((facts) => planRuntime(mode, facts, owner))
      .catch((error: unknown) => this.#unseen(mode, RametError.from(error)));
    return { mode: planned, objects: planned === "install" ? this.#install(args, owner) : {} };
  }

  #install(args: RametRuntimeArgs & { name: string }, owner: string): Found["objects"] {
    const options = installOptions(args, owner);
    const component = { name: args.name, transform: this.#transform, parent: this };
    const lasting = declareAll(component, lastingManifests(options), declareLasting);
    const others = declareAll(component, controllerManifests(options), declareObject, Object.values(lasting));
    if ("claim" in options.store) void log.warn(storeIsNotMounted, this);
    return { ...lasting, ...others };
  }

  /** A preview goes on without the cluster; nothing else does. */
  #unseen(mode: RuntimeMode, error: RametError): Found["mode"] {
    if (!runtime.isDryRun() || !unseen.has(error.code)) throw refusal(error);
    void log.warn(`The cluster cannot be looked at, so what it needs is not shown: ${error.describe()}`, this);
    return mode === "install" ? "install" : "adopt";
  }
}

/** @throws RunError naming what is missing */
function installOptions(
  { image, cellImage, replicas = 2, store }: RametRuntimeArgs,
  owner: string,
): ProgramInstallOptions {
  const place = installedStore(store);
  if (image === undefined || cellImage === undefined || place === undefined) {
    const why =
      "No controllers run in this cluster, and to install them image, cellImage and store.s3, or store.directory with store.claim, are needed";
    const hint = "Or start them otherwise, on one machine with ramet local up; then they are adopted";
    throw refusal(new RametError("InvalidArgument", why, { hint }));
  }
  return {
    image: legal("image", image),
    cellImage: legal("cellImage", cellImage),
    replicas: legal("replicas", replicas),
    store: place,
    namespace: systemNamespace,
    annotations: { [declaredByAnnotation]: owner },
  };
}

/** `undefined` where it is not said, or only a part of it. @throws RunError when it is said twice */
function installedStore({ s3, directory, claim }: RametStore): ProgramInstallOptions["store"] | undefined {
  if (s3 === undefined) {
    if (directory === undefined || claim === undefined) return undefined;
    return { directory: legal("store.directory", directory), claim: legal("store.claim", claim) };
  }
  if (directory !== undefined || claim !== undefined) {
    const hint = "Leave out store.directory and store.claim, or store.s3";
    throw refusal(new RametError("InvalidArgument", "Checkpoints are kept in one store, and two are named", { hint }));
  }
  const { roleArn, secret, ...location } = s3;
  return {
    address: output(location).apply((known) => refusing(() => formatStoreAddress(known))),
    ...(roleArn !== undefined && { roleArn: legal("store.roleArn", roleArn) }),
    ...(secret !== undefined && { secret: legal("store.secret", secret) }),
  };
}

/** Judged when it is known. @throws RunError */
function legal<T>(field: InstallField, value: Input<T>): Output<T> {
  return output(value).apply((known) => refusing(() => parseInstallField(field, known) as T));
}

/** @throws RunError in place of what is thrown */
function refusing<T>(judge: () => T): T {
  try {
    return judge();
  } catch (error) {
    throw refusal(error);
  }
}

const unseen = new Set<ErrorCode>(["Unavailable", "Timeout", "NotFound", "Unauthorized"]);
